//! A part of a machine.

use crate::assembly::{Parts, RawCpu};
use crate::{CpuSet, Topology, TopologyError};

impl Topology {
    /// The same machine with only some of its CPUs. Cores, caches and packages that lose all their
    /// CPUs are gone, and the numbers of the rest are dense again; CPU and node numbers stay.
    ///
    /// # Errors
    /// When the mask is empty, or holds a CPU that is not online here.
    pub fn restrict(&self, mask: &CpuSet) -> Result<Self, TopologyError> {
        if mask.is_empty() {
            return Err(TopologyError::empty_mask());
        }
        if !mask.is_subset(&self.online) {
            let missing = mask - &self.online;
            return Err(TopologyError::unknown_cpus(&self.name, missing, self.online.clone()));
        }
        let mut parts = Parts::new(self.name.clone());
        parts.model.clone_from(&self.model);
        parts.offline = self.offline.clone();
        parts.notes.clone_from(&self.notes);
        parts.is_described = self.is_described;
        // They lose no CPU.
        parts.nodes.extend(&self.memory_only_nodes);
        for llc in &self.llcs {
            parts.caches.insert(u64::from(llc.id.0), (llc.level, llc.size_bytes));
        }
        let kept = self.cpus.iter().filter(|cpu| mask.contains(cpu.id));
        parts.cpus.extend(kept.map(|cpu| RawCpu {
            id: cpu.id,
            core: u64::from(cpu.core.0),
            llc: u64::from(cpu.llc.0),
            node: cpu.node,
            package: u64::from(cpu.package.0),
            kind: cpu.kind,
            cluster: Some(u64::from(cpu.cluster)),
            os_core: cpu.os_core,
            os_package: cpu.os_package,
        }));
        parts.assemble()
    }
}
