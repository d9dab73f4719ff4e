//! The machine of a benchmark.

use coreshard_topology::{CpuSet, Topology};

/// The machine that a benchmark runs on.
#[derive(Clone, Debug)]
pub struct BenchMachine {
    /// The machine's name in the results.
    pub name: String,
    /// The platform's name in the results, such as `host`.
    pub platform: String,
    /// Its CPUs and caches.
    pub topology: Topology,
    /// The CPUs of the topology that are used.
    pub usable: CpuSet,
    /// The CPU quota, in CPUs; `None` for no limit.
    pub cpu_quota: Option<f64>,
    /// If the topology is another machine's: the platform's CPUs that it is emulated on.
    pub laid_over: Option<CpuSet>,
}

impl BenchMachine {
    /// Returns a machine with all CPUs of a topology, without a quota and without emulation.
    pub fn whole(name: impl Into<String>, platform: &str, topology: Topology) -> Self {
        Self {
            name: name.into(),
            platform: platform.to_owned(),
            usable: topology.online().clone(),
            cpu_quota: None,
            laid_over: None,
            topology,
        }
    }

    /// Returns the machine that the tests run on.
    #[cfg(test)]
    pub(crate) fn host() -> Self {
        let topology = Topology::host().unwrap();
        let usable = coreshard_topology::Usable::host(&topology).unwrap();
        Self {
            usable: usable.cpus().clone(),
            cpu_quota: usable.quota_cpus(),
            ..Self::whole("a machine", "host", topology)
        }
    }

    /// Returns whether it is this machine, not a simulated one.
    pub(crate) fn is_host(&self) -> bool {
        self.platform == "host"
    }

    /// Returns the CPUs that threads really run on.
    pub(crate) fn real_cpus(&self) -> &CpuSet {
        self.laid_over.as_ref().unwrap_or(&self.usable)
    }
}
