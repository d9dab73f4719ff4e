//! Rules for the affinity scope of unbound workqueues: how many CPUs share a pool and its lock.

use coreshard_topology::{CpuKind, Pods, Scope, ShardSize};

use super::finding::{Case, Expected, Finding, Rule, Setting, Verdict};
use crate::facts::{Facts, ScopeSetting, WorkqueueSettings};

const DEFAULT_SCOPE_FILE: &str = "/sys/module/workqueue/parameters/default_affinity_scope";
const DEFAULT_SCOPE_BOOT: &str = "workqueue.default_affinity_scope";

/// The throughput of cache_shard relative to cache.
const SHARDS_OVER_CACHE: Expected = Expected {
    of: "work items queued per second",
    least: 0.99,
    most: 4.9,
    seen: "4.9 on a Grace (72 cores behind one cache) that only queues; 0.99 for buffered writes on 2 x Xeon 6330 (28 cores behind each cache), which are not limited by the lock (patch series of Linux 7.1)",
};

/// The default scope.
pub(super) const DEFAULT_SCOPE: Rule = Rule {
    id: "default-scope",
    reason: "an unbound workqueue has one worker pool, with one lock, for each pod of its affinity scope: if many cores share a last-level cache, they contend for that lock; if pools are too small, a burst from one CPU has few workers",
    source: "Documentation/core-api/workqueue.rst, \"Affinity Scopes\"; scopes exist since Linux 6.6; shards exist, and are the default, since 7.1",
    judge: default_scope,
};

/// Queues with a scope of their own.
pub(super) const QUEUE_SCOPE: Rule = Rule {
    id: "queue-scope",
    reason: "a queue with an explicit scope does not follow a better default",
    source: "Documentation/core-api/workqueue.rst, \"Affinity Scopes\" and \"Tunables\"",
    judge: queue_scope,
};

/// How each scope divides the machine.
struct Layouts {
    /// Cores of the machine.
    cores: usize,
    /// Cores of the largest last-level cache.
    cache_cores: usize,
    /// Cores of the largest node.
    node_cores: usize,
    shard_cores: usize,
    /// The cores of each pod, by scope.
    pods: [Vec<usize>; Scope::ALL.len()],
    /// Whether some shards would consist of slower CPUs only.
    is_mixed: bool,
}

impl Layouts {
    fn of(facts: &Facts) -> Self {
        let topology = &facts.topology;
        let size = facts.workqueues.cache_shard_size.unwrap_or(8);
        let size = ShardSize::new(usize::try_from(size).unwrap_or(usize::MAX));
        let cores_of = |scope| -> Vec<usize> {
            let pods = Pods::new(topology, topology.online(), scope, size).ok();
            pods.iter().flat_map(Pods::iter).map(|pod| pod.cores).collect()
        };
        let caches = cores_of(Scope::Cache);
        // The kernel's shards mix kinds of cores and split clusters.
        let shards: Vec<usize> = caches.iter().flat_map(|cores| size.divide(*cores)).collect();
        let is_divided = shards.len() != caches.len();
        let pods = Scope::ALL.map(|scope| match scope {
            Scope::CacheShard => shards.clone(),
            scope => cores_of(scope),
        });
        let largest = |pods: &[usize]| pods.iter().copied().max().unwrap_or(1);
        let has = |kind| topology.cpus().iter().any(|cpu| cpu.kind == kind);
        Self {
            cores: topology.cores(),
            cache_cores: largest(&caches),
            node_cores: largest(&pods[Self::index(Scope::Numa)]),
            shard_cores: size.cores(),
            is_mixed: is_divided && has(CpuKind::Performance) && has(CpuKind::Efficiency),
            pods,
        }
    }

    fn index(scope: Scope) -> usize {
        Scope::ALL.iter().position(|it| *it == scope).unwrap_or_default()
    }

    fn pods(&self, scope: Scope) -> usize {
        self.pods[Self::index(scope)].len().max(1)
    }

    fn shards_help(&self) -> bool {
        self.pods(Scope::CacheShard) > self.pods(Scope::Cache)
    }

    /// Returns true if a pool of a whole node would be divided if its cores shared one cache.
    fn nodes_are_large(&self) -> bool {
        self.node_cores >= self.shard_cores.saturating_mul(3).div_ceil(2)
    }

    /// Formats `9 pools of 8 cores each`.
    fn told(&self, scope: Scope) -> String {
        let (pods, cores) = (self.pods(scope), self.cores);
        let are_equal = self.pods[Self::index(scope)].windows(2).all(|two| two[0] == two[1]);
        let about = if are_equal { "" } else { "about " };
        let each = (cores as f64 / pods as f64).round();
        match pods {
            1 => format!("one pool for all {cores} cores"),
            _ if each <= 1.0 => format!("{pods} pools of one core each"),
            _ => format!("{pods} pools of {about}{each} cores each"),
        }
    }
}

