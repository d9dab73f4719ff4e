//! The rules, each with its checks, findings and source.

mod block;
mod finding;
mod interrupts;
mod isolation;
mod kernel;
mod measured;
mod network;
mod scope;
mod workqueues;

pub use finding::{Expected, Finding, Rule, Setting, Simulated, Verdict};

use crate::facts::Facts;
use crate::measure::Measured;

/// All rules, in the order of their findings.
pub const RULES: [&Rule; 22] = [
    &scope::DEFAULT_SCOPE,
    &scope::QUEUE_SCOPE,
    &workqueues::STRICT,
    &workqueues::MAX_ACTIVE,
    &workqueues::CPU_INTENSIVE,
    &workqueues::POWER_EFFICIENT,
    &workqueues::ROUND_ROBIN,
    &workqueues::WATCHDOG,
    &isolation::UNBOUND_MASK,
    &isolation::NARROW_MASK,
    &isolation::REQUESTED_MASK,
    &interrupts::IRQ_ISOLATED,
    &interrupts::IRQ_NODE,
    &interrupts::IRQ_SPREAD,
    &network::RPS,
    &block::SCHEDULER,
    &block::RQ_AFFINITY,
    &block::HARDWARE_QUEUES,
    &kernel::RT_LIMIT,
    &measured::HOGS,
    &measured::RESCUES,
    &measured::CROSSINGS,
];

/// Applies all rules to the facts and, if available, the measurements. A rule that does not apply returns nothing. A
/// rule that passes returns one [`Verdict::Leave`].
#[must_use]
pub fn judge(facts: &Facts, measured: Option<&Measured>) -> Vec<Finding> {
    let findings =
        RULES.into_iter().flat_map(|rule| (rule.judge)(&finding::Case { rule, facts, measured }));
    findings.collect()
}

#[cfg(test)]
mod tests;
