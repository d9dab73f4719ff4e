//! Rules on what was measured.

use coreshard_topology::Scope;

use super::finding::{Case, Finding, Rule, Setting};
use crate::measure::MeasuredQueue;

const WQ_MONITOR: &str =
    "tools/workqueue/wq_monitor.py in the kernel's sources; Documentation/core-api/workqueue.rst";

fn named(queue: &MeasuredQueue) -> String {
    format!("workqueue {}", queue.name)
}

/// Functions that run long.
pub(super) const HOGS: Rule = Rule {
    id: "measured-hogs",
    reason: "an item of a per-CPU queue that keeps its CPU holds up those behind it there, until the kernel takes it out of \
             the count",
    source: WQ_MONITOR,
    judge: hogs,
};

fn hogs(case: &Case<'_>) -> Vec<Finding> {
    let Some(run) = case.measured else { return Vec::new() };
    // An item of an unbound queue holds up nothing but a flush: other workers take the next ones.
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
        let risk = "there is nothing to set: whether the function may sleep there, or needs a queue of its own, is its \
                    driver's business";
        case.consider(named(queue), statement, risk)
    });
    case.or_content(findings.collect(), "long items", || {
        match unbound.iter().map(|queue| queue.hogs).sum::<u64>() {
            0 => format!("No item took longer than {most} ms."),
            count => format!(
                "Of unbound queues {count} took longer than {most} ms, which holds nobody up; of per-CPU queues, none."
            ),
        }
    })
}

/// Items that rescuers ran.
pub(super) const RESCUES: Rule = Rule {
    id: "measured-rescues",
    reason: "a rescuer works where no worker could be started in time: memory is short, or the machine is \
             overloaded",
    source: WQ_MONITOR,
    judge: rescues,
};

fn rescues(case: &Case<'_>) -> Vec<Finding> {
    let Some(run) = case.measured else { return Vec::new() };
    let rescued = run.queues.iter().filter(|queue| queue.rescues > 0).map(|queue| {
        let statement = format!("{} of its items were run by its rescuer.", queue.rescues);
        let risk = "there is nothing to set: look for what takes the memory";
        case.consider(named(queue), statement, risk)
    });
    case.or_content(rescued.collect(), "rescuers", || "No rescuer had to work.")
}

/// Items that run behind another cache than they were queued behind.
pub(super) const CROSSINGS: Rule = Rule {
    id: "measured-crossings",
    reason: "an item that runs behind another cache fetches its data from there, line by line",
    source: "Documentation/core-api/workqueue.rst, \"Affinity Scopes\"",
    judge: crossings,
};

/// Items a second below which crossings do not matter.
const FAST: f64 = 1_000.0;
/// Part of the items.
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
            "{rate:.0} items a second, of which {:.0} % ran behind another cache than they were queued behind.",
            part * 100.0
        );
        let risk = "a burst from one CPU finds fewer workers at first";
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
        || "No busy queue runs many items behind another cache than they were queued behind.",
    )
}