const SUBJECT: &str = "default affinity scope";

fn default_scope(case: &Case<'_>) -> Vec<Finding> {
    let layouts = Layouts::of(case.facts);
    let recorded = case.facts.workqueues.default_scope;
    let version = case.facts.kernel.version;
    let by_version = version.and_then(|it| WorkqueueSettings::of_version(it).default_scope);
    let Some(set) = recorded.or(by_version).map(|it| it.scope) else {
        return vec![without_scopes(case, &layouts)];
    };
    let mut finding = match set {
        Scope::CacheShard => of_cache_shard(case, &layouts),
        Scope::Cache => of_cache(case, &layouts),
        Scope::Numa | Scope::System => of_many_caches(case, &layouts, set),
        Scope::Cpu | Scope::Smt => of_cores(case, &layouts, set),
    };
    if recorded.is_none() {
        // Do not recommend changing an unknown setting.
        finding.settings.clear();
        let assumed = format!("It was not recorded; this kernel's default is {set}. ");
        finding.statement.insert_str(0, &assumed);
    }
    vec![finding]
}

fn without_scopes(case: &Case<'_>, layouts: &Layouts) -> Finding {
    let told = |scope| layouts.told(scope);
    let is_divided = layouts.pods(Scope::Cache) > layouts.pods(Scope::Numa);
    let helps =
        layouts.nodes_are_large() && (is_divided || layouts.shards_help() && !layouts.is_mixed);
    match case.facts.workqueues.has_scopes(case.facts.kernel.version) {
        Some(_) if helps => {
            let statement = format!(
                "This kernel has no affinity scopes: its unbound workqueues have one pool per NUMA node ({}). \
                 Linux 7.1 would have {}.",
                told(Scope::Numa),
                told(Scope::CacheShard)
            );
            let risk = "a kernel upgrade: this kernel has no such setting";
            case.consider(SUBJECT, statement, risk)
        }
        Some(_) => case.leave(
            SUBJECT,
            "This kernel has no affinity scopes, but they would make little difference on this machine.",
        ),
        None => case.leave(
            SUBJECT,
            format!(
                "The kernel is unknown. By default, Linux 7.1 has {} on this machine, and Linux 6.6 to 7.0 has {}.",
                told(Scope::CacheShard),
                told(Scope::Cache)
            ),
        ),
    }
}

/// Shards and caches form the same pools.
fn undivided(case: &Case<'_>, layouts: &Layouts) -> Finding {
    let cores = match layouts.cache_cores {
        1 => "one core".to_owned(),
        cores => format!("{cores} cores"),
    };
    let statement = format!(
        "No last-level cache has more than {cores}, which is one shard: cache_shard and cache are the same pools here ({}).",
        layouts.told(Scope::Cache)
    );
    case.leave(SUBJECT, statement)
}

fn of_cache_shard(case: &Case<'_>, layouts: &Layouts) -> Finding {
    let told = layouts.told(Scope::CacheShard);
    if layouts.is_mixed {
        let statement = format!(
            "It is cache_shard, which separates fast CPUs from slow ones here ({told}); with few cores, neither this nor the lock of one pool matters."
        );
        return case.leave(SUBJECT, statement);
    }
    if !layouts.shards_help() {
        return undivided(case, layouts);
    }
    case.leave(SUBJECT, format!("It is cache_shard, with {told}, which suits this machine."))
}

fn of_cache(case: &Case<'_>, layouts: &Layouts) -> Finding {
    if !layouts.shards_help() {
        return undivided(case, layouts);
    }
    let told = layouts.told(Scope::CacheShard);
    if layouts.is_mixed {
        let statement = format!(
            "Shards follow CPU numbers and would separate fast CPUs from slow ones here ({told}); with few cores, the lock is not the limit."
        );
        return case.leave(SUBJECT, statement);
    }
    let finding = if has_shards(case) {
        to_scope(case, layouts, Scope::Cache, Scope::CacheShard)
    } else {
        let statement = format!(
            "Up to {} cores share one pool and its lock ({}), and this kernel cannot divide them. Linux 7.1 would have {told}. Until then, if --seconds shows a queue that many CPUs feed, set the scope smt for that queue alone.",
            layouts.cache_cores,
            layouts.told(Scope::Cache)
        );
        let risk = "with smt, a burst from one CPU starts on the workers of one core";
        case.consider(SUBJECT, statement, risk)
    };
    Finding { expected: Some(SHARDS_OVER_CACHE), ..finding }
}

fn of_many_caches(case: &Case<'_>, layouts: &Layouts, set: Scope) -> Finding {
    let is_sharded = has_shards(case) && layouts.shards_help() && !layouts.is_mixed;
    let better = if is_sharded { Scope::CacheShard } else { Scope::Cache };
    match layouts.pods(better) > layouts.pods(set) {
        true => to_scope(case, layouts, set, better),
        false => same_pools(case, layouts, set, better),
    }
}

