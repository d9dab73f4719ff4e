//! What `bench kernel` found.

use serde::{Deserialize, Serialize};

use crate::column::{Column, Unit, Value, always, minor, rows};

/// What `bench kernel` found: the kernel's own algorithms, before a patch and with it, and ours in their place. Keys are only
/// ever added after those there are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelResults {
    /// The machine in one line.
    pub machine: String,
    /// The platform the code ran on: `sim`.
    pub platform: String,
    /// The program.
    pub program: String,
    /// Threads, each pinned to a CPU of its own.
    pub threads: usize,
    /// What each thread did in each run.
    pub operations_per_thread: u64,
    /// One run for each.
    pub seeds: Vec<u64>,
    /// One measurement for each setting and variant.
    pub results: Vec<KernelMeasurement>,
    /// What a reader must know, one sentence each.
    pub notes: Vec<String>,
}

rows! {
    /// The figures of one variant in one setting: medians over the seeds.
    pub struct KernelMeasurement {
        /// Such as the affinity scope.
        setting: String = Text [always("setting")];
        /// `kernel`, a patch's name, or `coreshard`.
        variant: String = Text [always("variant")];
        /// Operations per second, all threads together.
        ops_per_sec: f64 = PerSecondRounded [always("ops/s")];
        /// The first quartile.
        ops_per_sec_q1: f64 = PerSecondRounded;
        /// The third quartile.
        ops_per_sec_q3: f64 = PerSecondRounded
            { Column::derived(Unit::PerSecondRounded, minor("quartiles", 1), |it, _| Value::Range(it.ops_per_sec_q1, it.ops_per_sec_q3)) };
        /// Operations per second over those of the setting's first variant, seed by seed.
        over_first: f64 = Factor [always("× first")];
        /// The first quartile of that.
        over_first_q1: f64 = Factor;
        /// The third quartile of that.
        over_first_q3: f64 = Factor
            { Column::derived(Unit::Factor, minor("quartiles", 2), |it, _| Value::Range(it.over_first_q1, it.over_first_q3)) };
        /// `noise alone` where the quartiles of that lie on both sides of 1; empty where they do not.
        differs_by: String = Text [always("differs by")];
        /// The operation that is timed, in nanoseconds: the median.
        p50_ns: u64 = Nanoseconds [always("p50")];
        /// The 90th of 100.
        p90_ns: u64 = Nanoseconds [always("p90")];
        /// The 95th of 100.
        p95_ns: u64 = Nanoseconds [always("p95")];
        /// Operations per second with each seed.
        each_seed: Vec<f64> = PerSecondRounded;
    }
}
