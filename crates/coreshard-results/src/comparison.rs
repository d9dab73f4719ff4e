//! What `bench block --compare` measured on one machine.

use serde::{Deserialize, Serialize};

use crate::column::{Column, Unit, Value, always, minor, rows};

/// The variants of counters and of shared tags compared, and how each policy of the latter treats a greedy and a shy
/// device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparisonResults {
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

rows! {
    /// What an operation costs with one variant.
    pub struct OperationRow {
        /// `counters`: a request issued and done. `tags`: a tag taken and given back.
        #[serde(alias = "ladder")]
        comparison: String = Text [always("comparison")];
        /// The variant.
        #[serde(alias = "rung")]
        variant: String = Text [always("variant")];
        /// Nanoseconds on one thread alone: the median of the runs.
        one_ns: f64 = Nanoseconds [always("one thread")];
        /// The fastest run.
        one_ns_min: f64 = Nanoseconds;
        /// The slowest run.
        one_ns_max: f64 = Nanoseconds
            { Column::derived(Unit::Nanoseconds, minor("range", 1), |it, _| Value::Range(it.one_ns_min, it.one_ns_max)) };
        /// Nanoseconds where all threads do it at once: the median of the runs.
        all_ns: f64 = Nanoseconds [always("all threads")];
        /// The fastest run.
        all_ns_min: f64 = Nanoseconds;
        /// The slowest run.
        all_ns_max: f64 = Nanoseconds
            { Column::derived(Unit::Nanoseconds, minor("range", 1), |it, _| Value::Range(it.all_ns_min, it.all_ns_max)) };
        /// Nanoseconds to read the state: all counters, or the tags in use.
        read_ns: f64 = Nanoseconds [always("read")];
    }
}

rows! {
    /// A device that wants 256 requests in flight and one that wants a single one, on 64 shared tags.
    pub struct FairnessRow {
        /// The policy.
        tags: String = Text [always("tags")];
        /// Requests a second of the shy device.
        shy_iops: f64 = PerSecond [always("shy IOPS")];
        /// The same where it is alone.
        shy_alone_iops: f64 = PerSecond [always("alone")];
        /// Median latency of the shy device.
        shy_p50_ns: u64 = Nanoseconds;
        /// 99th percentile.
        shy_p99_ns: u64 = Nanoseconds [always("shy p99")];
        /// Its longest wait.
        shy_max_ns: u64 = Nanoseconds;
        /// 99th percentile where it is alone.
        shy_alone_p99_ns: u64 = Nanoseconds [always("alone")];
        /// Requests a second of the greedy device.
        greedy_iops: f64 = PerSecond [always("greedy IOPS")];
        /// The same where it is alone.
        greedy_alone_iops: f64 = PerSecond [always("alone")];
        /// Jain's index of what each gets of what it has alone: 1 where both lose the same part, 1/2
        /// where one gets nothing.
        jain: f64 = Factor [always("Jain")];
    }
}
