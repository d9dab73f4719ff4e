//! Results of `bench queue`: plain data with a stable JSON form.
//!
//! JSON keys are the field names, in the order of the fields. The first keys of each type, up to and including
//! `results` and `end_to_end_p99_ns`, are stable. New keys are only added after them. Durations are whole nanoseconds.
//!
//! JSON has no NaN and no infinity. A figure that is not finite is written as `null`, which is read back as NaN if a
//! figure is required, so a written file can always be read.

use serde::{Deserialize, Deserializer, Serialize};

use crate::Usl;
use crate::column::{Cell, Column, Group, PAGE, Unit, Value, always, of, rows};

const RATE: Group = Group { short: "items/s", long: "Items per second" };
const CALL: Group = Group { short: "call", long: "Queueing call" };
const END_TO_END: Group = Group { short: "e2e", long: "Until the item ran" };
const LOCK: Group = Group { short: "lock held", long: "Lock held" };
const WAKE_UPS: Group = Group { short: "wakes", long: "Wake-ups" };
const PODS: Group = Group { short: "", long: "Scope" };

/// How producers behave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each producer waits until its item has run before it queues the next.
    #[default]
    Closed,
    /// Each producer keeps up to [`QueueResults::outstanding`] items in flight without waiting for individual items.
    Flood,
}

impl Mode {
    /// The mode's name, as in JSON: `closed` or `flood`.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Closed => "closed",
            Mode::Flood => "flood",
        }
    }
}

rows! {
    /// Results of one `bench queue`: the machine, the options, and a measurement of each combination of variants.
    pub struct QueueResults {
        /// The machine in one line, or the name or synthetic string of a virtual topology.
        machine: String = Text;
        /// The platform: `host` for real threads, `sim` for a simulated machine.
        platform: String = Text;
        /// Number of producers, each a thread.
        threads: usize = Count;
        /// Items per producer and run.
        items_per_thread: u64 = Count;
        /// Runs of each measurement, interleaved.
        runs: usize = Count;
        /// One measurement per combination of variants, in display order: scopes from fine to coarse, then wake
        /// policies and intakes from the oldest to the newest.
        results: Vec<QueueMeasurement> = Text;

        /// Whether producers waited for each item.
        #[serde(default)]
        mode: Mode = Text;
        /// Maximum items in flight per producer; 1 in closed mode.
        #[serde(default = "one")]
        outstanding: u64 = Count;
        /// Whether the topology was laid over the real CPUs. The figures then say nothing about the machine it is named
        /// after.
        #[serde(default)]
        virtual_topology: bool = Text;
        /// The model name of the processor, if known.
        #[serde(default)]
        cpu_model: Option<String> = Text;
        /// The kernel's name and release, if known.
        #[serde(default)]
        kernel: Option<String> = Text;
        /// Notes for interpreting the figures, one sentence each: scopes with equal pods, more producers than CPUs, a
        /// quota.
        #[serde(default)]
        notes: Vec<String> = Text;
        /// Each wake policy relative to the oldest measured one, per scope and intake.
        #[serde(default)]
        wake_ratios: Vec<WakeRatio> = Text;
        /// Throughput by number of CPUs for each combination; empty if one number was measured.
        #[serde(default)]
        curves: Vec<ScalingCurve> = Text;
        /// The names of all wake policies, measured or not, the oldest first. A policy's index is its colour in pages,
        /// so that pages can be compared.
        #[serde(default = "first_wakes")]
        wakes: Vec<String> = Text;
    }
}

/// The scaling of one combination with the number of CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScalingCurve {
    /// The affinity scope.
    pub scope: String,
    /// The wake policy.
    pub wake: String,
    /// The intake.
    pub intake: String,
    /// Points by number of CPUs, in ascending order.
    pub points: Vec<ScalingPoint>,
    /// The fitted universal scalability law; `None` with fewer than three points.
    #[serde(default)]
    pub usl: Option<Usl>,
}

