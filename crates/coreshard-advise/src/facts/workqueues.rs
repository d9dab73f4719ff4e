//! Kernel workqueues: global settings, and the attributes of queues that export them.

use std::fmt;
use std::str::FromStr;

use coreshard_topology::Scope;
use serde::{Serialize, Serializer};

use super::kernel::KernelVersion;
use super::machine::MaskFacts;
use super::parse_error::ParseSettingError;
use crate::tree::Tree;

/// The first version with affinity scopes for unbound workqueues (Linux 6.6).
const WITH_SCOPES: KernelVersion = KernelVersion::new(6, 6);
/// The first version that divides caches into shards, by default (Linux 7.1).
const WITH_SHARDS: KernelVersion = KernelVersion::new(7, 1);
const PARAMETERS: &str = "sys/module/workqueue/parameters";
const DEVICES: &str = "sys/devices/virtual/workqueue";

/// Settings of all workqueues, and the queues that export their attributes.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct WorkqueueSettings {
    /// The scope of queues without one of their own; `None` if the kernel has no scopes or the setting is unknown.
    pub default_scope: Option<ScopeSetting>,
    /// Target number of cores in a shard.
    pub cache_shard_size: Option<u64>,
    /// Time after which an item of a per-CPU queue is treated as CPU-intensive, in microseconds.
    pub cpu_intensive_thresh_us: Option<u64>,
    /// Seconds without progress after which the watchdog reports a queue; 0 disables it.
    pub watchdog_thresh_s: Option<u64>,
    /// Whether queues that request it are unbound, to save power.
    pub power_efficient: Option<bool>,
    /// Whether unbound items are placed on CPUs round-robin, for debugging.
    pub debug_force_rr_cpu: Option<bool>,
    /// The CPUs that unbound queues may use.
    pub cpumask: Option<MaskFacts>,
    /// The requested CPUs, including isolated ones.
    pub cpumask_requested: Option<MaskFacts>,
    /// CPUs removed by cpuset partitions.
    pub cpumask_isolated: Option<MaskFacts>,
    /// By name. Only queues created with `WQ_SYSFS` are listed, which are few.
    pub queues: Vec<WorkqueueFacts>,
}

impl WorkqueueSettings {
    /// Returns the defaults of a kernel version that do not depend on the machine.
    #[must_use]
    pub fn of_version(version: KernelVersion) -> Self {
        let scope = (version >= WITH_SCOPES).then(|| {
            let scope = if version >= WITH_SHARDS { Scope::CacheShard } else { Scope::Cache };
            ScopeSetting { scope, is_default: false }
        });
        Self {
            default_scope: scope,
            cache_shard_size: (version >= WITH_SHARDS).then_some(8),
            cpu_intensive_thresh_us: scope.map(|_| 10_000),
            watchdog_thresh_s: Some(30),
            power_efficient: Some(false),
            debug_force_rr_cpu: Some(false),
            ..Self::default()
        }
    }

    /// Returns whether the kernel has affinity scopes; `None` if unknown.
    #[must_use]
    pub fn has_scopes(&self, version: Option<KernelVersion>) -> Option<bool> {
        if self.default_scope.is_some() { Some(true) } else { version.map(|it| it >= WITH_SCOPES) }
    }

    /// Returns whether the kernel can divide caches into shards; `None` if unknown.
    #[must_use]
    pub fn has_shards(&self, version: Option<KernelVersion>) -> Option<bool> {
        let is_so = self.cache_shard_size.is_some()
            || self.default_scope.is_some_and(|it| it.scope == Scope::CacheShard);
        if is_so { Some(true) } else { version.map(|it| it >= WITH_SHARDS) }
    }
}

/// The attributes of one workqueue.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct WorkqueueFacts {
    /// The name.
    pub name: String,
    /// Whether items run on the CPU that queued them. Other queues are unbound and have scopes.
    pub per_cpu: Option<bool>,
    /// The affinity scope.
    pub scope: Option<ScopeSetting>,
    /// Whether workers must stay in their pod.
    pub strict: Option<bool>,
    /// The CPUs that items may run on.
    pub cpumask: Option<MaskFacts>,
    /// Maximum number of active items.
    pub max_active: Option<u64>,
    /// The nice value of the workers.
    pub nice: Option<i64>,
}

/// An affinity scope as the kernel prints it: `cache`, or `default (cache)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeSetting {
    /// The effective scope.
    pub scope: Scope,
    /// Whether the queue follows the default.
    pub is_default: bool,
}

impl fmt::Display for ScopeSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_default { write!(f, "default ({})", self.scope) } else { self.scope.fmt(f) }
    }
}

impl Serialize for ScopeSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for ScopeSetting {
    type Err = ParseSettingError;

    /// # Errors
    ///
    /// If the text is neither a scope name nor `default (NAME)`.
    fn from_str(text: &str) -> Result<Self, ParseSettingError> {
        let inner = text.strip_prefix("default (").and_then(|rest| rest.strip_suffix(')'));
        let scope = inner.unwrap_or(text).parse();
        let setting = scope.map(|scope| Self { scope, is_default: inner.is_some() });
        setting.map_err(|_| {
            let names = Scope::ALL.map(Scope::name).join(", ");
            let expected = format!("one of {names}, or one such as \"default (cache)\"");
            ParseSettingError::new("affinity scope", text, expected)
        })
    }
}

pub(super) fn read(tree: &Tree) -> WorkqueueSettings {
    let parameter = |name: &str| format!("{PARAMETERS}/{name}");
    let mask = |name: &str| tree.mask(format!("{DEVICES}/{name}")).map(MaskFacts);
    WorkqueueSettings {
        default_scope: scope(tree, &parameter("default_affinity_scope")),
        cache_shard_size: tree.count(parameter("cache_shard_size")),
        cpu_intensive_thresh_us: tree.count(parameter("cpu_intensive_thresh_us")),
        watchdog_thresh_s: tree.count(parameter("watchdog_thresh")),
        power_efficient: tree.flag(parameter("power_efficient")),
        debug_force_rr_cpu: tree.flag(parameter("debug_force_rr_cpu")),
        cpumask: mask("cpumask"),
        cpumask_requested: mask("cpumask_requested"),
        cpumask_isolated: mask("cpumask_isolated"),
        queues: queues(tree),
    }
}

fn scope(tree: &Tree, name: &str) -> Option<ScopeSetting> {
    tree.parsed(name, "an affinity scope", |word| word.parse().ok())
}

fn queues(tree: &Tree) -> Vec<WorkqueueFacts> {
    let names = tree.names(DEVICES).into_iter();
    // Other folders, such as `power`, lack this file.
    let queues = names.filter(|name| tree.has(format!("{DEVICES}/{name}/max_active")));
    queues
        .map(|name| {
            let file = |attribute: &str| format!("{DEVICES}/{name}/{attribute}");
            WorkqueueFacts {
                per_cpu: tree.flag(file("per_cpu")),
                scope: scope(tree, &file("affinity_scope")),
                strict: tree.flag(file("affinity_strict")),
                cpumask: tree.mask(file("cpumask")).map(MaskFacts),
                max_active: tree.count(file("max_active")),
                nice: tree.number(file("nice")),
                name,
            }
        })
        .collect()
}
