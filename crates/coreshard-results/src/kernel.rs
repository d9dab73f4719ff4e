//! Results of `bench kernel`.

use serde::{Deserialize, Serialize};

use crate::column::{Column, Unit, Value, always, minor, rows};

/// Results of `bench kernel`: the kernel's algorithms before and after a patch, and Coreshard's. New keys are only
/// added at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelResults {
    /// The machine in one line.
    pub machine: String,
    /// The platform: `sim`.
    pub platform: String,
    /// The program.
    pub program: String,
    /// Threads, each pinned to its own CPU.
    pub threads: usize,
    /// Operations per thread and run.
    pub operations_per_thread: u64,
    /// The seeds, one run each.
    pub seeds: Vec<u64>,
    /// One measurement per setting and variant.
    pub results: Vec<KernelMeasurement>,
    /// Notes for interpreting the figures, one sentence each.
    pub notes: Vec<String>,
}

rows! {
    /// The figures of one variant in one setting: medians over the seeds.
    pub struct KernelMeasurement {
        /// The setting, such as an affinity scope.
        setting: String = Text [always("setting")];
        /// `kernel`, a patch's name, or `coreshard`.
        variant: String = Text [always("variant")];
        /// Operations per second of all threads.
        ops_per_sec: f64 = PerSecondRounded [always("ops/s")];
        /// First quartile of operations per second.
        ops_per_sec_q1: f64 = PerSecondRounded;
        /// Third quartile of operations per second.
        ops_per_sec_q3: f64 = PerSecondRounded
            { Column::derived(Unit::PerSecondRounded, minor("quartiles", 1), |it, _| Value::Range(it.ops_per_sec_q1, it.ops_per_sec_q3)) };
        /// Operations per second relative to the setting's first variant, seed by seed.
        over_first: f64 = Factor [always("× first")];
        /// First quartile of that ratio.
        over_first_q1: f64 = Factor;
        /// Third quartile of that ratio.
        over_first_q3: f64 = Factor
            { Column::derived(Unit::Factor, minor("quartiles", 2), |it, _| Value::Range(it.over_first_q1, it.over_first_q3)) };
        /// `noise alone` if 1 lies between the quartiles of that ratio, otherwise empty.
        differs_by: String = Text [always("differs by")];
        /// Median time of the timed operation, in nanoseconds.
        p50_ns: u64 = Nanoseconds [always("p50")];
        /// 90th percentile, in nanoseconds.
        p90_ns: u64 = Nanoseconds [always("p90")];
        /// 95th percentile, in nanoseconds.
        p95_ns: u64 = Nanoseconds [always("p95")];
        /// Operations per second for each seed.
        each_seed: Vec<f64> = PerSecondRounded;
    }
}
