//! Rules for scheduler limits.

use super::finding::{Case, Finding, Rule, Setting};
use crate::facts::KernelVersion;

/// First version with a fair server, which reserves time for other tasks on CPUs with real-time tasks.
const FAIR_SERVER: KernelVersion = KernelVersion::new(6, 12);

/// Whether real-time tasks can starve all others on a CPU.
pub(super) const RT_LIMIT: Rule = Rule {
    id: "rt-limit",
    reason: "workers are ordinary tasks: a real-time task that never sleeps starves those on its CPU, and waiting for per-CPU work there never ends",
    source: "Documentation/scheduler/sched-rt-group.rst; since Linux 6.12 the fair deadline server does the same",
    judge: rt_limit,
};

fn rt_limit(case: &Case<'_>) -> Vec<Finding> {
    let facts = case.facts;
    let Some(runtime) = facts.realtime.runtime_us else { return Vec::new() };
    let subject = "limit of real-time tasks";
    let period = facts.realtime.period_us.unwrap_or(1_000_000);
    let is_limited = runtime >= 0 && runtime < period;
    let has_fair_server = facts.kernel.version.is_some_and(|version| version >= FAIR_SERVER);
    let fair = "this kernel's fair server reserves time for other tasks";
    let statement = match (is_limited, has_fair_server) {
        // The old limit may have no effect, and CPUs without other tasks are not throttled.
        (true, true) => Some(format!("It is {runtime} of every {period} µs, and {fair}.")),
        (true, false) => Some(format!("Real-time tasks may run {runtime} of every {period} µs.")),
        (false, true) => Some(format!("The old limit is off, but {fair}.")),
        (false, false) => None,
    };
    if let Some(statement) = statement {
        return case.content(subject, statement);
    }
    let statement = "Real-time tasks have no limit: one that never sleeps starves the kernel workers of its CPU.";
    let risk = "a real-time task that needs a whole CPU loses 5 % of it, in one piece";
    let setting =
        Setting::new("/proc/sys/kernel/sched_rt_runtime_us", Some(runtime.to_string()), "950000");
    vec![case.consider(subject, statement, risk).with(setting)]
}
