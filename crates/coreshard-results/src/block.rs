//! What `bench block` measured, under fio's own keys, and under further ones that fio lacks.
//!
//! Keys that fio has (version 3.33) mean what they mean there. Those that it lacks come last in
//! their object.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The result of a whole command, as fio's `--output-format=json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockResults {
    /// Who wrote this; fio's tools look at the key only.
    #[serde(rename = "fio version")]
    pub version: String,
    /// Seconds since 1970.
    pub timestamp: u64,
    /// The jobs, in the order in which they ran; with several runs, each job's last run.
    pub jobs: Vec<JobResult>,
    /// The machine in one line.
    pub machine: String,
    /// What the code ran on: `host` or `sim`.
    pub platform: String,
    /// Each job's runs taken together.
    pub repeats: Vec<Repeats>,
    /// What a reader must know to read the figures right.
    pub notes: Vec<String>,
}

impl BlockResults {
    /// As fio's `json` is without what its `json+` has.
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

/// One job's result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// The job's name.
    pub jobname: String,
    /// As fio's.
    pub groupid: u32,
    /// 0: without an error.
    pub error: i32,
    /// Whole seconds that it took.
    pub elapsed: u64,
    /// What the job was to do.
    #[serde(rename = "job options")]
    pub options: BTreeMap<String, String>,
    /// Its reads.
    pub read: Direction,
    /// Its writes.
    pub write: Direction,
    /// Always empty; fio's tools look for it.
    pub trim: Direction,
    /// Milliseconds, all threads together.
    pub job_runtime: u64,
    /// Per cent of the run that its threads computed in user space, added up.
    pub usr_cpu: f64,
    /// Per cent of the run that its threads computed in the kernel, added up.
    pub sys_cpu: f64,
    /// Context switches of its threads.
    pub ctx: u64,
    /// As fio's.
    pub majf: u64,
    /// As fio's.
    pub minf: u64,
    /// How requests were done, with what could not be had.
    pub engine: String,
    /// CPU time of the whole process, kernel threads on its behalf included, for each request.
    pub cpu_ns_per_io: f64,
    /// Requests in flight against throughput times latency.
    pub littles_law: LittlesLaw,
    /// Requests handed to the device, and those that came to their end, as its counters say.
    pub issued: u64,
    /// See `issued`.
    pub done: u64,
    /// Of `done`: those that failed.
    pub errors: u64,
    /// Bytes that were read back and found to be right.
    pub verified_bytes: u64,
}

/// Little's law: what is in flight is what comes in a second, times the seconds that it stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LittlesLaw {
    /// Requests in flight: the average over time, taken at each change.
    pub in_flight: f64,
    /// Requests a second times their average latency.
    pub iops_times_latency: f64,
    /// The one divided by the other: 1 where both were measured right.
    pub ratio: f64,
}

/// Reads or writes of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    /// Bytes.
    pub io_bytes: u64,
    /// KiB.
    pub io_kbytes: u64,
    /// Bytes a second.
    pub bw_bytes: u64,
    /// KiB a second.
    pub bw: u64,
    /// Requests a second.
    pub iops: f64,
    /// Milliseconds.
    pub runtime: u64,
    /// Requests.
    pub total_ios: u64,
    /// Requests that transferred less than they were to.
    pub short_ios: u64,
    /// As fio's.
    pub drop_ios: u64,
    /// From before a request is submitted until it is.
    pub slat_ns: Latency,
    /// From there until it is completed.
    pub clat_ns: Latency,
    /// Both together.
    pub lat_ns: Latency,
    /// KiB a second in the slowest half second.
    pub bw_min: u64,
    /// KiB a second in the fastest half second.
    pub bw_max: u64,
    /// KiB a second, the mean of the half seconds.
    pub bw_mean: f64,
    /// Their standard deviation.
    pub bw_dev: f64,
    /// How many half seconds there are.
    pub bw_samples: u64,
    /// Requests a second in the slowest half second.
    pub iops_min: u64,
    /// Requests a second in the fastest half second.
    pub iops_max: u64,
    /// Requests a second, the mean of the half seconds.
    pub iops_mean: f64,
    /// Their standard deviation.
    pub iops_stddev: f64,
    /// How many half seconds there are.
    pub iops_samples: u64,
}

/// Times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The shortest.
    pub min: u64,
    /// The longest.
    pub max: u64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub stddev: f64,
    /// How many.
    #[serde(rename = "N")]
    pub count: u64,
    /// By fio's names of percentiles, such as `99.000000`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub percentile: BTreeMap<Percentile, u64>,
    /// How often each time was seen, in fio's bins, as its `--output-format=json+` has them: a time in
    /// the middle of the bin, and the count.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bins: BTreeMap<u64, u64>,
}

/// A percentile, written as fio does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percentile {
    /// Hundredths of a per cent.
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
        let percent = percent.ok_or_else(|| D::Error::custom("a percentile is 0 to 100"))?;
        Ok(Self { hundredths: (percent * 100.0).round() as u32 })
    }
}

/// The runs of a job taken together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Repeats {
    /// The job's name.
    pub jobname: String,
    /// Requests a second in each run, in the order of the runs.
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
    /// Of the runs of job `jobname`.
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
