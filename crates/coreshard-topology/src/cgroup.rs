//! The limits of this process's control groups: CPUs and quota.
//!
//! Cgroup versions 1 and 2 are supported. If both are mounted (a *hybrid* hierarchy), both apply. The files are
//! documented in the kernel's `Documentation/admin-guide/cgroup-v2.rst`, `cgroup-v1/cpusets.rst` and
//! `Documentation/scheduler/sched-bwc.rst`:
//!
//! | | version 2 | version 1 |
//! |---|---|---|
//! | CPUs | `cpuset.cpus.effective` of the nearest group that has it | `cpuset.effective_cpus`, `cpuset.cpus` |
//! | time | the least `cpu.max` of the group and its ancestors | the least `cpu.cfs_quota_us` / `cpu.cfs_period_us` |
//!
//! **Where the group's folder is.** `/proc/self/cgroup` names the group. `/proc/self/mountinfo` names the mount and the
//! group at its root. In a container these may not match: the name may be the host's, while the mount shows the
//! container's own group as its root. The part of the name below the mount's root is tried first. If that folder is not
//! visible, the mount's root is this process's group or an ancestor, which is the best approximation. Quotas of
//! invisible ancestors are unknown.

use std::path::{Path, PathBuf};

use crate::input::{NUMBER_BYTES, TABLE_BYTES, quoted};
use crate::sysfs::file::Folder;
use crate::{CpuSet, TopologyError};

/// Maximum number of hierarchies. Version 1 has about thirteen, and each may be mounted again.
const MAX_MOUNTS: usize = 256;

/// The part of CPU time that a control group may use.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CpuQuota {
    /// Time per period as a number of CPUs, above 0. 0.5 is half the time of one CPU.
    pub cpus: f64,
    /// The file that sets it.
    pub file: PathBuf,
}

/// The CPUs that a control group may use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CgroupCpuset {
    /// The CPUs.
    pub cpus: CpuSet,
    /// The file that sets them.
    pub file: PathBuf,
}

/// The combined limits of all control groups of the process.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) cpusets: Vec<CgroupCpuset>,
    pub(crate) quota: Option<CpuQuota>,
}