/// One combination on some of the CPUs, with a producer on each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScalingPoint {
    /// Number of CPUs.
    pub cpus: usize,
    /// Items run per second: the median over the runs.
    #[serde(deserialize_with = "null_is_nan")]
    pub items_per_sec: f64,
    /// Items per second of the slowest run.
    #[serde(deserialize_with = "null_is_nan")]
    pub items_per_sec_min: f64,
    /// Items per second of the fastest run.
    #[serde(deserialize_with = "null_is_nan")]
    pub items_per_sec_max: f64,
    /// Median time of the queueing call alone, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile of the time from before the queueing call until the item ran, in nanoseconds.
    pub end_to_end_p99_ns: u64,
    /// First quartile of items per second over the seeds; `None` if not simulated.
    #[serde(default)]
    pub items_per_sec_q1: Option<f64>,
    /// Third quartile of items per second over the seeds; `None` if not simulated.
    #[serde(default)]
    pub items_per_sec_q3: Option<f64>,
}

/// One wake policy relative to another in the same scope and with the same intake, run by run. Both are measured in
/// succession in each run, so temporary disturbances affect both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WakeRatio {
    /// The affinity scope of both.
    pub scope: String,
    /// The intake of both.
    pub intake: String,
    /// The wake policy.
    pub wake: String,
    /// The wake policy of the denominator.
    pub over: String,
    /// Whether producers share pools in this scope and so contend for a lock.
    pub contended: bool,
    /// Ratio of the throughputs: median over the runs.
    #[serde(deserialize_with = "null_is_nan")]
    pub items_per_sec_ratio: f64,
    /// The smallest ratio of a run.
    #[serde(deserialize_with = "null_is_nan")]
    pub items_per_sec_ratio_min: f64,
    /// The largest ratio of a run.
    #[serde(deserialize_with = "null_is_nan")]
    pub items_per_sec_ratio_max: f64,
    /// Ratio of the lock hold times per item; `None` if not measured, or 0.
    #[serde(default)]
    pub lock_hold_ratio: Option<f64>,
    /// First quartile of the ratio over the seeds; `None` if not simulated.
    #[serde(default)]
    pub items_per_sec_ratio_q1: Option<f64>,
    /// Third quartile of the ratio over the seeds; `None` if not simulated.
    #[serde(default)]
    pub items_per_sec_ratio_q3: Option<f64>,
}

impl WakeRatio {
    /// Returns the range of the ratio: its quartiles over seeds, or the range over measured runs.
    pub fn range(&self) -> (f64, f64) {
        let quartiles = self.items_per_sec_ratio_q1.zip(self.items_per_sec_ratio_q3);
        quartiles.unwrap_or((self.items_per_sec_ratio_min, self.items_per_sec_ratio_max))
    }
}