fn of_cores(case: &Case<'_>, layouts: &Layouts, set: Scope) -> Finding {
    let coarser = if has_shards(case) { Scope::CacheShard } else { Scope::Cache };
    if layouts.pods(coarser) == layouts.pods(set) {
        return same_pools(case, layouts, set, coarser);
    }
    let statement = format!(
        "It is {set} ({}): fastest if all CPUs queue equally, and slow if one queues bursts, which start on one core. The kernel's default is {coarser} ({}).",
        layouts.told(set),
        layouts.told(coarser)
    );
    let risk = "it may have been chosen for an even load";
    case.consider(SUBJECT, statement, risk).with(scope_setting(set, coarser))
}

fn same_pools(case: &Case<'_>, layouts: &Layouts, set: Scope, other: Scope) -> Finding {
    let told = layouts.told(set);
    case.leave(SUBJECT, format!("On this machine, {set} and {other} form the same pools ({told})."))
}

fn has_shards(case: &Case<'_>) -> bool {
    case.facts.workqueues.has_shards(case.facts.kernel.version) == Some(true)
}

fn scope_setting(now: Scope, to: Scope) -> Setting {
    Setting::new(DEFAULT_SCOPE_FILE, Some(now.to_string()), to.to_string())
        .at_boot(format!("{DEFAULT_SCOPE_BOOT}={to}"))
}

fn to_scope(case: &Case<'_>, layouts: &Layouts, now: Scope, to: Scope) -> Finding {
    let wanted = match to {
        Scope::CacheShard => format!(" (shards of about {} cores)", layouts.shard_cores),
        _ => String::new(),
    };
    let virtual_risk = match case.facts.kernel.is_virtual {
        true => "; the host may report other caches to a virtual machine than it has",
        false => "",
    };
    let lock = if layouts.pods(now) == 1 { ", with one lock" } else { ", each with one lock" };
    let statement = format!(
        "It is {now}: {}{lock}. {to}{wanted} gives {}. Queues that follow the default change at once.",
        layouts.told(now),
        layouts.told(to),
    );
    let risk = format!(
        "items start nearer to the CPU that queued them: a burst from one CPU has fewer workers at first, and idle CPUs elsewhere help only when the scheduler moves workers{virtual_risk}"
    );
    case.change(SUBJECT, statement, risk, scope_setting(now, to))
}

/// Reports queues whose own scope makes fewer pools than the default.
fn queue_scope(case: &Case<'_>) -> Vec<Finding> {
    let layouts = Layouts::of(case.facts);
    let Some(default) = case.facts.workqueues.default_scope.map(|it| it.scope) else {
        return Vec::new();
    };
    let queues = case.facts.workqueues.queues.iter();
    let known: Vec<_> = queues.filter_map(|queue| Some((queue, queue.scope?))).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let is_coarse =
        |its: &ScopeSetting| !its.is_default && layouts.pods(its.scope) < layouts.pods(default);
    let coarse = known.iter().filter(|(_, its)| is_coarse(its)).map(|(queue, its)| {
        let path = format!("/sys/devices/virtual/workqueue/{}/affinity_scope", queue.name);
        let statement = format!(
            "Its scope is {}, with {} pools; the default {default} has {}.",
            its.scope,
            layouts.pods(its.scope),
            layouts.pods(default)
        );
        let risk = "it may be intended that all of its items share workers";
        case.consider(format!("workqueue {}", queue.name), statement, risk).with(Setting::new(
            path,
            Some(its.scope.to_string()),
            "default",
        ))
    });
    case.or_content(coarse.collect(), "scopes of individual queues", || match known.len() {
        1 => {
            "The only queue that exports its scope is divided as finely as the default.".to_owned()
        }
        count => format!(
            "The {count} queues that export their scope are divided as finely as the default."
        ),
    })
}

impl Finding {
    /// Returns the scopes before and after the change, if this finding would change the default scope. The change can
    /// then be simulated.
    ///
    /// ```
    /// use coreshard_advise::{Facts, KernelVersion, judge};
    /// use coreshard_topology::{Scope, Topology};
    ///
    /// let machine = Topology::from_synthetic("pack:1 numa:1 l3:1 core:72 pu:1")?;
    /// let mut facts = Facts::assumed(machine, KernelVersion::new(7, 1));
    /// facts.workqueues.default_scope = Some("system".parse()?);
    /// let change = judge(&facts, None).iter().find_map(|finding| finding.scopes());
    /// assert_eq!(change, Some((Scope::System, Scope::CacheShard)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn scopes(&self) -> Option<(Scope, Scope)> {
        if self.rule.id != DEFAULT_SCOPE.id || self.verdict == Verdict::Leave {
            return None;
        }
        let setting = self.settings.first()?;
        Some((setting.now.as_ref()?.parse().ok()?, setting.to.parse().ok()?))
    }
}
