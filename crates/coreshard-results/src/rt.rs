//! What `bench rt` measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::SeedSpreads;
use crate::column::{Cell, Column, Unit, Value, always, minor, rows};

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
    /// Runs of each variant, interleaved.
    pub runs: usize,
    /// One measurement for each variant, from the oldest.
    pub results: Vec<IndexMeasurement>,
    /// What a reader must know, one sentence each.
    pub notes: Vec<String>,
}

rows! {
    /// The figures of one variant.
    pub struct IndexMeasurement {
        /// The variant.
        #[serde(alias = "rung")]
        variant: String = Text [always("variant")];
        /// Sets and searches per second, all threads together: the median over the runs.
        ops_per_sec: f64 = PerSecondRounded [always("ops/s")];
        /// Those of the slowest run.
        ops_per_sec_min: f64 = PerSecondRounded;
        /// Those of the fastest run.
        ops_per_sec_max: f64 = PerSecondRounded
            { Column::derived(Unit::PerSecondRounded, minor("range", 1), |it, _| it.unless_seeds(Value::Range(it.ops_per_sec_min, it.ops_per_sec_max))) }
            { Column::derived(Unit::PerSecondRounded, minor("quartiles", 1), |it, _| it.seeds.quartiles("ops_per_sec")) };
        /// Operations per second over those of the first variant that was measured, run by run: the median.
        over_first: f64 = Factor [always("× {first}")];
        /// The smallest such ratio of a run.
        over_first_min: f64 = Factor;
        /// The largest such ratio of a run.
        over_first_max: f64 = Factor
            { Column::derived(Unit::Factor, minor("range", 2), |it, _| it.unless_seeds(Value::Range(it.over_first_min, it.over_first_max))) }
            { Column::derived(Unit::Factor, minor("quartiles", 2), |it, _| it.seeds.ratio_quartiles("ops_per_sec")) }
            { Column::derived(Unit::Text, always("differs by"), |it, _| it.seeds.differs_by("ops_per_sec")) };
        /// A search, while the other CPUs set their levels, in nanoseconds: the median over the runs.
        find_ns: f64 = Nanoseconds [always("find")]
            { Column::derived(Unit::Nanoseconds, minor("quartiles", 3), |it, _| it.seeds.quartiles("find_ns")) };
        /// A set, while the other CPUs set theirs and one searches, in nanoseconds; 0 with one thread.
        set_ns: f64 = Nanoseconds [always("set")]
            { Column::derived(Unit::Nanoseconds, minor("quartiles", 3), |it, _| it.seeds.quartiles("set_ns")) };
        /// Bytes of the index.
        bytes: usize = Bytes [always("bytes")];
        /// Operations per second of each run.
        #[serde(default)]
        each_run: Vec<f64> = PerSecondRounded;
        /// How figures are spread over seeds, by their keys.
        #[serde(default)]
        seeds: SeedSpreads = Text;
    }
}

