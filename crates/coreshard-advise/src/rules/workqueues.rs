//! Rules for workqueue settings other than scopes.

use coreshard_topology::Scope;

use super::finding::{Case, Finding, Rule, Setting};
use crate::facts::{Facts, KernelVersion, WorkqueueFacts};

const PARAMETERS: &str = "/sys/module/workqueue/parameters";
const DEVICES: &str = "/sys/devices/virtual/workqueue";
const WORKQUEUE_RST: &str = "Documentation/core-api/workqueue.rst";
const PARAMETERS_TXT: &str = "Documentation/admin-guide/kernel-parameters.txt";

fn named(queue: &WorkqueueFacts) -> String {
    format!("workqueue {}", queue.name)
}

/// A parameter of all workqueues.
fn parameter(name: &str, now: &str, to: &str) -> Setting {
    Setting::new(format!("{PARAMETERS}/{name}"), Some(now.to_owned()), to)
}

/// Workers that must stay in their pod.
pub(super) const STRICT: Rule = Rule {
    id: "affinity-strict",
    reason: "with affinity_strict, a queue's workers run only in their pod: CPUs elsewhere stay idle if a small pod has more items than CPUs",
    source: WORKQUEUE_RST,
    judge: strict,
};

fn strict(case: &Case<'_>) -> Vec<Finding> {
    let queues = case.facts.workqueues.queues.iter();
    let known: Vec<_> = queues.filter_map(|it| Some((it, it.strict?))).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let strict = || known.iter().filter(|(_, is_strict)| *is_strict).map(|(queue, _)| *queue);
    let findings = strict().filter_map(|queue| {
        let pod = match queue.scope?.scope {
            Scope::Cpu => "single CPU",
            Scope::Smt => "single core",
            _ => return None,
        };
        let path = format!("{DEVICES}/{}/affinity_strict", queue.name);
        let statement = format!(
            "Its workers must stay in their pod, which is a {pod}: items queued by one CPU run only there."
        );
        let risk = "this may be intended; wq_unbound_cpumask is the setting that keeps work off CPUs";
        let setting = Setting::new(path, Some("1".to_owned()), "0");
        Some(case.consider(named(queue), statement, risk).with(setting))
    });
    case.or_content(findings.collect(), "strict queues", || match strict().count() {
        0 => {
            "No queue that exports the setting is strict: the scheduler may move workers to idle CPUs."
                .to_owned()
        }
        count => format!("{count} queues are strict, in pods of several cores."),
    })
}

/// Limits that leave CPUs of a node unused.
pub(super) const MAX_ACTIVE: Rule = Rule {
    id: "max-active",
    reason: "items beyond the limit wait while CPUs are idle. Before Linux 6.6 the limit applies per node, from 6.6 to 6.8 per CPU, and since 6.9 per queue, split among the nodes by their CPUs, at least 8 per node",
    source: "Documentation/core-api/workqueue.rst; the change \"workqueue: Implement system-wide nr_active enforcement for \
             unbound workqueues\" of Linux 6.9",
    judge: max_active,
};

/// First version that counts active items of an unbound queue per CPU.
const COUNTED_BY_CPU: KernelVersion = KernelVersion::new(6, 6);
/// First version that counts them per node again, and splits the limit among nodes.
const LIMIT_IS_SPLIT: KernelVersion = KernelVersion::new(6, 9);
/// Minimum share of a node, unless the limit is smaller.
const LEAST_OF_NODE: u64 = 8;

/// Returns how many items of an unbound queue may be active on the whole machine.
fn most_active(facts: &Facts, limit: u64) -> u64 {
    let topology = &facts.topology;
    let cpus = topology.cpus().len() as u64;
    let nodes = topology.node_ids().iter().map(|node| topology.cpus_of_node(*node).len() as u64);
    match facts.kernel.version {
        Some(version) if version < COUNTED_BY_CPU => {
            limit.saturating_mul(nodes.len().max(1) as u64)
        }
        Some(version) if version < LIMIT_IS_SPLIT => limit.saturating_mul(cpus),
        _ if nodes.len() < 2 => limit,
        _ => {
            let part = |its: u64| limit.saturating_mul(its).div_ceil(cpus.max(1));
            let parts = nodes.map(|its| part(its).clamp(limit.min(LEAST_OF_NODE), limit));
            parts.fold(0, u64::saturating_add)
        }
    }
}

fn max_active(case: &Case<'_>) -> Vec<Finding> {
    let cpus = case.facts.topology.cpus().len() as u64;
    let unbound = case.facts.workqueues.queues.iter().filter(|queue| queue.per_cpu != Some(true));
    let known: Vec<_> = unbound.filter_map(|queue| Some((queue, queue.max_active?))).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let findings = known.iter().filter_map(|(queue, limit)| {
        let most = most_active(case.facts, *limit);
        // With a limit of one, items are ordered, and users may rely on that.
        if *limit <= 1 || most >= cpus {
            return None;
        }
        let statement = format!(
            "At most {most} of its items are active at once on {cpus} CPUs: its limit is {limit}."
        );
        let risk = "the limit may protect a device from overload";
        Some(case.consider(named(queue), statement, risk))
    });
    case.or_content(findings.collect(), "limits of individual queues", || {
        "Every unbound queue that exports its limit allows at least as many active items as there are CPUs, or exactly one to order them."
    })
}

