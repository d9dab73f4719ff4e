//! Rules on the affinity scope of unbound workqueues: how many CPUs share one pool, and its lock.

use coreshard_topology::{CpuKind, Pods, Scope, ShardSize};

use super::finding::{Case, Expected, Finding, Rule, Setting, Verdict};
use crate::facts::{Facts, ScopeSetting, WorkqueueSettings};

const DEFAULT_SCOPE_FILE: &str = "/sys/module/workqueue/parameters/default_affinity_scope";
const DEFAULT_SCOPE_BOOT: &str = "workqueue.default_affinity_scope";

/// The throughput of cache_shard over cache.
const SHARDS_OVER_CACHE: Expected = Expected {
    of: "work items queued a second",
    least: 0.99,
    most: 4.9,
    seen: "4.9 on a Grace (72 cores behind one cache) that does nothing but queue; 0.99 for buffered writes on \
           2 x Xeon 6330 (28 cores behind each), where the lock is not the limit (patch series of Linux 7.1)",
};

/// Which scope queues have that do not say.
pub(super) const DEFAULT_SCOPE: Rule = Rule {
    id: "default-scope",
    reason: "an unbound workqueue has one pool of workers, with one lock, for each pod of its affinity scope: where \
             many cores share a last-level cache, that lock takes the time; where pools are smaller than they must \
             be, a burst from one CPU finds fewer workers",
    source: "Documentation/core-api/workqueue.rst, \"Affinity Scopes\"; scopes are there since Linux 6.6, shards, and as \
             the default, since 7.1",
    judge: default_scope,
};

/// Queues with a scope of their own.
pub(super) const QUEUE_SCOPE: Rule = Rule {
    id: "queue-scope",
    reason: "a queue that was given a scope keeps it when the default becomes a better one",
    source: "Documentation/core-api/workqueue.rst, \"Affinity Scopes\" and \"Tunables\"",
    judge: queue_scope,
};

/// How the machine is divided.
struct Layouts {
    /// Cores of the machine.
    cores: usize,
    /// Cores of the largest last-level cache.
    cache_cores: usize,
    /// Cores of the largest node.
    node_cores: usize,
    shard_cores: usize,
    /// By scope: the cores of each pod.
    pods: [Vec<usize>; Scope::ALL.len()],
    /// Some shards would hold slower CPUs alone.
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
        // The kernel's shards: they mix kinds of cores, and cut clusters.
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

    /// A pool of so many cores would be divided, were they behind one cache.
    fn nodes_are_large(&self) -> bool {
        self.node_cores >= self.shard_cores.saturating_mul(3).div_ceil(2)
    }

    /// `9 pools of 8 cores each`.
    fn told(&self, scope: Scope) -> String {
        let (pods, cores) = (self.pods(scope), self.cores);
        let are_equal = self.pods[Self::index(scope)].windows(2).all(|two| two[0] == two[1]);
        let about = if are_equal { "" } else { "about " };
        let each = (cores as f64 / pods as f64).round();
        match pods {
            1 => format!("one pool for all {cores} cores"),
            _ if each <= 1.0 => format!("{pods} pools of a core each"),
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
        // A setting that is not known is not to be changed.
        finding.settings.clear();
        let assumed = format!("It was not recorded; this kernel starts with {set}. ");
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
                "This kernel has no affinity scopes: its unbound workqueues have a pool for each NUMA node ({}). \
                 Linux 7.1 would have {}.",
                told(Scope::Numa),
                told(Scope::CacheShard)
            );
            let risk = "another kernel is another kernel: nothing can be set in this one";
            case.consider(SUBJECT, statement, risk)
        }
        Some(_) => case.leave(
            SUBJECT,
            "This kernel has no affinity scopes, and on this machine they would make little difference.",
        ),
        None => case.leave(
            SUBJECT,
            format!(
                "The kernel is not known. With Linux 7.1 and its default this machine has {}; with Linux 6.6 to 7.0, {}.",
                told(Scope::CacheShard),
                told(Scope::Cache)
            ),
        ),
    }
}

/// Shards are the same pools as caches.
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
            "It is cache_shard, which parts fast CPUs from slow ones here ({told}); with so few cores neither that nor the lock of one \
             pool takes the time."
        );
        return case.leave(SUBJECT, statement);
    }
    if !layouts.shards_help() {
        return undivided(case, layouts);
    }
    case.leave(SUBJECT, format!("It is cache_shard, with {told}: what this machine needs."))
}

fn of_cache(case: &Case<'_>, layouts: &Layouts) -> Finding {
    if !layouts.shards_help() {
        return undivided(case, layouts);
    }
    let told = layouts.told(Scope::CacheShard);
    if layouts.is_mixed {
        let statement = format!(
            "Shards follow the CPUs' numbers, and would part fast CPUs from slow ones here ({told}); with so few cores the \
             lock is not what takes the time."
        );
        return case.leave(SUBJECT, statement);
    }
    let finding = if has_shards(case) {
        to_scope(case, layouts, Scope::Cache, Scope::CacheShard)
    } else {
        let statement = format!(
            "Up to {} cores share one pool and its lock ({}), and this kernel cannot divide them. Linux 7.1 \
             would have {told}. Where --seconds shows a queue that many CPUs feed, the scope smt for that queue \
             alone is a way until then.",
            layouts.cache_cores,
            layouts.told(Scope::Cache)
        );
        let risk = "with smt a burst from one CPU begins on one core's workers";
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
        "It is {set} ({}): fastest where every CPU queues as much as any other, and slow where one \
         queues bursts, which begin on one core. The kernel's own default would be {coarser} ({}).",
        layouts.told(set),
        layouts.told(coarser)
    );
    let risk = "somebody may have set it for a load that is even";
    case.consider(SUBJECT, statement, risk).with(scope_setting(set, coarser))
}

fn same_pools(case: &Case<'_>, layouts: &Layouts, set: Scope, other: Scope) -> Finding {
    let told = layouts.told(set);
    case.leave(SUBJECT, format!("On this machine {set} and {other} are the same pools ({told})."))
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
        true => "; the caches of a virtual machine are those that its host tells of",
        false => "",
    };
    let lock = if layouts.pods(now) == 1 { ", with one lock" } else { ", each with one lock" };
    let statement = format!(
        "It is {now}: {}{lock}. {to}{wanted} makes that {}. Queues that follow the default change at once.",
        layouts.told(now),
        layouts.told(to),
    );
    let risk = format!(
        "items of one queue begin nearer to the CPU that queued them: a burst from one CPU finds fewer workers at \
         first, and idle CPUs elsewhere take part only as the scheduler moves workers{virtual_risk}"
    );
    case.change(SUBJECT, statement, risk, scope_setting(now, to))
}

/// A queue's own scope is worth a word if it makes fewer pools than the default.
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
            "It was given the scope {}, with {} pools, where the default {default} has {}.",
            its.scope,
            layouts.pods(its.scope),
            layouts.pods(default)
        );
        let risk = "somebody may have wanted all of its items to share workers";
        case.consider(format!("workqueue {}", queue.name), statement, risk).with(Setting::new(
            path,
            Some(its.scope.to_string()),
            "default",
        ))
    });
    case.or_content(coarse.collect(), "scopes of single queues", || match known.len() {
        1 => "The one queue that shows its scope is as finely divided as the default.".to_owned(),
        count => format!(
            "The {count} queues that show their scope are as finely divided as the default."
        ),
    })
}

impl Finding {
    /// The scopes, before and after, where this finding is about the default scope and would change it: what a
    /// simulated machine can be asked about.
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
