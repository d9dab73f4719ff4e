//! Results of `bench block`, with fio's keys and additional ones.
//!
//! Keys of fio (version 3.33) have the meaning they have in fio. Additional keys come last in their object.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The results of one command, in fio's JSON format (`--output-format=json`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockResults {
    /// The program's version. fio's tools only check that the key exists.
    #[serde(rename = "fio version")]
    pub version: String,
    /// Time of the run, in seconds since 1970.
    pub timestamp: u64,
    /// The jobs in the order they ran. With several runs, the last run of each job.
    pub jobs: Vec<JobResult>,
    /// The machine in one line.
    pub machine: String,
    /// The platform: `host` or `sim`.
    pub platform: String,
    /// Statistics over the runs of each job.
    pub repeats: Vec<Repeats>,
    /// Notes for interpreting the figures.
    pub notes: Vec<String>,
}

impl BlockResults {
    /// Removes the latency counts that fio prints only with `json+`.
    pub fn without_bins(mut self) -> Self {
        for job in &mut self.jobs {
            for direction in [&mut job.read, &mut job.write] {
                for latency in
                    [&mut direction.slat_ns, &mut direction.clat_ns, &mut direction.lat_ns]
                {
                    latency.bins.clear();
                }
            }
        }
        self
    }
}

/// The result of one job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// The job's name.
    pub jobname: String,
    /// The group, as in fio.
    pub groupid: u32,
    /// The error number; 0 means none.
    pub error: i32,
    /// Duration in whole seconds.
    pub elapsed: u64,
    /// The options of the job.
    #[serde(rename = "job options")]
    pub options: BTreeMap<String, String>,
    /// Reads.
    pub read: Direction,
    /// Writes.
    pub write: Direction,
    /// Always empty, but required by fio's tools.
    pub trim: Direction,
    /// Total run time of all threads, in milliseconds.
    pub job_runtime: u64,
    /// User CPU time of the threads, in percent of the run time, added up.
    pub usr_cpu: f64,
    /// System CPU time of the threads, in percent of the run time, added up.
    pub sys_cpu: f64,
    /// Context switches of the threads.
    pub ctx: u64,
    /// Major page faults, as in fio.
    pub majf: u64,
    /// Minor page faults, as in fio.
    pub minf: u64,
    /// The I/O engine used, and options that were not available.
    pub engine: String,
    /// CPU time of the whole process per request, including kernel threads on its behalf.
    pub cpu_ns_per_io: f64,
    /// Comparison of requests in flight with throughput times latency.
    pub littles_law: LittlesLaw,
    /// Requests submitted to the device, by its counters.
    pub issued: u64,
    /// Requests completed by the device, by its counters.
    pub done: u64,
    /// Failed requests among `done`.
    pub errors: u64,
    /// Bytes that were read back and verified.
    pub verified_bytes: u64,
}

/// Little's law: requests in flight equal throughput times latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LittlesLaw {
    /// Requests in flight: the average over time.
    pub in_flight: f64,
    /// Requests per second times average latency.
    pub iops_times_latency: f64,
    /// `in_flight` divided by `iops_times_latency`; 1 if both were measured correctly.
    pub ratio: f64,
}

