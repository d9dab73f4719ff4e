//! Settings of the whole machine: isolated CPUs and the limit of real-time tasks.

use coreshard_topology::CpuSet;
use serde::{Serialize, Serializer};

use crate::tree::Tree;

/// A CPU mask in list format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaskFacts(pub CpuSet);

impl Serialize for MaskFacts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// CPUs isolated from kernel work by the boot parameters `isolcpus=` and `nohz_full=` or by cpuset partitions.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct IsolationFacts {
    /// `/sys/devices/system/cpu/isolated`.
    pub isolated: Option<MaskFacts>,
    /// `/sys/devices/system/cpu/nohz_full`.
    pub nohz_full: Option<MaskFacts>,
}

impl IsolationFacts {
    /// Returns all isolated CPUs.
    #[must_use]
    pub fn cpus(&self) -> CpuSet {
        let both = [&self.isolated, &self.nohz_full].into_iter().flatten();
        both.fold(CpuSet::new(), |all, mask| all.union(&mask.0))
    }
}

pub(super) fn isolation(tree: &Tree) -> IsolationFacts {
    let cpus = |name: &str| {
        // Some kernels print "(null)" for an empty mask.
        let file = format!("sys/devices/system/cpu/{name}");
        if tree.word(&file).is_some_and(|word| word == "(null)") {
            return Some(MaskFacts::default());
        }
        tree.list(file).map(MaskFacts)
    };
    IsolationFacts { isolated: cpus("isolated"), nohz_full: cpus("nohz_full") }
}

/// The limit of real-time tasks per period.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct RealtimeFacts {
    /// `/proc/sys/kernel/sched_rt_runtime_us`; -1 means no limit.
    pub runtime_us: Option<i64>,
    /// `/proc/sys/kernel/sched_rt_period_us`.
    pub period_us: Option<i64>,
}

pub(super) fn realtime(tree: &Tree) -> RealtimeFacts {
    // sosreports contain the output of `sysctl -a`.
    let listed = |key: &str| {
        let table = tree.table("sos_commands/kernel/sysctl_-a")?;
        let value = table.lines().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        })?;
        value.parse().ok()
    };
    let either = |name: &str| {
        let direct = tree.number(format!("proc/sys/kernel/{name}"));
        direct.or_else(|| listed(&format!("kernel.{name}")))
    };
    RealtimeFacts {
        runtime_us: either("sched_rt_runtime_us"),
        period_us: either("sched_rt_period_us"),
    }
}
