//! Rules for measurements.

use coreshard_topology::Scope;

use super::finding::{Case, Finding, Rule, Setting};
use crate::measure::MeasuredQueue;

const WQ_MONITOR: &str =
    "tools/workqueue/wq_monitor.py in the kernel's sources; Documentation/core-api/workqueue.rst";

fn named(queue: &MeasuredQueue) -> String {
    format!("workqueue {}", queue.name)
}

/// Long-running functions.
pub(super) const HOGS: Rule = Rule {
    id: "measured-hogs",
    reason: "a CPU-intensive item of a per-CPU queue delays later items there until the kernel excludes it from concurrency management",
    source: WQ_MONITOR,
    judge: hogs,
};

fn hogs(case: &Case<'_>) -> Vec<Finding> {
    let Some(run) = case.measured else { return Vec::new() };
    // An item of an unbound queue delays only flushes: other workers take the next items.
    let (unbound, bound): (Vec<_>, Vec<_>) = run
        .queues
        .iter()
        .filter(|queue| queue.hogs > 0)
        .partition(|queue| queue.per_cpu == Some(false));
    let most = run.hog_us / 1_000;
    let findings = bound.into_iter().map(|queue| {
        let function = queue.slowest.as_deref().unwrap_or("a function");
        let statement = format!(
            "{} of its items took longer than {most} ms from start to end, sleep included; the slowest was {function}, {} ms.",
            queue.hogs,
            queue.run.max_us / 1_000
        );
        let risk = "no setting helps: the driver decides whether the function may sleep there or needs its own queue";
        case.consider(named(queue), statement, risk)
    });
    case.or_content(findings.collect(), "long items", || {
        match unbound.iter().map(|queue| queue.hogs).sum::<u64>() {
            0 => format!("No item took longer than {most} ms."),
            count => format!(
                "{count} items of unbound queues took longer than {most} ms, which delays no others; none of per-CPU queues did."
            ),
        }
    })
}

/// Items run by rescuers.
pub(super) const RESCUES: Rule = Rule {
    id: "measured-rescues",
    reason: "a rescuer runs items if no worker could be started in time: memory is short, or the machine is overloaded",
    source: WQ_MONITOR,
    judge: rescues,
};

fn rescues(case: &Case<'_>) -> Vec<Finding> {
    let Some(run) = case.measured else { return Vec::new() };
    let rescued = run.queues.iter().filter(|queue| queue.rescues > 0).map(|queue| {
        let statement = format!("Its rescuer ran {} of its items.", queue.rescues);
        let risk = "no setting helps: find out what uses the memory";
        case.consider(named(queue), statement, risk)
    });
    case.or_content(rescued.collect(), "rescuers", || "No rescuer ran an item.")
}

/// Items that start behind another cache than the queueing CPU's.
pub(super) const CROSSINGS: Rule = Rule {
    id: "measured-crossings",
    reason: "an item that runs behind another cache has to fetch its data line by line",
    source: "Documentation/core-api/workqueue.rst, \"Affinity Scopes\"",
    judge: crossings,
};

/// Items per second below which crossings are ignored.
const FAST: f64 = 1_000.0;
/// Smallest share of items that cross caches for a report of a queue.
const MOST: f64 = 0.3;

fn crossings(case: &Case<'_>) -> Vec<Finding> {
    let is_divided = case.facts.topology.llcs() > 1;
    let Some(run) = case.measured.filter(|_| is_divided) else { return Vec::new() };
    let mut findings = Vec::new();
    for queue in &run.queues {
        let rate = queue.started as f64 / run.seconds;
        let part = queue.crossed_llc as f64 / (queue.matched.max(1)) as f64;
        if rate < FAST || part < MOST {
            continue;
        }
        let statement = format!(
            "{:.0} % of {rate:.0} items per second ran behind another cache than the queueing CPU's.",
            part * 100.0
        );
        let risk = "a burst from one CPU has fewer workers at first";
        let mut finding = case.consider(named(queue), statement, risk);
        let known = case.facts.workqueues.queues.iter().find(|it| it.name == queue.name);
        let coarse = known.and_then(|it| it.scope).filter(|it| it.scope > Scope::Cache);
        finding.settings.extend(coarse.map(|scope| {
            let path = format!("/sys/devices/virtual/workqueue/{}/affinity_scope", queue.name);
            Setting::new(path, Some(scope.scope.to_string()), Scope::Cache.to_string())
        }));
        findings.push(finding);
    }
    case.or_content(
        findings,
        "hand-offs between caches",
        || "No busy queue runs many items behind another cache than the queueing CPU's.",
    )
}