rows! {
    /// The figures of one combination of scope, wake policy and intake.
    ///
    /// Variants are spelled as in the command's options. A throughput is the median over the runs. A latency is taken
    /// from the merged samples of all runs.
    pub struct QueueMeasurement {
        /// The affinity scope: `cpu`, `smt`, `cache_shard`, `cache`, `numa` or `system`.
        scope: String = Text [always("scope")];
        /// The wake policy, one of those in `wakes`.
        wake: String = Text [always("wake")];
        /// How an item enters its pool: `locked` or `lock-free`.
        intake: String = Text [always("intake")];
        /// Items per second of all producers: median over the runs.
        #[serde(deserialize_with = "null_is_nan")]
        items_per_sec: f64 = PerSecond [of(RATE, "median", 0)];
        /// Items per second of the slowest run.
        #[serde(deserialize_with = "null_is_nan")]
        items_per_sec_min: f64 = PerSecond [of(RATE, "slowest run", PAGE)];
        /// Items per second of the fastest run.
        #[serde(deserialize_with = "null_is_nan")]
        items_per_sec_max: f64 = PerSecond [of(RATE, "fastest run", PAGE)]
            { Column::derived(Unit::Part, of(RATE, "spread", 4), |measurement, _| Value::Figure(measurement.spread())) };
        /// Median time of the queueing call alone, in nanoseconds.
        p50_ns: u64 = Nanoseconds [of(CALL, "p50", 1)];
        /// 90th percentile of the queueing call, in nanoseconds.
        p90_ns: u64 = Nanoseconds [of(CALL, "p90", 7)];
        /// 95th percentile of the queueing call, in nanoseconds.
        p95_ns: u64 = Nanoseconds [of(CALL, "p95", 5)];
        /// 99th percentile of the queueing call, in nanoseconds.
        p99_ns: u64 = Nanoseconds [of(CALL, "p99", 3)];
        /// The longest queueing call, in nanoseconds.
        max_ns: u64 = Nanoseconds [of(CALL, "max", 8)];
        /// Median time from before the queueing call until the item ran, in nanoseconds.
        end_to_end_p50_ns: u64 = Nanoseconds [of(END_TO_END, "p50", 6)];
        /// 99th percentile of the time from before the queueing call until the item ran, in nanoseconds.
        end_to_end_p99_ns: u64 = Nanoseconds [of(END_TO_END, "p99", 2)];

        /// Lock hold time per item, in nanoseconds; absent if not measured.
        #[serde(default)]
        lock_hold_ns_per_item: Option<f64> = Nanoseconds [of(LOCK, "per item", 9)];
        /// Longest lock hold time, in nanoseconds; absent if not measured.
        #[serde(default)]
        lock_hold_max_ns: Option<u64> = Nanoseconds [of(LOCK, "longest", PAGE)];
        /// Wake-ups per item; absent if not counted.
        #[serde(default)]
        wakeups_per_item: Option<f64> = Factor [of(WAKE_UPS, "per item", 10)];
        /// Number of pods (pools) of this scope.
        #[serde(default)]
        pods: usize = Count
            { Column::derived(Unit::Count, of(PODS, "pods", PAGE), |measurement, _| match measurement.pods {
                0 => Value::Absent,
                pods => Value::Whole(pods as u64),
            }) };
        /// A finer scope with the same pods on this machine, so that both differ by noise alone; absent if there is
        /// none.
        #[serde(default)]
        same_pods_as: Option<String> = Text [of(PODS, "the same as", PAGE)];
        /// First quartile of items per second over the seeds; absent if not simulated.
        #[serde(default)]
        items_per_sec_q1: Option<f64> = PerSecond [of(RATE, "first quartile", PAGE)];
        /// Third quartile of items per second over the seeds; absent if not simulated.
        #[serde(default)]
        items_per_sec_q3: Option<f64> = PerSecond [of(RATE, "third quartile", PAGE)]
            { Column::derived(Unit::PerSecondRounded, of(RATE, "quartiles", 3), |measurement, _| {
                match (measurement.items_per_sec_q1, measurement.items_per_sec_q3) {
                    (Some(q1), Some(q3)) => Value::Range(q1, q3),
                    _ => Value::Absent,
                }
            }) };
    }
}

impl Cell for Mode {
    fn value(&self) -> Value<'_> {
        Value::Text(self.name())
    }
}

impl QueueMeasurement {
    /// Returns the range of the throughput: its quartiles over seeds, or the range over measured runs.
    pub fn range(&self) -> (f64, f64) {
        let quartiles = self.items_per_sec_q1.zip(self.items_per_sec_q3);
        quartiles.unwrap_or((self.items_per_sec_min, self.items_per_sec_max))
    }

    /// The affinity scope, wake policy and intake of a queue by default.
    pub const DEFAULT: [&'static str; 3] = ["cache_shard", "coalesced", "lock-free"];

    /// Returns whether this is what a queue has by default.
    pub fn is_default(&self) -> bool {
        [&self.scope, &self.wake, &self.intake] == Self::DEFAULT
    }

    /// Returns (max − min) / max of the throughput over the runs; NaN without runs.
    pub fn spread(&self) -> f64 {
        (self.items_per_sec_max - self.items_per_sec_min) / self.items_per_sec_max
    }
}

impl QueueResults {
    /// The keys of the benchmark's options, in the order of the leading columns of a CSV file.
    pub const IN_EACH_ROW: [&'static str; 8] = [
        "machine",
        "platform",
        "virtual_topology",
        "mode",
        "threads",
        "outstanding",
        "items_per_thread",
        "runs",
    ];

