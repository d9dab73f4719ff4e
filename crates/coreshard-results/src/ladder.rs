//! What `bench block --ladder` measured on one machine.

use serde::{Deserialize, Serialize};

/// The rungs of the ladders of counters and of shared tags, and how each policy of the latter
/// treats a greedy and a shy device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LadderResults {
    /// The machine in one line.
    pub machine: String,
    /// What the code ran on: `host` or `sim`.
    pub platform: String,
    /// Threads where all are counted, each on a CPU of its own.
    pub threads: usize,
    /// What an operation costs.
    pub operations: Vec<OperationRow>,
    /// Who gets how much.
    pub fairness: Vec<FairnessRow>,
}

/// What an operation costs on one rung.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationRow {
    /// `counters`: a request issued and done. `tags`: a tag taken and given back.
    pub ladder: String,
    /// The rung.
    pub rung: String,
    /// Nanoseconds on one thread alone: the median of the runs.
    pub one_ns: f64,
    /// The fastest run.
    pub one_ns_min: f64,
    /// The slowest run.
    pub one_ns_max: f64,
    /// Nanoseconds where all threads do it at once: the median of the runs.
    pub all_ns: f64,
    /// The fastest run.
    pub all_ns_min: f64,
    /// The slowest run.
    pub all_ns_max: f64,
    /// Nanoseconds to read the state: all counters, or the tags in use.
    pub read_ns: f64,
}

/// A device that wants 256 requests in flight and one that wants a single one, on 64 shared tags.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FairnessRow {
    /// The policy.
    pub tags: String,
    /// Requests a second of the shy device.
    pub shy_iops: f64,
    /// The same where it is alone.
    pub shy_alone_iops: f64,
    /// Median latency of the shy device.
    pub shy_p50_ns: u64,
    /// 99th percentile.
    pub shy_p99_ns: u64,
    /// Its longest wait.
    pub shy_max_ns: u64,
    /// 99th percentile where it is alone.
    pub shy_alone_p99_ns: u64,
    /// Requests a second of the greedy device.
    pub greedy_iops: f64,
    /// The same where it is alone.
    pub greedy_alone_iops: f64,
    /// Jain's index of what each gets of what it has alone: 1 where both lose the same part, 1/2
    /// where one gets nothing.
    pub jain: f64,
}
