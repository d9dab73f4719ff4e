//! Where a machine comes from: this one, files, descriptions, names, or a part of another machine.

use std::path::Path;

#[cfg(feature = "presets")]
use crate::Preset;
use crate::assembly::{Parts, RawCpu};
use crate::{CpuSet, Topology, TopologyError, cgroup, synthetic, sysfs, usable};
#[cfg(feature = "hwloc")]
use crate::{hwloc_xml, input};

impl Topology {
    /// The machine this runs on, all of its CPUs that are online.
    ///
    /// What this process may use of it is told by [`Usable`](crate::Usable).
    ///
    /// Where `/sys` is not there, or cannot be read, it is the CPUs that affinity and control groups
    /// leave to this process, with one last-level cache for all; [`is_described`](Self::is_described)
    /// is false then, and a note says why.
    ///
    /// # Errors
    /// When there is no `/proc` either, or something in it cannot be read.
    pub fn host() -> Result<Self, TopologyError> {
        Self::host_at(Path::new("/"))
    }

    pub(crate) fn host_at(root: &Path) -> Result<Self, TopologyError> {
        let mut topology = match Self::from_sysfs(root) {
            Ok(topology) => topology,
            Err(error) => return Self::without_sysfs(root, error),
        };
        "host".clone_into(&mut topology.name);
        Ok(topology)
    }

    /// A machine whose `sys` folder lies in `root`; a `proc` folder beside it tells the model.
    ///
    /// # Errors
    /// Names the file that is missing, or that cannot be read, and the column where it has one.
    pub fn from_sysfs(root: impl AsRef<Path>) -> Result<Self, TopologyError> {
        sysfs::topology(root.as_ref())
    }

    /// The machine in an XML file of hwloc.
    ///
    /// # Errors
    /// Names the file, and the line and column of what is not understood, or what there is too much of:
    /// the file may have 32 MiB, 500,000 elements and 64 attributes in each, and declare no entities.
    #[cfg(feature = "hwloc")]
    pub fn from_hwloc_xml(path: impl AsRef<Path>) -> Result<Self, TopologyError> {
        let path = path.as_ref();
        Self::from_hwloc_xml_text(path, &input::text(path, input::XML_BYTES)?)
    }

    /// The machine in the text of such a file; `path` is for its name and for messages.
    ///
    /// # Errors
    /// As [`from_hwloc_xml`](Self::from_hwloc_xml).
    #[cfg(feature = "hwloc")]
    pub fn from_hwloc_xml_text(path: impl AsRef<Path>, text: &str) -> Result<Self, TopologyError> {
        hwloc_xml::topology(path.as_ref(), text)
    }

    /// A machine described by a synthetic string of hwloc.
    ///
    /// ```
    /// use coreshard_topology::Topology;
    ///
    /// let machine = Topology::from_synthetic("pack:2 [numa] l3:1 core:120 pu:2")?;
    /// assert_eq!((machine.cpus().len(), machine.nodes()), (480, 2));
    /// let error = Topology::from_synthetic("pack:2 corn:4 pu:1").unwrap_err();
    /// assert_eq!(error.column(), Some(8));
    /// # Ok::<(), coreshard_topology::TopologyError>(())
    /// ```
    ///
    /// # Errors
    /// Names the column of what cannot be read, and what is allowed there.
    pub fn from_synthetic(text: &str) -> Result<Self, TopologyError> {
        synthetic::topology(text)
    }

    /// The machine of a preset's name.
    ///
    /// # Errors
    /// When there is no such preset; the text lists those there are.
    #[cfg(feature = "presets")]
    pub fn preset(name: &str) -> Result<Self, TopologyError> {
        Preset::named(name)?.topology()
    }

    /// All presets.
    ///
    /// # Errors
    /// When one of the files is wrong, which is a mistake of this crate.
    #[cfg(feature = "presets")]
    pub fn presets() -> Result<Vec<Preset>, TopologyError> {
        Preset::all()
    }

    /// The machine that a preset's name or a synthetic string stands for.
    ///
    /// # Errors
    /// When the text is neither.
    #[cfg(feature = "presets")]
    pub fn parse_machine(name_or_synthetic: &str) -> Result<Self, TopologyError> {
        let text = name_or_synthetic.trim();
        let describes =
            text.contains([':', '[', '(']) || text.starts_with(|c: char| c.is_ascii_digit());
        if describes { Self::from_synthetic(name_or_synthetic) } else { Self::preset(text) }
    }

    /// A machine of which nothing is known but its CPUs: each is taken as a core of its own, and all of
    /// them as one package with one last-level cache. `why` is noted.
    ///
    /// # Errors
    /// When there is no CPU.
    pub fn of_cpus(cpus: &CpuSet, why: impl Into<String>) -> Result<Self, TopologyError> {
        let mut parts = Parts::new("unknown".to_owned());
        parts.notes.push(why.into());
        parts.is_described = false;
        parts.cpus.extend(cpus.iter().map(RawCpu::of));
        parts.assemble()
    }

    /// The machine below `root`, of which `sys` could not be read: the CPUs in this process's affinity mask
    /// and in its control groups' sets.
    fn without_sysfs(root: &Path, error: TopologyError) -> Result<Self, TopologyError> {
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

    /// The same machine with only some of its CPUs. Cores, caches and packages that lose all their
    /// CPUs are gone, and the numbers of the rest are dense again; CPU and node numbers stay.
    ///
    /// # Errors
    /// When the mask is empty, or holds a CPU that is not online here.
    pub fn restrict(&self, mask: &CpuSet) -> Result<Self, TopologyError> {
        if mask.is_empty() {
            return Err(TopologyError::empty_mask());
        }
        let missing = mask - &self.online;
        if !missing.is_empty() {
            return Err(TopologyError::unknown_cpus(&self.name, &missing, &self.online));
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