/// Reads the limits of the process that `root/proc/self` belongs to.
pub(crate) fn limits(root: &Path) -> Result<Limits, TopologyError> {
    let proc = Folder::new(root.join("proc/self"));
    let groups = Groups::read(&proc)?;
    let mut limits = Limits::default();
    for mount in mounts(root, &proc)? {
        let Some(group) = groups.path_in(&mount) else { continue };
        let chain = mount.chain(root, group);
        if mount.offers("cpuset") {
            limits.cpusets.extend(cpuset(&chain, mount.version)?);
        }
        if mount.offers("cpu") {
            for folder in &chain {
                let quota = match mount.version {
                    Version::One => quota_v1(folder)?,
                    Version::Two => quota_v2(folder)?,
                };
                limits.quota = least(limits.quota, quota);
            }
        }
    }
    Ok(limits)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A mounted hierarchy of control groups.
#[derive(Debug)]
struct Mount {
    version: Version,
    /// The group at the mount point.
    top: String,
    point: String,
    /// The mount options, which include the controllers. Empty for version 2, whose files show the controllers.
    options: String,
}

impl Mount {
    fn of(kind: &str, top: String, point: String, options: &str) -> Option<Self> {
        let version = match kind {
            "cgroup" => Version::One,
            "cgroup2" => Version::Two,
            _ => return None,
        };
        Some(Self { version, top, point, options: options.to_owned() })
    }

    fn offers(&self, controller: &str) -> bool {
        self.version == Version::Two || self.options.split(',').any(|option| option == controller)
    }

    /// Returns the folders of a group and its visible ancestors, innermost first.
    fn chain(&self, root: &Path, group: &str) -> Vec<Folder> {
        let point = root.join(self.point.trim_start_matches('/'));
        let below = if self.top == "/" {
            Some(group)
        } else {
            group
                .strip_prefix(self.top.as_str())
                .filter(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let below = Path::new(below.unwrap_or("").trim_start_matches('/'));
        // A name such as "/../other" lies outside this process's cgroup namespace.
        let stays_inside =
            below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let inner = if stays_inside { point.join(below) } else { point.clone() };
        let inner = if inner.is_dir() { inner } else { point.clone() };
        let visible = inner.ancestors().take_while(|folder| folder.starts_with(&point));
        visible.map(|folder| Folder::new(folder.to_owned())).collect()
    }
}

/// Returns the mounted hierarchies from `mountinfo`, or from `mounts` in recordings without it.
fn mounts(root: &Path, proc: &Folder) -> Result<Vec<Mount>, TopologyError> {
    if let Some(text) = proc.table("mountinfo", TABLE_BYTES)? {
        return Ok(text.lines().filter_map(from_mountinfo).take(MAX_MOUNTS).collect());
    }
    let table = proc.table("mounts", TABLE_BYTES)?;
    let table = match table {
        Some(table) => table,
        None => Folder::new(root.join("proc")).table("mounts", TABLE_BYTES)?.unwrap_or_default(),
    };
    Ok(table.lines().filter_map(from_mounts).take(MAX_MOUNTS).collect())
}

/// Parses `36 35 98:0 TOP POINT OPTIONS … - TYPE SOURCE SUPER-OPTIONS`.
fn from_mountinfo(line: &str) -> Option<Mount> {
    let (place, device) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (top, point) = (place.next()?, place.next()?);
    let mut device = device.split(' ');
    let kind = device.next()?;
    let options = device.nth(1).unwrap_or_default();
    Mount::of(kind, unescaped(top), unescaped(point), options)
}

/// Parses `SOURCE POINT TYPE OPTIONS 0 0`. The group at the mount point is unknown.
fn from_mounts(line: &str) -> Option<Mount> {
    let mut fields = line.split(' ').skip(1);
    let (point, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
    Mount::of(kind, "/".to_owned(), unescaped(point), options)
}

/// Decodes `\040` and other escapes of these tables.
fn unescaped(field: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(field.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

/// The groups of this process.
#[derive(Debug)]
struct Groups {
    /// Controllers (empty for version 2) and path.
    lines: Vec<(String, String)>,
    /// From `/proc/self/cpuset`, which older recordings have instead.
    cpuset: Option<String>,
}

impl Groups {
    fn read(proc: &Folder) -> Result<Self, TopologyError> {
        let text = proc.table("cgroup", TABLE_BYTES)?;
        // ID:CONTROLLERS:PATH. The path may contain colons.
        let read = |line: &str| {
            let mut fields = line.splitn(3, ':').skip(1);
            Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
        };
        let lines = text.as_deref().unwrap_or_default().lines().filter_map(read).collect();
        let cpuset = if text.is_none() { proc.word("cpuset")? } else { None };
        Ok(Self { lines, cpuset })
    }

    /// Returns the path of this process's group in a hierarchy.
    fn path_in(&self, mount: &Mount) -> Option<&str> {
        let fits = |controllers: &str| match mount.version {
            Version::Two => controllers.is_empty(),
            Version::One => {
                let mut named = controllers.split(',').filter(|name| !name.is_empty());
                named.any(|name| mount.options.split(',').any(|option| option == name))
            }
        };
        let found = self.lines.iter().find(|(controllers, _)| fits(controllers));
        found.map(|(_, path)| path.as_str()).or(self.cpuset.as_deref())
    }
}

/// Returns the CPUs of the innermost group that has them. Outer groups never have fewer.
fn cpuset(chain: &[Folder], version: Version) -> Result<Option<CgroupCpuset>, TopologyError> {
    let names: &[&str] = match version {
        Version::One => &["cpuset.effective_cpus", "cpuset.cpus", "cpus"],
        Version::Two => &["cpuset.cpus.effective"],
    };
    for folder in chain {
        for name in names {
            if let Some(cpus) = folder.list(name)?.filter(|cpus| !cpus.is_empty()) {
                return Ok(Some(CgroupCpuset { cpus, file: folder.path().join(name) }));
            }
        }
    }
    Ok(None)
}

/// Parses `cpu.max`: `QUOTA PERIOD` in microseconds, or `max PERIOD`.
fn quota_v2(folder: &Folder) -> Result<Option<CpuQuota>, TopologyError> {
    let Some(text) = folder.text("cpu.max", NUMBER_BYTES)? else { return Ok(None) };
    let file = folder.path().join("cpu.max");
    let mut fields = text.split_ascii_whitespace();
    let quota = fields.next();
    if quota == Some("max") {
        return Ok(None);
    }
    let number = |field: Option<&str>| field.and_then(|field| field.parse::<u64>().ok());
    // The kernel's default period is 100 ms.
    let period = fields.next().map_or(Some(100_000), |field| number(Some(field)));
    match (number(quota), period) {
        (Some(quota), Some(period)) if quota > 0 && period > 0 => {
            Ok(Some(CpuQuota { cpus: share(quota, period), file }))
        }
        _ => {
            let problem = format!(
                "expected \"QUOTA PERIOD\" or \"max PERIOD\", found {}",
                quoted(text.trim())
            );
            Err(TopologyError::file(&file, problem))
        }
    }
}

/// Parses `cpu.cfs_quota_us`, with -1 for no limit, and `cpu.cfs_period_us`.
fn quota_v1(folder: &Folder) -> Result<Option<CpuQuota>, TopologyError> {
    let Some(quota) = folder.number("cpu.cfs_quota_us")?.filter(|quota| *quota > 0) else {
        return Ok(None);
    };
    let period = folder.number("cpu.cfs_period_us")?.filter(|period| *period > 0);
    let cpus = share(quota.into(), period.unwrap_or(100_000).into());
    Ok(Some(CpuQuota { cpus, file: folder.path().join("cpu.cfs_quota_us") }))
}

/// Both are far below 2^53 µs (285 years), so the conversion is exact.
fn share(quota_us: u64, period_us: u64) -> f64 {
    quota_us as f64 / period_us as f64
}

fn least(a: Option<CpuQuota>, b: Option<CpuQuota>) -> Option<CpuQuota> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.cpus < a.cpus { b } else { a }),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests;
