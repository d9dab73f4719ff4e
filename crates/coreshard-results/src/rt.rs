//! Results of the real-time benchmarks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::SeedSpreads;
use crate::column::{Cell, Column, Unit, Value, always, minor, rows};

/// Results of `bench rt index`. New keys are only added at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IndexResults {
    /// The machine in one line.
    pub machine: String,
    /// The platform: `host` or `sim`.
    pub platform: String,
    /// Threads, each pinned to its own CPU.
    pub threads: usize,
    /// Number of CPUs that a search covers.
    pub searched_cpus: usize,
    /// Set and search operations per thread and run.
    pub rounds_per_thread: u64,
    /// Runs of each variant, interleaved.
    pub runs: usize,
    /// One measurement per variant, from the oldest.
    pub results: Vec<IndexMeasurement>,
    /// Notes for interpreting the figures, one sentence each.
    pub notes: Vec<String>,
}

rows! {
    /// The figures of one variant.
    pub struct IndexMeasurement {
        /// The variant.
        #[serde(alias = "rung")]
        variant: String = Text [always("variant")];
        /// Set and search operations per second of all threads: median over the runs.
        ops_per_sec: f64 = PerSecondRounded [always("ops/s")];
        /// Operations per second of the slowest run.
        ops_per_sec_min: f64 = PerSecondRounded;
        /// Operations per second of the fastest run.
        ops_per_sec_max: f64 = PerSecondRounded
            { Column::derived(Unit::PerSecondRounded, minor("range", 1), |it, _| it.unless_seeds(Value::Range(it.ops_per_sec_min, it.ops_per_sec_max))) }
            { Column::derived(Unit::PerSecondRounded, minor("quartiles", 1), |it, _| it.seeds.quartiles("ops_per_sec")) };
        /// Operations per second relative to the first variant, run by run: the median.
        over_first: f64 = Factor [always("× {first}")];
        /// The smallest such ratio.
        over_first_min: f64 = Factor;
        /// The largest such ratio.
        over_first_max: f64 = Factor
            { Column::derived(Unit::Factor, minor("range", 2), |it, _| it.unless_seeds(Value::Range(it.over_first_min, it.over_first_max))) }
            { Column::derived(Unit::Factor, minor("quartiles", 2), |it, _| it.seeds.ratio_quartiles("ops_per_sec")) }
            { Column::derived(Unit::Text, always("differs by"), |it, _| it.seeds.differs_by("ops_per_sec")) };
        /// Time of a search while the other CPUs set their levels, in nanoseconds: median over the runs.
        find_ns: f64 = Nanoseconds [always("find")]
            { Column::derived(Unit::Nanoseconds, minor("quartiles", 3), |it, _| it.seeds.quartiles("find_ns")) };
        /// Time of a set while the other CPUs set their levels and one searches, in nanoseconds; 0 with one thread.
        set_ns: f64 = Nanoseconds [always("set")]
            { Column::derived(Unit::Nanoseconds, minor("quartiles", 3), |it, _| it.seeds.quartiles("set_ns")) };
        /// Size of the index in bytes.
        bytes: usize = Bytes [always("bytes")];
        /// Operations per second of each run.
        #[serde(default)]
        each_run: Vec<f64> = PerSecondRounded;
        /// Spread of figures over seeds, by key.
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
    /// Results of `bench rt cyclic`. The keys up to `thread` are the same as in cyclictest's JSON file.
    pub struct CyclicResults {
        /// The version of cyclictest's format.
        file_version: u32 = Count;
        /// The number of threads.
        num_threads: usize = Count;
        /// 0: `min`, `max`, `avg` and the histogram are in microseconds.
        resolution_in_ns: u32 = Nanoseconds;
        /// The figures of each thread, by number.
        thread: BTreeMap<usize, CyclicThread> = Text;
        /// The machine in one line.
        machine: String = Text;
        /// The platform: `host` or `sim`.
        platform: String = Text;
        /// The variant of the priority index.
        #[serde(alias = "rung")]
        variant: String = Text [always("variant")];
        /// The priority; absent if real-time priority was not granted.
        priority: Option<u8> = Count;
        /// Interval between wake-ups, in microseconds.
        interval_us: f64 = Microseconds;
        /// Median wake-up latency of all threads, in nanoseconds.
        p50_ns: u64 = Nanoseconds [always("p50")]
            { Column::derived(Unit::Nanoseconds, minor("quartiles", 3), |it, _| it.seeds.quartiles("p50_ns")) };
        /// 99th percentile, in nanoseconds.
        p99_ns: u64 = Nanoseconds [always("p99")]
            { Column::derived(Unit::Nanoseconds, minor("quartiles", 1), |it, _| it.seeds.quartiles("p99_ns")) }
            { Column::derived(Unit::Factor, always("× {first}"), |it, _| it.seeds.ratio_median("p99_ns")) }
            { Column::derived(Unit::Factor, minor("quartiles", 2), |it, _| it.seeds.ratio_quartiles("p99_ns")) }
            { Column::derived(Unit::Text, always("differs by"), |it, _| it.seeds.differs_by("p99_ns")) };
        /// 99.9th percentile, in nanoseconds.
        p99_9_ns: u64 = Nanoseconds [always("p99.9")];
        /// Maximum, in nanoseconds.
        max_ns: u64 = Nanoseconds [always("max")];
        /// Wake-ups of all threads per second.
        cycles_per_sec: f64 = PerSecondRounded [always("wake-ups/s")];
        /// Page faults in the loops, after the first wake-up of each thread.
        page_faults: u64 = Count [always("page faults")];
        /// Notes for interpreting the figures, one sentence each.
        notes: Vec<String> = Text;
        /// Spread of figures over seeds, by key.
        #[serde(default)]
        seeds: SeedSpreads = Text;
    }
}

/// The figures of one thread, in microseconds as in cyclictest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CyclicThread {
    /// Wake-ups by latency, in whole microseconds.
    pub histogram: BTreeMap<u64, u64>,
    /// The number of wake-ups.
    pub cycles: u64,
    /// The minimum latency.
    pub min: u64,
    /// The maximum latency.
    pub max: u64,
    /// The mean latency.
    pub avg: f64,
    /// The CPU.
    pub cpu: u32,
    /// The NUMA node of the CPU.
    pub node: u32,
    /// The median, in nanoseconds.
    pub p50_ns: u64,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: u64,
}