impl IndexMeasurement {
    fn unless_seeds(&self, value: Value<'static>) -> Value<'static> {
        if self.seeds.is_empty() { value } else { Value::Absent }
    }
}

rows! {
    /// What `bench rt cyclic` measured. The keys up to `thread` are those of cyclictest's own JSON file.
    pub struct CyclicResults {
        /// The version of cyclictest's format.
        file_version: u32 = Count;
        /// The number of threads.
        num_threads: usize = Count;
        /// 0: `min`, `max`, `avg` and the histogram are in microseconds.
        resolution_in_ns: u32 = Nanoseconds;
        /// By the thread's number.
        thread: BTreeMap<usize, CyclicThread> = Text;
        /// The machine in one line.
        machine: String = Text;
        /// The platform the code ran on.
        platform: String = Text;
        /// The variant of the priority index.
        #[serde(alias = "rung")]
        variant: String = Text [always("variant")];
        /// The priority; `None` where none was granted.
        priority: Option<u8> = Count;
        /// From one wake-up to the next, in microseconds.
        interval_us: f64 = Microseconds;
        /// Of all threads together, in nanoseconds.
        p50_ns: u64 = Nanoseconds [always("p50")]
            { Column::derived(Unit::Nanoseconds, minor("quartiles", 3), |it, _| it.seeds.quartiles("p50_ns")) };
        /// The 99th percentile.
        p99_ns: u64 = Nanoseconds [always("p99")]
            { Column::derived(Unit::Nanoseconds, minor("quartiles", 1), |it, _| it.seeds.quartiles("p99_ns")) }
            { Column::derived(Unit::Factor, always("× {first}"), |it, _| it.seeds.ratio_median("p99_ns")) }
            { Column::derived(Unit::Factor, minor("quartiles", 2), |it, _| it.seeds.ratio_quartiles("p99_ns")) }
            { Column::derived(Unit::Text, always("differs by"), |it, _| it.seeds.differs_by("p99_ns")) };
        /// The 99.9th percentile.
        p99_9_ns: u64 = Nanoseconds [always("p99.9")];
        /// The latest.
        max_ns: u64 = Nanoseconds [always("max")];
        /// Wake-ups of all threads per second.
        cycles_per_sec: f64 = PerSecondRounded [always("wake-ups/s")];
        /// Page faults in the loops, after each thread's first wake-up.
        page_faults: u64 = Count [always("page faults")];
        /// What a reader must know, one sentence each.
        notes: Vec<String> = Text;
        /// How figures are spread over seeds, by their keys.
        #[serde(default)]
        seeds: SeedSpreads = Text;
    }
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

rows! {
    /// What `bench rt pi` measured.
    pub struct PiResults {
        /// The machine in one line.
        machine: String = Text;
        /// The platform the code ran on.
        platform: String = Text;
        /// The variant of the priority index.
        #[serde(alias = "rung")]
        variant: String = Text [always("variant")];
        /// Groups of three.
        groups: usize = Count;
        /// Inversions of each group.
        rounds_per_group: u64 = Count;
        /// Inversions resolved per second, all groups together.
        inversions_per_sec: f64 = PerSecond [always("inversions/s")]
            { Column::derived(Unit::PerSecond, minor("quartiles", 1), |it, _| it.seeds.quartiles("inversions_per_sec")) }
            { Column::derived(Unit::Factor, always("× {first}"), |it, first| it.seeds.over_first("inversions_per_sec", it.inversions_per_sec / first.inversions_per_sec)) }
            { Column::derived(Unit::Factor, minor("quartiles", 2), |it, _| it.seeds.ratio_quartiles("inversions_per_sec")) }
            { Column::derived(Unit::Text, always("differs by"), |it, _| it.seeds.differs_by("inversions_per_sec")) };
        /// What a reader must know, one sentence each.
        notes: Vec<String> = Text;
        /// How long the high task waited for the lock.
        #[serde(default)]
        waits: Durations = Nanoseconds
            { Column::derived(Unit::Nanoseconds, always("wait p50"), |it, _| it.waits.p50_ns.value()) }
            { Column::derived(Unit::Nanoseconds, always("p99"), |it, _| it.waits.p99_ns.value()) }
            { Column::derived(Unit::Nanoseconds, always("max"), |it, _| it.waits.max_ns.value()) };
        /// How figures are spread over seeds, by their keys.
        #[serde(default)]
        seeds: SeedSpreads = Text;
    }
}

rows! {
    /// What `bench rt transcode` measured.
    pub struct TranscodeResults {
        /// The machine in one line.
        machine: String = Text;
        /// The platform the code ran on.
        platform: String = Text;
        /// The variant of the priority index.
        #[serde(alias = "rung")]
        variant: String = Text [always("variant")];
        /// The priority; `None` where none was granted.
        priority: Option<u8> = Count;
        /// Instances.
        instances: usize = Count;
        /// CPUs of each.
        instance_cpus: usize = Count;
        /// Frames that all instances finished together.
        frames: u64 = Count;
        /// Tasks that were begun for them.
        tasks: u64 = Count;
        /// The score.
        frames_per_sec: f64 = PerSecond [always("frames/s")]
            { Column::derived(Unit::PerSecond, minor("quartiles", 1), |it, _| it.seeds.quartiles("frames_per_sec")) }
            { Column::derived(Unit::Factor, always("× {first}"), |it, first| it.seeds.over_first("frames_per_sec", it.frames_per_sec / first.frames_per_sec)) }
            { Column::derived(Unit::Factor, minor("quartiles", 2), |it, _| it.seeds.ratio_quartiles("frames_per_sec")) }
            { Column::derived(Unit::Text, always("differs by"), |it, _| it.seeds.differs_by("frames_per_sec")) };
        /// Time in which a CPU of an instance did stages' work, over the whole time of all of them.
        work_share: f64 = Part [always("work")]
            { Column::derived(Unit::Part, minor("quartiles", 3), |it, _| it.seeds.quartiles("work_share")) };
        /// Time of a task that was not work, in nanoseconds: from one's end to the next one's begin on the
        /// same CPU, resting included.
        between_tasks_ns: f64 = Nanoseconds [always("between tasks")]
            { Column::derived(Unit::Nanoseconds, minor("quartiles", 3), |it, _| it.seeds.quartiles("between_tasks_ns")) };
        /// What a reader must know, one sentence each.
        notes: Vec<String> = Text;
        /// How long a frame took from its begin to its last slice's end.
        #[serde(default)]
        frame_times: Durations = Nanoseconds
            { Column::derived(Unit::Nanoseconds, always("frame p50"), |it, _| it.frame_times.p50_ns.value()) }
            { Column::derived(Unit::Nanoseconds, always("p99"), |it, _| it.frame_times.p99_ns.value()) };
        /// How figures are spread over seeds, by their keys.
        #[serde(default)]
        seeds: SeedSpreads = Text;
    }
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

impl Cell for Durations {
    fn value(&self) -> Value<'_> {
        Value::Absent
    }
}