/// The threshold for CPU-intensive items.
pub(super) const CPU_INTENSIVE: Rule = Rule {
    id: "cpu-intensive-threshold",
    reason: "items of per-CPU queues that run longer without sleeping are excluded from concurrency management, so that later items can start",
    source: PARAMETERS_TXT,
    judge: cpu_intensive,
};

/// Above a second, stalls are noticeable everywhere.
const LONG_THRESHOLD_US: u64 = 1_000_000;

fn cpu_intensive(case: &Case<'_>) -> Vec<Finding> {
    let Some(now) = case.facts.workqueues.cpu_intensive_thresh_us else { return Vec::new() };
    let subject = "cpu_intensive_thresh_us";
    let statement = match now {
        0 => "It is 0: CPU-intensive items are never detected, and later items wait until they finish.".to_owned(),
        LONG_THRESHOLD_US.. => format!(
            "It is {} ms: items behind a CPU-intensive one wait as long.",
            now / 1_000
        ),
        _ => return case.content(subject, format!("It is {now} µs; the kernel's default is 10000, and up to a second on slow machines.")),
    };
    let setting = parameter(subject, &now.to_string(), "10000")
        .at_boot("workqueue.cpu_intensive_thresh_us=10000");
    let risk =
        "more workers may run at once on a CPU, and the kernel log may name long-running functions";
    vec![case.change(subject, statement, risk, setting)]
}

/// Per-CPU queues made unbound.
pub(super) const POWER_EFFICIENT: Rule = Rule {
    id: "power-efficient",
    reason: "marked queues become unbound, so that idle CPUs are not woken for them: this saves power, but items may run away from the cache of the queueing CPU",
    source: PARAMETERS_TXT,
    judge: power_efficient,
};

/// Machines with more cores are servers, which rarely have idle CPUs.
const SERVER_CORES: usize = 24;

fn power_efficient(case: &Case<'_>) -> Vec<Finding> {
    let subject = "power_efficient";
    let cores = case.facts.topology.cores();
    match case.facts.workqueues.power_efficient {
        None => return Vec::new(),
        Some(false) => return case.content(subject, "It is off, which is the kernel's default."),
        Some(true) if cores < SERVER_CORES => {
            return case.content(subject, "It is on, on a machine with few cores.");
        }
        Some(true) => {}
    }
    let statement = format!(
        "It is on, on a machine with {cores} cores: items of marked queues may run on other CPUs than the queueing one."
    );
    let risk =
        "idle CPUs are woken more often, which costs a few watts; it can be set only at boot";
    let setting = parameter(subject, "Y", "N").at_boot_alone("workqueue.power_efficient=0");
    vec![case.consider(subject, statement, risk).with(setting)]
}

/// A debugging option left on.
pub(super) const ROUND_ROBIN: Rule = Rule {
    id: "force-round-robin",
    reason: "it places unbound items on all CPUs round-robin, to find code that relies on the local CPU: every item then starts with a cold cache",
    source: PARAMETERS_TXT,
    judge: round_robin,
};

fn round_robin(case: &Case<'_>) -> Vec<Finding> {
    let subject = "debug_force_rr_cpu";
    match case.facts.workqueues.debug_force_rr_cpu {
        None => Vec::new(),
        Some(false) => case.content(subject, "It is off."),
        Some(true) => {
            let setting = parameter(subject, "Y", "N").at_boot("workqueue.debug_force_rr_cpu=0");
            let statement = "It is on: this debugging option moves work away from the CPU whose cache holds its data.";
            let risk = "none, unless it is used for debugging";
            vec![case.change(subject, statement, risk, setting)]
        }
    }
}

/// Whether stalls are reported.
pub(super) const WATCHDOG: Rule = Rule {
    id: "stall-watchdog",
    reason: "the watchdog reports pools without progress in the kernel log, with their running items; without it the cause of a hang is unknown",
    source: PARAMETERS_TXT,
    judge: watchdog,
};

fn watchdog(case: &Case<'_>) -> Vec<Finding> {
    let subject = "watchdog_thresh";
    match case.facts.workqueues.watchdog_thresh_s {
        None => Vec::new(),
        Some(0) => {
            let setting = parameter(subject, "0", "30").at_boot("workqueue.watchdog_thresh=30");
            let statement = "It is 0: stalled pools are never reported.";
            vec![case.change(subject, statement, "messages in the kernel log", setting)]
        }
        Some(seconds) => {
            let statement = format!("Pools without progress are reported after {seconds} s.");
            case.content(subject, statement)
        }
    }
}
