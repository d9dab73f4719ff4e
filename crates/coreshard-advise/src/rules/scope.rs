//! The affinity scope of unbound workqueues: how many CPUs share one pool, and its lock.

use coreshard_topology::{CpuKind, Pods, Scope, ShardSize};

use super::finding::{Expected, Finding, Rule, Setting, Verdict};
use crate::facts::{Facts, WorkqueueSettings};
use crate::measure::Measured;

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
    /// Cores of the largest last-level cache.
    cores: usize,
    /// Cores of the largest node.
    node_cores: usize,
    shard_cores: usize,
    pods: [usize; Scope::ALL.len()],
    /// Whether all pods of the scope have as many cores.
    are_equal: [bool; Scope::ALL.len()],
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
        let pods = Scope::ALL.map(|scope| match scope {
            Scope::CacheShard => shards.clone(),
            scope => cores_of(scope),
        });
        let largest = |pods: &[usize]| pods.iter().copied().max().unwrap_or(1);
        let (cores, node_cores) = (largest(&caches), largest(&pods[Self::index(Scope::Numa)]));
        let has = |kind| topology.cpus().iter().any(|cpu| cpu.kind == kind);
        let is_mixed = has(CpuKind::Performance) && has(CpuKind::Efficiency);
        let is_divided = shards.len() != caches.len();
        let are_equal = pods.each_ref().map(|pods| pods.windows(2).all(|two| two[0] == two[1]));
        Self {
            cores,
            node_cores,
            are_equal,
            shard_cores: size.cores(),
            is_mixed: is_mixed && is_divided,
            pods: pods.map(|pods| pods.len().max(1)),
        }
    }

    fn index(scope: Scope) -> usize {
        Scope::ALL.iter().position(|it| *it == scope).unwrap_or_default()
    }

    fn pods(&self, scope: Scope) -> usize {
        self.pods[Self::index(scope)]
    }

    fn shards_help(&self) -> bool {
        self.pods(Scope::CacheShard) > self.pods(Scope::Cache)
    }

    /// A pool of so many cores would be divided, were they behind one cache.
    fn nodes_are_large(&self) -> bool {
        self.node_cores >= self.shard_cores.saturating_mul(3).div_ceil(2)
    }

    /// `9 pools of 8 cores each`.
    fn told(&self, scope: Scope, all_cores: usize) -> String {
        let pods = self.pods(scope);
        let plural = if pods == 1 { "pool" } else { "pools" };
        let each = (all_cores as f64 / pods as f64).round();
        let about = if self.are_equal[Self::index(scope)] { "" } else { "about " };
        let each = if each <= 1.0 {
            "a core each".to_owned()
        } else {
            format!("{about}{each} cores each")
        };
        match pods {
            1 => format!("one pool for all {all_cores} cores"),
            _ => format!("{pods} {plural} of {each}"),
        }
    }
}

