//! Sources of machines: this one, files, descriptions, names.

use std::path::Path;

#[cfg(feature = "presets")]
use crate::Preset;
#[cfg(feature = "hwloc")]
use crate::hwloc_xml;
use crate::{Topology, TopologyError, synthetic, sysfs, usable};

impl Topology {
    /// The machine this runs on, all of its CPUs that are online.
    ///
    /// [`Usable`](crate::Usable) tells which part of it this process may use.
    ///
    /// If `/sys` does not exist, or cannot be read, it is the CPUs that affinity and control groups
    /// leave to this process, with one last-level cache for all; [`is_described`](Self::is_described)
    /// is false then, and a note says why.
    ///
    /// # Errors
    /// If there is no `/proc` either, or something in it cannot be read.
    pub fn host() -> Result<Self, TopologyError> {
        Self::host_at(Path::new("/"))
    }

    pub(crate) fn host_at(root: &Path) -> Result<Self, TopologyError> {
        let mut topology = match Self::from_sysfs(root) {
            Ok(topology) => topology,
            Err(error) => {
                let Some(cpus) = usable::allowed(root)? else { return Err(error) };
                let why = format!(
                    "the machine is not told ({error}): what affinity and control groups allow is taken for \
                     all of it, each CPU as a core of its own, and all as one package with one last-level cache"
                );
                return Self::of_cpus(&cpus, why);
            }
        };
        topology.rename("host");
        Ok(topology)
    }

    /// A machine whose `sys` folder lies in `root`; a `proc` folder beside it tells the model.
    ///
    /// # Errors
    /// Names the file that is missing, or that cannot be read, and the column if it has one.
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
        hwloc_xml::of_file(path.as_ref())
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
    /// If there is no such preset; the text lists those there are.
    #[cfg(feature = "presets")]
    pub fn preset(name: &str) -> Result<Self, TopologyError> {
        Preset::named(name)?.topology()
    }

    /// All presets.
    ///
    /// # Errors
    /// If one of the files is wrong, which is a mistake of this crate.
    #[cfg(feature = "presets")]
    pub fn presets() -> Result<Vec<Preset>, TopologyError> {
        Preset::all()
    }

    /// The machine that a preset's name or a synthetic string stands for.
    ///
    /// # Errors
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
        assert!(machine.notes()[0].contains("the machine is not told"), "{:?}", machine.notes());
        assert!(!machine.is_described());
    }
}
