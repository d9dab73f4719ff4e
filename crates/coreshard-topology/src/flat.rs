//! A machine of which nothing is known but its CPUs.

use std::path::Path;

use crate::assembly::{Parts, RawCpu};
use crate::{CpuKind, CpuSet, Topology, TopologyError, cgroup, usable};

impl Topology {
    /// A machine of which nothing is known but its CPUs: each is taken as a core of its own, and all of
    /// them as one package with one last-level cache. `why` is noted.
    ///
    /// # Errors
    /// When there is no CPU.
    pub fn of_cpus(cpus: &CpuSet, why: impl Into<String>) -> Result<Self, TopologyError> {
        let mut parts = Parts::new("unknown".to_owned());
        parts.notes.push(why.into());
        parts.is_described = false;
        parts.cpus.extend(cpus.iter().map(|id| RawCpu {
            id,
            core: u64::from(id.0),
            llc: 0,
            node: None,
            package: 0,
            kind: CpuKind::Unknown,
            cluster: None,
            os_core: None,
            os_package: None,
        }));
        parts.assemble()
    }

    /// The machine below `root`, of which `sys` could not be read: the CPUs in this process's affinity mask
    /// and in its control groups' sets.
    pub(crate) fn without_sysfs(root: &Path, error: TopologyError) -> Result<Self, TopologyError> {
        let Some(mut cpus) = usable::affinity(root)?.filter(|cpus| !cpus.is_empty()) else {
            return Err(error);
        };
        for cpuset in cgroup::limits(root)?.cpusets {
            let both = &cpus & &cpuset.cpus;
            cpus = if both.is_empty() { cpus } else { both };
        }
        let why = format!(
            "the machine is not told ({error}): what affinity and control groups allow is taken for \
             all of it, each CPU as a core of its own, and all as one package with one last-level cache"
        );
        Self::of_cpus(&cpus, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_sysfs_the_mask_and_the_control_group_tell_the_cpus() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let error = Topology::host_at(root.path()).unwrap_err().to_string();
        assert!(error.contains("sys/devices/system/cpu"), "{error}");
        write("proc/self/status", "Cpus_allowed_list:\t0-5,9\n");
        write("proc/self/cgroup", "0::/\n");
        write("proc/self/mountinfo", "1 2 0:3 / /cg rw - cgroup2 cgroup2 rw\n");
        write("cg/cpuset.cpus.effective", "2-31\n");
        let machine = Topology::host_at(root.path()).unwrap();
        assert_eq!(machine.online().to_string(), "2-5,9");
        assert_eq!((machine.llcs(), machine.cores(), machine.packages()), (1, 5, 1));
        assert!(machine.notes()[0].contains("the machine is not told"), "{:?}", machine.notes());
        assert!(!machine.is_described());
    }
}
