//! Where a benchmark runs.

use coreshard_topology::{CpuSet, Topology};

/// The machine that a benchmark runs on.
#[derive(Clone, Debug)]
pub struct BenchMachine {
    /// What the results call the machine.
    pub name: String,
    /// What the results call the platform, such as `host`.
    pub platform: String,
    /// Its CPUs and caches.
    pub topology: Topology,
    /// The CPUs of the topology that are used.
    pub usable: CpuSet,
    /// How many CPUs' worth of time there is; `None` where that is not limited.
    pub cpu_quota: Option<f64>,
    /// Where the topology is another machine's: the platform's CPUs that it is laid over.
    pub laid_over: Option<CpuSet>,
}

impl BenchMachine {
    /// The CPUs that threads really run on.
    pub(crate) fn real_cpus(&self) -> &CpuSet {
        self.laid_over.as_ref().unwrap_or(&self.usable)
    }
}
