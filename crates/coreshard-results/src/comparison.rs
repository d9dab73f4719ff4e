//! Results of `bench block --compare` on one machine.

use serde::{Deserialize, Serialize};

use crate::column::{Column, Unit, Value, always, minor, rows};

/// The variants of counters and shared tags, and how each tag policy treats a greedy and a shy device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparisonResults {
    /// The machine in one line.
    pub machine: String,
    /// The platform: `host` or `sim`.
    pub platform: String,
    /// Number of threads in multi-threaded measurements, each on its own CPU.
    pub threads: usize,
    /// Cost of an operation.
    pub operations: Vec<OperationRow>,
    /// Share of each device.
    pub fairness: Vec<FairnessRow>,
}

rows! {
    /// Cost of an operation with one variant.
    pub struct OperationRow {
        /// `counters`: issue and complete a request. `tags`: take and return a tag.
        #[serde(alias = "ladder")]
        comparison: String = Text [always("comparison")];
        /// The variant.
        #[serde(alias = "rung")]
        variant: String = Text [always("variant")];
        /// Time on a single thread, in nanoseconds: median over the runs.
        one_ns: f64 = Nanoseconds [always("one thread")];
        /// Time in the fastest run, in nanoseconds.
        one_ns_min: f64 = Nanoseconds;
        /// Time in the slowest run, in nanoseconds.
        one_ns_max: f64 = Nanoseconds
            { Column::derived(Unit::Nanoseconds, minor("range", 1), |it, _| Value::Range(it.one_ns_min, it.one_ns_max)) };
        /// Time with all threads at once, in nanoseconds: median over the runs.
        all_ns: f64 = Nanoseconds [always("all threads")];
        /// Time in the fastest run, in nanoseconds.
        all_ns_min: f64 = Nanoseconds;
        /// Time in the slowest run, in nanoseconds.
        all_ns_max: f64 = Nanoseconds
            { Column::derived(Unit::Nanoseconds, minor("range", 1), |it, _| Value::Range(it.all_ns_min, it.all_ns_max)) };
        /// Time to read the state, in nanoseconds: all counters, or the tags in use.
        read_ns: f64 = Nanoseconds [always("read")];
    }
}

rows! {
    /// A device with 256 requests in flight and one with a single request, on 64 shared tags.
    pub struct FairnessRow {
        /// The tag policy.
        tags: String = Text [always("tags")];
        /// Requests per second of the shy device.
        shy_iops: f64 = PerSecond [always("shy IOPS")];
        /// Requests per second of the shy device alone.
        shy_alone_iops: f64 = PerSecond [always("alone")];
        /// Median latency of the shy device, in nanoseconds.
        shy_p50_ns: u64 = Nanoseconds;
        /// 99th percentile latency of the shy device, in nanoseconds.
        shy_p99_ns: u64 = Nanoseconds [always("shy p99")];
        /// Maximum latency of the shy device, in nanoseconds.
        shy_max_ns: u64 = Nanoseconds;
        /// 99th percentile latency of the shy device alone, in nanoseconds.
        shy_alone_p99_ns: u64 = Nanoseconds [always("alone")];
        /// Requests per second of the greedy device.
        greedy_iops: f64 = PerSecond [always("greedy IOPS")];
        /// Requests per second of the greedy device alone.
        greedy_alone_iops: f64 = PerSecond [always("alone")];
        /// Jain's fairness index of the shares that each device keeps of its rate alone: 1 if both lose the same share,
        /// 1/2 if one gets nothing.
        jain: f64 = Factor [always("Jain")];
    }
}