/// Reads or writes of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    /// Bytes.
    pub io_bytes: u64,
    /// KiB.
    pub io_kbytes: u64,
    /// Bytes per second.
    pub bw_bytes: u64,
    /// KiB per second.
    pub bw: u64,
    /// Requests per second.
    pub iops: f64,
    /// Run time in milliseconds.
    pub runtime: u64,
    /// Requests.
    pub total_ios: u64,
    /// Requests that transferred less than requested.
    pub short_ios: u64,
    /// Dropped requests, as in fio.
    pub drop_ios: u64,
    /// Time to submit a request.
    pub slat_ns: Latency,
    /// Time from submission to completion.
    pub clat_ns: Latency,
    /// Time from before submission to completion.
    pub lat_ns: Latency,
    /// KiB per second in the slowest half second.
    pub bw_min: u64,
    /// KiB per second in the fastest half second.
    pub bw_max: u64,
    /// KiB per second, mean over half seconds.
    pub bw_mean: f64,
    /// Standard deviation of KiB per second.
    pub bw_dev: f64,
    /// Number of half seconds.
    pub bw_samples: u64,
    /// Requests per second in the slowest half second.
    pub iops_min: u64,
    /// Requests per second in the fastest half second.
    pub iops_max: u64,
    /// Requests per second, mean over half seconds.
    pub iops_mean: f64,
    /// Standard deviation of requests per second.
    pub iops_stddev: f64,
    /// Number of half seconds.
    pub iops_samples: u64,
}

/// The distribution of a time, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The minimum.
    pub min: u64,
    /// The maximum.
    pub max: u64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub stddev: f64,
    /// Number of requests.
    #[serde(rename = "N")]
    pub count: u64,
    /// Percentiles by fio's names, such as `99.000000`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub percentile: BTreeMap<Percentile, u64>,
    /// Latency counts in fio's bins, as with `--output-format=json+`: the middle of each bin, and the count.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bins: BTreeMap<u64, u64>,
}

/// A percentile, formatted as in fio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percentile {
    /// Hundredths of a percent.
    pub hundredths: u32,
}

impl Serialize for Percentile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:.6}", f64::from(self.hundredths) / 100.0))
    }
}

impl<'de> Deserialize<'de> for Percentile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let percent = text.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
        let percent =
            percent.ok_or_else(|| D::Error::custom("invalid percentile: expected 0 to 100"))?;
        Ok(Self { hundredths: (percent * 100.0).round() as u32 })
    }
}

/// Statistics over the runs of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Repeats {
    /// The job's name.
    pub jobname: String,
    /// Requests per second of each run, in order.
    pub iops: Vec<f64>,
    /// Their average.
    pub average: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
    /// (max − min) / max.
    pub spread: f64,
}

impl Repeats {
    /// Computes the statistics of the runs of job `jobname`.
    pub fn new(jobname: &str, iops: Vec<f64>) -> Self {
        let max = iops.iter().copied().fold(0.0, f64::max);
        let min = iops.iter().copied().fold(f64::INFINITY, f64::min);
        let average = iops.iter().sum::<f64>() / iops.len().max(1) as f64;
        let spread = if max > 0.0 { (max - min) / max } else { 0.0 };
        Self { jobname: jobname.to_owned(), average, min: min.min(max), max, spread, iops }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_the_range_over_the_highest() {
        let repeats = Repeats::new("a", vec![4_200.0, 6_700.0, 6_000.0]);
        assert_eq!((repeats.min, repeats.max), (4_200.0, 6_700.0));
        assert!((repeats.spread - 0.373).abs() < 0.001, "{repeats:?}");
        assert_eq!(Repeats::new("b", vec![]).spread, 0.0);
    }

    #[test]
    fn keys_are_fio_s() {
        let mut latency = Latency { count: 1, ..Latency::default() };
        latency.percentile.insert(Percentile { hundredths: 9_900 }, 7);
        latency.percentile.insert(Percentile { hundredths: 100 }, 1);
        let json = serde_json::to_string(&latency).unwrap();
        assert!(json.ends_with(r#""N":1,"percentile":{"1.000000":1,"99.000000":7}}"#), "{json}");
        let json = serde_json::to_value(JobResult::default()).unwrap();
        for key in ["jobname", "job options", "read", "write", "usr_cpu", "sys_cpu", "ctx"] {
            assert!(json.get(key).is_some(), "{key}");
        }
        for key in
            ["iops", "iops_min", "iops_max", "iops_mean", "iops_stddev", "bw_bytes", "clat_ns"]
        {
            assert!(json["read"].get(key).is_some(), "{key}");
        }
    }
}
