//! The CPUs that a process may use, and its CPU quota.

use std::path::Path;

use crate::cgroup::{self, CgroupCpuset, CpuQuota};
use crate::input::{LIST_BYTES, plain};
use crate::sysfs::file::Folder;
use crate::{CpuSet, Topology, TopologyError};

/// The part of a machine that a process may use: the CPUs that are online, in its affinity mask and in the cpusets of
/// its control groups, and the CPU quota of these groups.
///
/// A program that ignores them starts too many workers in a container, or overrides the user's `taskset`.
///
/// ```no_run
/// use coreshard_topology::{Topology, Usable};
///
/// let machine = Topology::host()?;
/// let usable = Usable::host(&machine)?;
/// println!("{} CPUs, at most {} workers", usable.cpus().len(), usable.worker_limit());
/// # Ok::<(), coreshard_topology::TopologyError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Usable {
    cpus: CpuSet,
    online: CpuSet,
    affinity: Option<CpuSet>,
    cpusets: Vec<CgroupCpuset>,
    quota: Option<CpuQuota>,
}

impl Usable {
    /// Determines what this process may use of the machine it runs on.
    ///
    /// The affinity is that of the process's first thread, which `taskset` and container runtimes set. A thread that
    /// pinned itself does not restrict the others.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or no CPU remains.
    pub fn host(topology: &Topology) -> Result<Self, TopologyError> {
        Self::from_root("/", topology)
    }

    /// Determines what the recorded process of `root/proc/self` may use. Parts that were not recorded impose no limit.
    ///
    /// # Errors
    /// As [`host`](Self::host).
    pub fn from_root(root: impl AsRef<Path>, topology: &Topology) -> Result<Self, TopologyError> {
        let root = root.as_ref();
        let online = topology.online().clone();
        let affinity = affinity(root)?;
        let limits = cgroup::limits(root)?;
        let mut cpus = online.clone();
        for allowed in affinity.iter().chain(limits.cpusets.iter().map(|cpuset| &cpuset.cpus)) {
            cpus = &cpus & allowed;
        }
        if cpus.is_empty() {
            let problem =
                format!("this process may use none of its CPUs ({})", plain(&online.to_string()));
            return Err(TopologyError::malformed(topology.name(), problem));
        }
        Ok(Self { cpus, online, affinity, cpusets: limits.cpusets, quota: limits.quota })
    }

    /// Returns the CPUs that may be used. Never empty.
    pub const fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// Returns the online CPUs.
    pub const fn online(&self) -> &CpuSet {
        &self.online
    }

    /// Returns the affinity mask; `None` if it was not recorded. It may contain offline CPUs.
    pub const fn affinity(&self) -> Option<&CpuSet> {
        self.affinity.as_ref()
    }

    /// Returns the cpusets of the process's control groups: none, one, or two on hybrid hierarchies.
    pub fn cpusets(&self) -> &[CgroupCpuset] {
        &self.cpusets
    }

    /// Returns the smallest visible quota of the process's control groups; `None` if there is none.
    pub const fn quota(&self) -> Option<&CpuQuota> {
        self.quota.as_ref()
    }

    /// Returns the quota as a number of CPUs.
    pub fn quota_cpus(&self) -> Option<f64> {
        self.quota.as_ref().map(|quota| quota.cpus)
    }

    /// Returns the most workers that can run at once: one per usable CPU, or the quota rounded up if that is less; at
    /// least 1.
    pub fn worker_limit(&self) -> usize {
        let cpus = self.cpus.len();
        match self.quota_cpus() {
            // The quota is above 0. A cast from f64 saturates, and the number of CPUs limits it.
            Some(quota) => cpus.min(quota.ceil() as usize).max(1),
            None => cpus,
        }
    }
}

/// Returns the CPUs in both the affinity mask of the process of `root/proc/self` and its control groups' cpusets;
/// `None` if neither is known.
pub(crate) fn allowed(root: &Path) -> Result<Option<CpuSet>, TopologyError> {
    let Some(mut cpus) = affinity(root)?.filter(|cpus| !cpus.is_empty()) else { return Ok(None) };
    for cpuset in cgroup::limits(root)?.cpusets {
        let both = &cpus & &cpuset.cpus;
        cpus = if both.is_empty() { cpus } else { both };
    }
    Ok(Some(cpus))
}

/// `Cpus_allowed_list` of `/proc/self/status`.
fn affinity(root: &Path) -> Result<Option<CpuSet>, TopologyError> {
    const KEY: &str = "Cpus_allowed_list:";
    let proc = Folder::new(root.join("proc/self"));
    let Some(status) = proc.table("status", LIST_BYTES)? else { return Ok(None) };
    let Some((number, line)) = (1..).zip(status.lines()).find(|(_, line)| line.starts_with(KEY))
    else {
        return Ok(None);
    };
    let set: Result<CpuSet, _> = line[KEY.len()..].trim().parse();
    set.map(Some).map_err(|error| {
        let column = line.len() - line[KEY.len()..].trim_start().len() + error.column();
        let path = proc.path().join("status");
        TopologyError::file_at(&path, number, column, error)
    })
}

#[cfg(test)]
mod tests;