fn default_scope(rule: &'static Rule, facts: &Facts, _: Option<&Measured>) -> Vec<Finding> {
    let layouts = Layouts::of(facts);
    let version = facts.kernel.version;
    let cores = facts.topology.cores();
    let told = |scope| layouts.told(scope, cores);
    let leave = |statement: String| Finding::leave(rule, "default affinity scope", statement);
    let consider = |statement: String, risk: &str| {
        Finding::consider(rule, "default affinity scope", statement, risk)
    };
    let shards = facts.workqueues.has_shards(version);
    let by_version = version.and_then(|it| WorkqueueSettings::of_version(it).default_scope);
    let Some(set) = facts.workqueues.default_scope.or(by_version).map(|it| it.scope) else {
        let is_divided = layouts.pods(Scope::Cache) > layouts.pods(Scope::Numa);
        let helps =
            layouts.nodes_are_large() && (is_divided || layouts.shards_help() && !layouts.is_mixed);
        return vec![match facts.workqueues.has_scopes(version) {
            Some(_) if helps => {
                let statement = format!(
                    "This kernel has no affinity scopes: its unbound workqueues have a pool for each NUMA node ({}). \
                     Linux 7.1 would have {}.",
                    told(Scope::Numa),
                    told(Scope::CacheShard)
                );
                consider(statement, "another kernel is another kernel: nothing can be set in this one")
            }
            Some(_) => leave(
                "This kernel has no affinity scopes, and on this machine they would make little difference.".to_owned(),
            ),
            None => leave(format!(
                "The kernel is not known. With Linux 7.1 and its default this machine has {}; with Linux 6.6 to 7.0, {}.",
                told(Scope::CacheShard),
                told(Scope::Cache)
            )),
        }];
    };
    let finding = match set {
        Scope::CacheShard if layouts.is_mixed => leave(format!(
            "It is cache_shard, which parts fast CPUs from slow ones here ({}); with so few cores neither that nor the lock of one \
             pool takes the time.",
            told(set)
        )),
        Scope::CacheShard if layouts.shards_help() => {
            leave(format!("It is cache_shard, with {}: what this machine needs.", told(set)))
        }
        Scope::Cache | Scope::CacheShard if !layouts.shards_help() => leave(format!(
            "No last-level cache has more than {}, which is one shard: cache_shard and cache are the same pools here ({}).",
            if layouts.cores == 1 {
                "one core".to_owned()
            } else {
                format!("{} cores", layouts.cores)
            },
            told(Scope::Cache)
        )),
        Scope::Cache if layouts.is_mixed => leave(format!(
            "Shards follow the CPUs' numbers, and would part fast CPUs from slow ones here ({}); with so few cores the \
             lock is not what takes the time.",
            told(Scope::CacheShard)
        )),
        Scope::Cache if shards != Some(true) => {
            let finding = consider(
                format!(
                    "Up to {} cores share one pool and its lock ({}), and this kernel cannot divide them. Linux 7.1 \
                     would have {}. Where --seconds shows a queue that many CPUs feed, the scope smt for that queue \
                     alone is a way until then.",
                    layouts.cores,
                    told(set),
                    told(Scope::CacheShard)
                ),
                "with smt a burst from one CPU begins on one core's workers",
            );
            Finding { expected: Some(SHARDS_OVER_CACHE), ..finding }
        }
        Scope::Cache => {
            let finding = to_scope(rule, facts, set, Scope::CacheShard, &layouts);
            Finding { expected: Some(SHARDS_OVER_CACHE), ..finding }
        }
        Scope::Numa | Scope::System => {
            let is_sharded = shards == Some(true) && layouts.shards_help() && !layouts.is_mixed;
            let better = if is_sharded { Scope::CacheShard } else { Scope::Cache };
            if layouts.pods(better) > layouts.pods(set) {
                to_scope(rule, facts, set, better, &layouts)
            } else {
                leave(format!(
                    "On this machine {set} and {better} are the same pools ({}).",
                    told(set)
                ))
            }
        }
        Scope::Cpu | Scope::Smt => {
            let coarser = if shards == Some(true) { Scope::CacheShard } else { Scope::Cache };
            if layouts.pods(coarser) == layouts.pods(set) {
                leave(format!(
                    "On this machine {set} and {coarser} are the same pools ({}).",
                    told(set)
                ))
            } else {
                consider(
                    format!(
                        "It is {set} ({}): fastest where every CPU queues as much as any other, and slow where one \
                         queues bursts, which begin on one core. The kernel's own default would be {coarser} ({}).",
                        told(set),
                        told(coarser)
                    ),
                    "somebody may have set it for a load that is even",
                )
                .with(scope_setting(set, coarser))
            }
        }
        // `Scope::CacheShard` with nothing to divide is above.
        Scope::CacheShard => leave(format!("It is cache_shard, with {}.", told(set))),
    };
    let mut finding = finding;
    if facts.workqueues.default_scope.is_none() {
        // What is not known to be set is not to be set to something else.
        finding.settings.clear();
        let assumed = format!("It was not recorded; this kernel starts with {set}. ");
        finding.statement.insert_str(0, &assumed);
    }
    vec![finding]
}

fn scope_setting(now: Scope, to: Scope) -> Setting {
    Setting::new(DEFAULT_SCOPE_FILE, Some(now.to_string()), to.to_string())
        .at_boot(format!("{DEFAULT_SCOPE_BOOT}={to}"))
}

fn to_scope(
    rule: &'static Rule,
    facts: &Facts,
    now: Scope,
    to: Scope,
    layouts: &Layouts,
) -> Finding {
    let cores = facts.topology.cores();
    let wanted = match to {
        Scope::CacheShard => format!(" (shards of about {} cores)", layouts.shard_cores),
        _ => String::new(),
    };
    let virtual_risk = if facts.kernel.is_virtual {
        "; the caches of a virtual machine are those that its host tells of"
    } else {
        ""
    };
    Finding::change(
        rule,
        "default affinity scope",
        format!(
            "It is {now}: {}{}. {to}{wanted} makes that {}. Queues that follow the default change at once.",
            layouts.told(now, cores),
            if layouts.pods(now) == 1 { ", with one lock" } else { ", each with one lock" },
            layouts.told(to, cores),
        ),
        format!(
            "items of one queue begin nearer to the CPU that queued them: a burst from one CPU finds fewer workers at \
             first, and idle CPUs elsewhere take part only as the scheduler moves workers{virtual_risk}"
        ),
        scope_setting(now, to),
    )
}

/// A queue's own scope is worth a word where it makes fewer pools than the default.
fn queue_scope(rule: &'static Rule, facts: &Facts, _: Option<&Measured>) -> Vec<Finding> {
    let layouts = Layouts::of(facts);
    let Some(default) = facts.workqueues.default_scope.map(|it| it.scope) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let mut followers = 0_usize;
    for queue in &facts.workqueues.queues {
        let Some(its) = queue.scope else { continue };
        if its.is_default || layouts.pods(its.scope) >= layouts.pods(default) {
            followers += 1;
            continue;
        }
        let setting = Setting::new(
            format!("/sys/devices/virtual/workqueue/{}/affinity_scope", queue.name),
            Some(its.scope.to_string()),
            "default",
        );
        let finding = Finding::consider(
            rule,
            format!("workqueue {}", queue.name),
            format!(
                "It was given the scope {}, with {} pools, where the default {default} has {}.",
                its.scope,
                layouts.pods(its.scope),
                layouts.pods(default)
            ),
            "somebody may have wanted all of its items to share workers",
        );
        findings.push(finding.with(setting));
    }
    if findings.is_empty() && followers > 0 {
        let statement = match followers {
            1 => {
                "The one queue that shows its scope is as finely divided as the default.".to_owned()
            }
            _ => format!(
                "The {followers} queues that show their scope are as finely divided as the default."
            ),
        };
        findings.push(Finding::leave(rule, "scopes of single queues", statement));
    }
    findings
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