    /// Returns the measurement with the highest throughput, the first one on a tie; `None` if no measurement has a
    /// figure.
    pub fn best(&self) -> Option<&QueueMeasurement> {
        self.measured().reduce(|a, b| if b.items_per_sec > a.items_per_sec { b } else { a })
    }

    /// Returns the measurement with the lowest throughput, the first one on a tie; `None` if no measurement has a
    /// figure.
    pub fn worst(&self) -> Option<&QueueMeasurement> {
        self.measured().reduce(|a, b| if b.items_per_sec < a.items_per_sec { b } else { a })
    }

    /// Returns the measurements with a finite throughput.
    fn measured(&self) -> impl Iterator<Item = &QueueMeasurement> {
        self.results.iter().filter(|measurement| measurement.items_per_sec.is_finite())
    }
}

/// The wake policies that existed before the key was introduced.
fn first_wakes() -> Vec<String> {
    ["under-lock", "after-unlock", "coalesced"].map(String::from).into()
}

fn one() -> u64 {
    1
}

fn null_is_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(scope: &str, items_per_sec: f64) -> QueueMeasurement {
        QueueMeasurement { scope: scope.into(), items_per_sec, ..QueueMeasurement::default() }
    }

    #[test]
    fn the_promised_keys_alone_are_enough_to_read_a_file() {
        let results: QueueResults = serde_json::from_str(
            r#"{"machine":"m","platform":"host","threads":2,"items_per_thread":3,"runs":4,"results":[
                {"scope":"cpu","wake":"coalesced","intake":"lock-free","items_per_sec":1.5,
                 "items_per_sec_min":1,"items_per_sec_max":2,"p50_ns":1,"p90_ns":2,"p95_ns":3,"p99_ns":4,
                 "max_ns":5,"end_to_end_p50_ns":6,"end_to_end_p99_ns":7}]}"#,
        )
        .unwrap();
        assert_eq!(results.mode, Mode::Closed);
        assert_eq!(results.outstanding, 1);
        assert_eq!(results.results[0].items_per_sec, 1.5);
        assert_eq!(results.results[0].lock_hold_ns_per_item, None);
        let missing = serde_json::from_str::<QueueMeasurement>(r#"{"scope":"cpu"}"#).unwrap_err();
        assert!(missing.to_string().contains("wake"), "{missing}");
    }

    #[test]
    fn a_figure_that_is_not_finite_survives_as_null() {
        let written = QueueMeasurement {
            lock_hold_ns_per_item: Some(f64::NAN),
            ..measurement("cpu", f64::NAN)
        };
        let json = serde_json::to_string(&written).unwrap();
        assert!(json.contains(r#""items_per_sec":null"#), "{json}");
        let read: QueueMeasurement = serde_json::from_str(&json).unwrap();
        assert!(read.items_per_sec.is_nan());
        assert_eq!(read.lock_hold_ns_per_item, None);
    }

    #[test]
    fn best_and_worst_pass_over_what_was_not_measured() {
        let mut results = QueueResults::default();
        assert_eq!((results.best(), results.worst()), (None, None));
        results.results.push(measurement("cpu", f64::NAN));
        assert_eq!((results.best(), results.worst()), (None, None));
        results.results.extend([
            measurement("smt", 2.0),
            measurement("cache", 3.0),
            measurement("numa", 3.0),
        ]);
        assert_eq!(results.best().unwrap().scope, "cache");
        assert_eq!(results.worst().unwrap().scope, "smt");
    }

    #[test]
    fn spread_is_relative_to_the_fastest_run() {
        let measurement = |low, high| QueueMeasurement {
            items_per_sec_min: low,
            items_per_sec_max: high,
            ..measurement("cpu", 1.0)
        };
        assert_eq!(measurement(80.0, 100.0).spread(), 0.2);
        assert!(measurement(0.0, 0.0).spread().is_nan());
    }
}
