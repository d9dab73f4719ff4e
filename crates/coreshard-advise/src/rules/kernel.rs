//! Rules on the limits of the scheduler.

use super::finding::{Case, Finding, Rule, Setting};
use crate::facts::KernelVersion;

/// Since then a fair server gives other tasks their share beneath real-time ones.
const FAIR_SERVER: KernelVersion = KernelVersion::new(6, 12);

/// Whether real-time tasks may keep all others off a CPU.
pub(super) const RT_LIMIT: Rule = Rule {
    id: "rt-limit",
    reason: "workers are ordinary tasks: a real-time task that never sleeps keeps those of its CPU from running, and \
             whoever waits for per-CPU work there waits for ever",
    source: "Documentation/scheduler/sched-rt-group.rst; since Linux 6.12 the fair deadline server does the same job",
    judge: rt_limit,
};

fn rt_limit(case: &Case<'_>) -> Vec<Finding> {
    let facts = case.facts;
    let Some(runtime) = facts.realtime.runtime_us else { return Vec::new() };
    let subject = "limit of real-time tasks";
    let period = facts.realtime.period_us.unwrap_or(1_000_000);
    let is_limited = runtime >= 0 && runtime < period;
    let has_fair_server = facts.kernel.version.is_some_and(|version| version >= FAIR_SERVER);
    let fair = "this kernel's fair server gives other tasks their share";
    let statement = match (is_limited, has_fair_server) {
        // The older limit may bind no more, and a CPU without other tasks is not taken away.
        (true, true) => Some(format!("It is {runtime} of every {period} µs, and {fair}.")),
        (true, false) => Some(format!(
            "Real-time tasks may run {runtime} of every {period} µs; others have the rest."
        )),
        (false, true) => Some(format!("There is no limit of old, and {fair} all the same.")),
        (false, false) => None,
    };
    if let Some(statement) = statement {
        return case.content(subject, statement);
    }
    let statement = "Real-time tasks have no limit: one that never sleeps keeps its CPU's kernel workers from running.";
    let risk = "a real-time task that needs a whole CPU loses 5 % of it, all at once";
    let setting =
        Setting::new("/proc/sys/kernel/sched_rt_runtime_us", Some(runtime.to_string()), "950000");
    vec![case.consider(subject, statement, risk).with(setting)]
}
