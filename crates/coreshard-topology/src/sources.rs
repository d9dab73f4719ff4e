//! Sources of machines: this machine, files, descriptions and names.

use std::path::Path;

#[cfg(feature = "presets")]
use crate::Preset;
#[cfg(feature = "hwloc")]
use crate::hwloc_xml;
use crate::{Topology, TopologyError, synthetic, sysfs, usable};

impl Topology {
    /// Reads the machine this runs on, with all online CPUs.
    ///
    /// [`Usable`](crate::Usable) determines which part of it this process may use.
    ///
    /// If `/sys` does not exist or cannot be read, the machine consists of the CPUs that affinity and control groups
    /// allow, with one last-level cache for all. [`is_described`](Self::is_described) is then false, and a note gives
    /// the reason.
    ///
    /// # Errors
    ///
    /// If `/proc` is also missing, or something in it cannot be read.
    pub fn host() -> Result<Self, TopologyError> {
        Self::host_at(Path::new("/"))
    }

    pub(crate) fn host_at(root: &Path) -> Result<Self, TopologyError> {
        let mut topology = match Self::from_sysfs(root) {
            Ok(topology) => topology,
            Err(error) => {
                let Some(cpus) = usable::allowed(root)? else { return Err(error) };
                let why = format!(
                    "cannot read the topology ({error}): assuming the CPUs that affinity and control groups allow, each a core, in one package with one last-level cache"
                );
                return Self::of_cpus(&cpus, why);
            }
        };
        topology.rename("host");
        Ok(topology)
    }

    /// Reads a machine whose `sys` folder is in `root`. A `proc` folder beside it provides the model.
    ///
    /// # Errors
    ///
    /// If a file is missing or cannot be read. The message names the file and, if possible, the column.
    pub fn from_sysfs(root: impl AsRef<Path>) -> Result<Self, TopologyError> {
        sysfs::topology(root.as_ref())
    }

    /// Reads the machine in an hwloc XML file.
    ///
    /// # Errors
    ///
    /// If the file is invalid or too large: the limits are 32 MiB, 500,000 elements, 64 attributes per element, and no
    /// entity declarations. The message names the file, line and column.
    #[cfg(feature = "hwloc")]
    pub fn from_hwloc_xml(path: impl AsRef<Path>) -> Result<Self, TopologyError> {
        hwloc_xml::of_file(path.as_ref())
    }

    /// Reads the machine in the text of an hwloc XML file. `path` is used for its name and in messages.
    ///
    /// # Errors
    ///
    /// As [`from_hwloc_xml`](Self::from_hwloc_xml).
    #[cfg(feature = "hwloc")]
    pub fn from_hwloc_xml_text(path: impl AsRef<Path>, text: &str) -> Result<Self, TopologyError> {
        hwloc_xml::topology(path.as_ref(), text)
    }

    /// Creates a machine from an hwloc synthetic string.
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
    ///
    /// If the string is invalid. The message names the column and the accepted input there.
    pub fn from_synthetic(text: &str) -> Result<Self, TopologyError> {
        synthetic::topology(text)
    }

    /// Returns the machine of a preset.
    ///
    /// # Errors
    ///
    /// If there is no such preset. The message lists the presets.
    #[cfg(feature = "presets")]
    pub fn preset(name: &str) -> Result<Self, TopologyError> {
        Preset::named(name)?.topology()
    }

    /// Returns all presets.
    ///
    /// # Errors
    ///
    /// If a preset file is invalid, which is a bug in this crate.
    #[cfg(feature = "presets")]
    pub fn presets() -> Result<Vec<Preset>, TopologyError> {
        Preset::all()
    }

    /// Returns the machine of a preset or synthetic string.
    ///
    /// # Errors
    ///
    /// If the text is neither.
    #[cfg(feature = "presets")]
    pub fn parse_machine(name_or_synthetic: &str) -> Result<Self, TopologyError> {
        let text = name_or_synthetic.trim();
        let describes =
            text.contains([':', '[', '(']) || text.starts_with(|c: char| c.is_ascii_digit());
        if describes { Self::from_synthetic(name_or_synthetic) } else { Self::preset(text) }
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
        assert!(machine.notes()[0].contains("cannot read the topology"), "{:?}", machine.notes());
        assert!(!machine.is_described());
    }
}