rows! {
    /// Results of `bench rt pi`.
    pub struct PiResults {
        /// The machine in one line.
        machine: String = Text;
        /// The platform: `host` or `sim`.
        platform: String = Text;
        /// The variant of the priority index.
        #[serde(alias = "rung")]
        variant: String = Text [always("variant")];
        /// Number of groups of three tasks.
        groups: usize = Count;
        /// Inversions per group.
        rounds_per_group: u64 = Count;
        /// Resolved inversions per second of all groups.
        inversions_per_sec: f64 = PerSecond [always("inversions/s")]
            { Column::derived(Unit::PerSecond, minor("quartiles", 1), |it, _| it.seeds.quartiles("inversions_per_sec")) }
            { Column::derived(Unit::Factor, always("× {first}"), |it, first| it.seeds.over_first("inversions_per_sec", it.inversions_per_sec / first.inversions_per_sec)) }
            { Column::derived(Unit::Factor, minor("quartiles", 2), |it, _| it.seeds.ratio_quartiles("inversions_per_sec")) }
            { Column::derived(Unit::Text, always("differs by"), |it, _| it.seeds.differs_by("inversions_per_sec")) };
        /// Notes for interpreting the figures, one sentence each.
        notes: Vec<String> = Text;
        /// Time the high-priority task waited for the lock.
        #[serde(default)]
        waits: Durations = Nanoseconds
            { Column::derived(Unit::Nanoseconds, always("wait p50"), |it, _| it.waits.p50_ns.value()) }
            { Column::derived(Unit::Nanoseconds, always("p99"), |it, _| it.waits.p99_ns.value()) }
            { Column::derived(Unit::Nanoseconds, always("max"), |it, _| it.waits.max_ns.value()) };
        /// Spread of figures over seeds, by key.
        #[serde(default)]
        seeds: SeedSpreads = Text;
    }
}

rows! {
    /// Results of `bench rt transcode`.
    pub struct TranscodeResults {
        /// The machine in one line.
        machine: String = Text;
        /// The platform: `host` or `sim`.
        platform: String = Text;
        /// The variant of the priority index.
        #[serde(alias = "rung")]
        variant: String = Text [always("variant")];
        /// The priority; absent if real-time priority was not granted.
        priority: Option<u8> = Count;
        /// Number of instances.
        instances: usize = Count;
        /// CPUs per instance.
        instance_cpus: usize = Count;
        /// Frames that all instances finished.
        frames: u64 = Count;
        /// Tasks started for these frames.
        tasks: u64 = Count;
        /// Frames per second of all instances.
        frames_per_sec: f64 = PerSecond [always("frames/s")]
            { Column::derived(Unit::PerSecond, minor("quartiles", 1), |it, _| it.seeds.quartiles("frames_per_sec")) }
            { Column::derived(Unit::Factor, always("× {first}"), |it, first| it.seeds.over_first("frames_per_sec", it.frames_per_sec / first.frames_per_sec)) }
            { Column::derived(Unit::Factor, minor("quartiles", 2), |it, _| it.seeds.ratio_quartiles("frames_per_sec")) }
            { Column::derived(Unit::Text, always("differs by"), |it, _| it.seeds.differs_by("frames_per_sec")) };
        /// Share of the instances' CPU time spent in stages.
        work_share: f64 = Part [always("work")]
            { Column::derived(Unit::Part, minor("quartiles", 3), |it, _| it.seeds.quartiles("work_share")) };
        /// Time between tasks, in nanoseconds: from the end of one to the start of the next on the same CPU, including
        /// idle time.
        between_tasks_ns: f64 = Nanoseconds [always("between tasks")]
            { Column::derived(Unit::Nanoseconds, minor("quartiles", 3), |it, _| it.seeds.quartiles("between_tasks_ns")) };
        /// Notes for interpreting the figures, one sentence each.
        notes: Vec<String> = Text;
        /// Time of a frame, from its start to the end of its last slice.
        #[serde(default)]
        frame_times: Durations = Nanoseconds
            { Column::derived(Unit::Nanoseconds, always("frame p50"), |it, _| it.frame_times.p50_ns.value()) }
            { Column::derived(Unit::Nanoseconds, always("p99"), |it, _| it.frame_times.p99_ns.value()) };
        /// Spread of figures over seeds, by key.
        #[serde(default)]
        seeds: SeedSpreads = Text;
    }
}

/// The distribution of a duration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durations {
    /// Number of samples.
    pub number: u64,
    /// The median, in nanoseconds.
    pub p50_ns: u64,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: u64,
    /// The maximum, in nanoseconds.
    pub max_ns: u64,
    /// Counts by duration in nanoseconds, with two significant digits.
    pub by_ns: BTreeMap<u64, u64>,
}

impl Cell for Durations {
    fn value(&self) -> Value<'_> {
        Value::Absent
    }
}
