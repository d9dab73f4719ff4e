//! What `bench queue` measured: plain data with a stable JSON form.
//!
//! The JSON keys are the field names and stand in the order of the fields. The first ones of each type
//! (up to and including `results`, and up to and including `end_to_end_p99_ns`) are a promise to programs
//! that read the file; keys are only ever added after them. Durations are whole nanoseconds.
//!
//! JSON knows no NaN and no infinity: a figure that is not finite is written as `null`, and `null` is
//! read back as NaN where a figure is required, so that a file once written can always be read.

use serde::{Deserialize, Deserializer, Serialize};

use crate::Usl;

/// How the producers of a run behave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each producer waits until its item has run before it queues the next: one item outstanding.
    #[default]
    Closed,
    /// Each producer keeps up to [`QueueResults::outstanding`] items in flight and does not wait for any
    /// particular one.
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

/// The result of one `bench queue`: which machine, how it was asked, and a cell for each combination of
/// rungs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueResults {
    /// The machine in one line, as a person would name it, or the name or synthetic string of a virtual
    /// topology.
    pub machine: String,
    /// The platform the code ran on: `host` for real threads.
    pub platform: String,
    /// Producers, each a thread of its own.
    pub threads: usize,
    /// Items that each producer queued in each run.
    pub items_per_thread: u64,
    /// Runs of each cell; the runs of different cells are interleaved.
    pub runs: usize,
    /// One cell for each combination of rungs, in the order they are to be shown: scopes from fine to
    /// coarse, then wake policies and intakes from the oldest to the newest.
    pub results: Vec<QueueCell>,

    /// Whether producers waited for each item.
    #[serde(default)]
    pub mode: Mode,
    /// Items that one producer may have in flight; 1 in the closed mode.
    #[serde(default = "one")]
    pub outstanding: u64,
    /// Whether the topology was laid over the real CPUs and is not the machine's own. If so the figures
    /// say nothing about the machine it is named after.
    #[serde(default)]
    pub virtual_topology: bool,
    /// The processor's model name, where the system tells it.
    #[serde(default)]
    pub cpu_model: Option<String>,
    /// The kernel's name and release, where the system tells it.
    #[serde(default)]
    pub kernel: Option<String>,
    /// What a reader must know to read the figures right, one sentence each: collapsed scopes, more
    /// producers than CPUs, a quota.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Each wake policy held against the oldest one that was measured, for each scope and intake.
    #[serde(default)]
    pub wake_ratios: Vec<WakeRatio>,
    /// Throughput over the number of CPUs, for each combination; empty where one number was measured.
    #[serde(default)]
    pub curves: Vec<ScalingCurve>,
}

/// How the throughput of one combination grows with the CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScalingCurve {
    /// The affinity scope.
    pub scope: String,
    /// The wake policy.
    pub wake: String,
    /// The intake.
    pub intake: String,
    /// By number of CPUs, the smallest first.
    pub points: Vec<ScalingPoint>,
    /// The universal scalability law, fitted to the points; `None` with fewer than three.
    #[serde(default)]
    pub usl: Option<Usl>,
}

/// One combination on some of the CPUs, with a producer on each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScalingPoint {
    /// How many CPUs.
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
}

/// One wake policy held against another, in the same scope and with the same intake, run by run: the
/// two are measured right after one another in each run, so what slows the machine down for a while
/// slows both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WakeRatio {
    /// The affinity scope of both.
    pub scope: String,
    /// The intake of both.
    pub intake: String,
    /// The wake policy.
    pub wake: String,
    /// The one it is held against.
    pub over: String,
    /// Whether producers share pools in this scope, so that there is a lock to contend for.
    pub contended: bool,
    /// Throughput of the one divided by that of the other: the median over the runs.
    #[serde(deserialize_with = "null_is_nan")]
    pub items_per_sec_ratio: f64,
    /// The smallest ratio of a run.
    #[serde(deserialize_with = "null_is_nan")]
    pub items_per_sec_ratio_min: f64,
    /// The largest ratio of a run.
    #[serde(deserialize_with = "null_is_nan")]
    pub items_per_sec_ratio_max: f64,
    /// Time that the pool's lock was held per item, divided by that of the other; `None` where it was
    /// not measured, or is 0.
    #[serde(default)]
    pub lock_hold_ratio: Option<f64>,
}

