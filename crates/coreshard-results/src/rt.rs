//! What `bench rt` measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What `bench rt index` measured. Keys are only ever added after those there are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IndexResults {
    /// The machine in one line.
    pub machine: String,
    /// The platform the code ran on: `host` or `sim`.
    pub platform: String,
    /// Threads, each pinned to a CPU of its own.
    pub threads: usize,
    /// The number of CPUs that a search looks among.
    pub searched_cpus: usize,
    /// How often each thread set and searched in each run.
    pub rounds_per_thread: u64,
    /// Runs of each rung, interleaved.
    pub runs: usize,
    /// One cell for each rung, from the oldest.
    pub results: Vec<IndexCell>,
    /// What a reader must know, one sentence each.
    pub notes: Vec<String>,
}

/// The figures of one rung.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IndexCell {
    /// The rung.
    pub rung: String,
    /// Sets and searches per second, all threads together: the median over the runs.
    pub ops_per_sec: f64,
    /// Those of the slowest run.
    pub ops_per_sec_min: f64,
    /// Those of the fastest run.
    pub ops_per_sec_max: f64,
    /// Operations per second over those of the first rung that was measured, run by run: the median.
    pub over_first: f64,
    /// The smallest such ratio of a run.
    pub over_first_min: f64,
    /// The largest such ratio of a run.
    pub over_first_max: f64,
    /// A search, while the other CPUs set their levels, in nanoseconds: the median over the runs.
    pub find_ns: f64,
    /// A set, while the other CPUs set theirs and one searches, in nanoseconds; 0 with one thread.
    pub set_ns: f64,
    /// Bytes of the index.
    pub bytes: usize,
    /// Operations per second of each run.
    #[serde(default)]
    pub each_run: Vec<f64>,
}

/// What `bench rt cyclic` measured. The keys up to `thread` are those of cyclictest's own JSON file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CyclicResults {
    /// The version of cyclictest's format.
    pub file_version: u32,
    /// The number of threads.
    pub num_threads: usize,
    /// 0: `min`, `max`, `avg` and the histogram are in microseconds.
    pub resolution_in_ns: u32,
    /// By the thread's number.
    pub thread: BTreeMap<usize, CyclicThread>,
    /// The machine in one line.
    pub machine: String,
    /// The platform the code ran on.
    pub platform: String,
    /// The rung of the priority index.
    pub rung: String,
    /// The priority; `None` where none was granted.
    pub priority: Option<u8>,
    /// From one wake-up to the next, in microseconds.
    pub interval_us: f64,
    /// Of all threads together, in nanoseconds.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p99_9_ns: u64,
    /// The latest.
    pub max_ns: u64,
    /// Wake-ups of all threads per second.
    pub cycles_per_sec: f64,
    /// Page faults in the loops, after each thread's first wake-up.
    pub page_faults: u64,
    /// What a reader must know, one sentence each.
    pub notes: Vec<String>,
}

/// One thread's figures, in microseconds as cyclictest has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CyclicThread {
    /// Wake-ups by latency, in whole microseconds.
    pub histogram: BTreeMap<u64, u64>,
    /// The number of wake-ups.
    pub cycles: u64,
    /// The least latency.
    pub min: u64,
    /// The largest.
    pub max: u64,
    /// The mean.
    pub avg: f64,
    /// The CPU.
    pub cpu: u32,
    /// Its NUMA node.
    pub node: u32,
    /// The median, in nanoseconds.
    pub p50_ns: u64,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: u64,
}

/// What `bench rt pi` measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PiResults {
    /// The machine in one line.
    pub machine: String,
    /// The platform the code ran on.
    pub platform: String,
    /// The rung of the priority index.
    pub rung: String,
    /// Groups of three.
    pub groups: usize,
    /// Inversions of each group.
    pub rounds_per_group: u64,
    /// Inversions resolved per second, all groups together.
    pub inversions_per_sec: f64,
    /// What a reader must know, one sentence each.
    pub notes: Vec<String>,
    /// How long the high task waited for the lock.
    #[serde(default)]
    pub waits: Durations,
}

/// What `bench rt transcode` measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TranscodeResults {
    /// The machine in one line.
    pub machine: String,
    /// The platform the code ran on.
    pub platform: String,
    /// The rung of the priority index.
    pub rung: String,
    /// The priority; `None` where none was granted.
    pub priority: Option<u8>,
    /// Instances.
    pub instances: usize,
    /// CPUs of each.
    pub instance_cpus: usize,
    /// Frames that all instances finished together.
    pub frames: u64,
    /// Tasks that were begun for them.
    pub tasks: u64,
    /// The score.
    pub frames_per_sec: f64,
    /// Time in which a CPU of an instance did stages' work, over the whole time of all of them.
    pub work_share: f64,
    /// Time of a task that was not work, in nanoseconds: from one's end to the next one's begin on the
    /// same CPU, resting included.
    pub between_tasks_ns: f64,
    /// What a reader must know, one sentence each.
    pub notes: Vec<String>,
    /// How long a frame took from its begin to its last slice's end.
    #[serde(default)]
    pub frame_times: Durations,
}

/// The distribution of how long something took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durations {
    /// How many there were.
    pub number: u64,
    /// The median, in nanoseconds.
    pub p50_ns: u64,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
    /// How many there were of each length, in nanoseconds, of which two digits are told apart.
    pub by_ns: BTreeMap<u64, u64>,
}
