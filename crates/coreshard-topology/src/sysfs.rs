//! Reads a machine from `/sys`, the one this runs on or a recorded one.
//!
//! What is read, all of it documented in the kernel's `Documentation/ABI/stable/sysfs-devices-system-cpu`,
//! `Documentation/admin-guide/cputopology.rst` and `Documentation/ABI/testing/sysfs-devices-system-cpu`:
//!
//! | what | from `sys/devices/system/` | if that is missing |
//! |---|---|---|
//! | CPUs online | `cpu/online` | `cpu/cpuN/online`; no such file means online |
//! | core | `cpu/cpuN/topology/core_cpus_list`, `thread_siblings_list`, or their masks | package and `core_id`; else a core of its own |
//! | package | `cpu/cpuN/topology/physical_package_id` | `package_cpus_list`, `core_siblings_list`, or their masks; else one package for all |
//! | last-level cache | the highest unified (else data) `cpu/cpuN/cache/indexK` | the package stands in |
//! | node | `node/nodeN/cpulist`, or its mask | unknown |
//! | kind | `../cpu_core/cpus` and `../cpu_atom/cpus`; else `cpu_capacity`, else `cpufreq/base_frequency` | unknown |
//!
//! Whatever is missing is noted in [`Topology::notes`]. What is there but cannot be read is an error,
//! because a guess would be a silent fallback.

mod cache;
mod cpu;
pub(crate) mod file;
mod kind;
mod node;

use std::path::Path;

use crate::assembly::Parts;
use crate::{CpuSet, Topology, TopologyError};
use file::Folder;

impl Topology {
    /// The machine this runs on, all of its CPUs that are online.
    ///
    /// What this process may use of it is told by [`Usable`](crate::Usable).
    ///
    /// # Errors
    /// When `/sys` is not there, or something in it cannot be read.
    pub fn host() -> Result<Self, TopologyError> {
        let mut topology = Self::from_sysfs("/")?;
        "host".clone_into(&mut topology.name);
        Ok(topology)
    }

    /// A machine whose `sys` folder lies in `root`; a `proc` folder beside it tells the model.
    ///
    /// # Errors
    /// Names the file that is missing, or that cannot be read, and the column where it has one.
    pub fn from_sysfs(root: impl AsRef<Path>) -> Result<Self, TopologyError> {
        let root = root.as_ref();
        let devices = Folder::new(root.join("sys/devices"));
        if !devices.path().join("system/cpu").is_dir() {
            let mut problem = "expected a folder that holds sys/devices/system/cpu".to_owned();
            if root.join("devices/system/cpu").is_dir() {
                problem.push_str("; give the folder above this one");
            }
            return Err(TopologyError::file(root, problem));
        }
        let name = root.file_name().unwrap_or(root.as_os_str()).to_string_lossy();
        let mut parts = Parts::new(name.into_owned());
        parts.model = model(root)?;

        let folder = devices.folder("system/cpu");
        let online = cpu::online(&folder, &mut parts)?;
        cpu::read(&folder, &online, &mut parts)?;
        cache::read(&folder, &online, &mut parts)?;
        node::read(&devices.folder("system/node"), &online, &mut parts)?;
        kind::read(&devices, &online, &mut parts)?;
        parts.assemble()
    }
}

/// The processor's or the machine's name, where one is told.
fn model(root: &Path) -> Result<Option<String>, TopologyError> {
    let folder = Folder::new(root.to_owned());
    let info = folder.text("proc/cpuinfo")?.unwrap_or_default();
    let named = info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    let product = || folder.text("sys/devices/virtual/dmi/id/product_name");
    let model = match named {
        Some(named) => Some(named),
        None => product()?.map(|name| name.trim().to_owned()),
    };
    Ok(model.filter(|name| !name.is_empty()))
}

/// `CPU 3` or `CPUs 0-3`, to start a note with.
fn cpus(set: &CpuSet) -> String {
    let noun = if set.len() == 1 { "CPU" } else { "CPUs" };
    format!("{noun} {set}")
}

#[cfg(test)]
mod tests;
