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
    /// All CPUs of a topology, none of them limited, and laid over no others.
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

    /// The machine that the tests run on.
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

    /// Whether it is this machine, not a simulated one.
    pub(crate) fn is_host(&self) -> bool {
        self.platform == "host"
    }

    /// The CPUs that threads really run on.
    pub(crate) fn real_cpus(&self) -> &CpuSet {
        self.laid_over.as_ref().unwrap_or(&self.usable)
    }
}