/// The figures of one combination of scope, wake policy and intake.
///
/// Rungs are spelled as in every option of the command. A throughput is the median over the runs;
/// a latency is taken from the samples of all runs merged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueCell {
    /// The affinity scope: `cpu`, `smt`, `cache_shard`, `cache`, `numa` or `system`.
    pub scope: String,
    /// The wake policy: `under-lock`, `after-unlock` or `coalesced`.
    pub wake: String,
    /// How an item enters its pool: `locked` or `lock-free`.
    pub intake: String,
    /// Items run per second, all producers together: the median over the runs.
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
    /// 90th percentile of the queueing call, in nanoseconds.
    pub p90_ns: u64,
    /// 95th percentile of the queueing call, in nanoseconds.
    pub p95_ns: u64,
    /// 99th percentile of the queueing call, in nanoseconds.
    pub p99_ns: u64,
    /// The longest queueing call, in nanoseconds.
    pub max_ns: u64,
    /// Median time from before the queueing call until the item ran, in nanoseconds.
    pub end_to_end_p50_ns: u64,
    /// 99th percentile of the time from before the queueing call until the item ran, in nanoseconds.
    pub end_to_end_p99_ns: u64,

    /// Time that the pool's lock was held, per item, in nanoseconds; `None` where it was not measured.
    #[serde(default)]
    pub lock_hold_ns_per_item: Option<f64>,
    /// The longest time that a pool's lock was held at a stretch, in nanoseconds; `None` where it was not
    /// measured.
    #[serde(default)]
    pub lock_hold_max_ns: Option<u64>,
    /// Wake-ups issued per item; `None` where they were not counted.
    #[serde(default)]
    pub wakeups_per_item: Option<f64>,
    /// Pods (pools) that this scope divides the CPUs into.
    #[serde(default)]
    pub pods: usize,
    /// A finer scope of the same benchmark that has the very same pods on this machine, so that the two
    /// differ by noise alone; `None` where there is none.
    #[serde(default)]
    pub same_pods_as: Option<String>,
}

impl QueueResults {
    /// The cell of the highest throughput; the first of them on a tie, `None` where no cell has a figure.
    pub fn best(&self) -> Option<&QueueCell> {
        self.measured().reduce(|a, b| if b.items_per_sec > a.items_per_sec { b } else { a })
    }

    /// The cell of the lowest throughput; the first of them on a tie, `None` where no cell has a figure.
    pub fn worst(&self) -> Option<&QueueCell> {
        self.measured().reduce(|a, b| if b.items_per_sec < a.items_per_sec { b } else { a })
    }

    /// The cells whose throughput is a finite number.
    fn measured(&self) -> impl Iterator<Item = &QueueCell> {
        self.results.iter().filter(|cell| cell.items_per_sec.is_finite())
    }
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

    fn cell(scope: &str, items_per_sec: f64) -> QueueCell {
        QueueCell { scope: scope.into(), items_per_sec, ..QueueCell::default() }
    }

    /// The keys of the outermost object of `json` that stand in `wanted`, in the order they stand in.
    fn order_of(json: &str, wanted: &[&str]) -> Vec<String> {
        let mut found: Vec<(usize, String)> = wanted
            .iter()
            .filter_map(|key| Some((json.find(&format!("\"{key}\":"))?, (*key).to_owned())))
            .collect();
        found.sort();
        found.into_iter().map(|(_, key)| key).collect()
    }

    #[test]
    fn promised_keys_come_first_and_in_order() {
        const CELL: [&str; 18] = [
            "scope",
            "wake",
            "intake",
            "items_per_sec",
            "items_per_sec_min",
            "items_per_sec_max",
            "p50_ns",
            "p90_ns",
            "p95_ns",
            "p99_ns",
            "max_ns",
            "end_to_end_p50_ns",
            "end_to_end_p99_ns",
            "lock_hold_ns_per_item",
            "lock_hold_max_ns",
            "wakeups_per_item",
            "pods",
            "same_pods_as",
        ];
        let json = serde_json::to_string(&cell("smt", 1.0)).unwrap();
        assert_eq!(order_of(&json, &CELL), CELL);

        const TOP: [&str; 14] = [
            "machine",
            "platform",
            "threads",
            "items_per_thread",
            "runs",
            "results",
            "mode",
            "outstanding",
            "virtual_topology",
            "cpu_model",
            "kernel",
            "notes",
            "wake_ratios",
            "curves",
        ];
        let json = serde_json::to_string(&QueueResults::default()).unwrap();
        assert_eq!(order_of(&json, &TOP), TOP);
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
        let missing = serde_json::from_str::<QueueCell>(r#"{"scope":"cpu"}"#).unwrap_err();
        assert!(missing.to_string().contains("wake"), "{missing}");
    }

    #[test]
    fn a_figure_that_is_not_finite_survives_as_null() {
        let written = QueueCell { lock_hold_ns_per_item: Some(f64::NAN), ..cell("cpu", f64::NAN) };
        let json = serde_json::to_string(&written).unwrap();
        assert!(json.contains(r#""items_per_sec":null"#), "{json}");
        let read: QueueCell = serde_json::from_str(&json).unwrap();
        assert!(read.items_per_sec.is_nan());
        assert_eq!(read.lock_hold_ns_per_item, None);
    }

    #[test]
    fn best_and_worst_pass_over_what_was_not_measured() {
        let mut results = QueueResults::default();
        assert_eq!((results.best(), results.worst()), (None, None));
        results.results.push(cell("cpu", f64::NAN));
        assert_eq!((results.best(), results.worst()), (None, None));
        results.results.extend([cell("smt", 2.0), cell("cache", 3.0), cell("numa", 3.0)]);
        assert_eq!(results.best().unwrap().scope, "cache");
        assert_eq!(results.worst().unwrap().scope, "smt");
    }
}
