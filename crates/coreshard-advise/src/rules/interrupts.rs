//! Rules for the CPUs that handle device interrupts.

use coreshard_topology::{CpuSet, NodeId};

use super::finding::{Case, Finding, Rule, Setting};
use crate::facts::InterruptFacts;

const IRQ_AFFINITY: &str = "Documentation/core-api/irq/irq-affinity.rst";
/// Interrupts since boot below which an interrupt is ignored.
const BUSY: u64 = 10_000;
/// Findings of one kind that are listed individually.
const MOST_TOLD: usize = 8;

fn is_busy(interrupt: &&InterruptFacts) -> bool {
    interrupt.count.is_some_and(|count| count >= BUSY)
}

fn named(interrupt: &InterruptFacts) -> String {
    match &interrupt.name {
        Some(name) => format!("interrupt {} ({name})", interrupt.number),
        None => format!("interrupt {}", interrupt.number),
    }
}

/// Moves an interrupt to other CPUs.
fn affinity(interrupt: &InterruptFacts, to: &CpuSet) -> Setting {
    let now = interrupt.allowed.as_ref().map(|it| it.0.to_string());
    Setting::new(format!("/proc/irq/{}/smp_affinity_list", interrupt.number), now, to.to_string())
}

/// Keeps the first few findings and counts the rest.
fn bounded(case: &Case<'_>, subject: &str, mut findings: Vec<Finding>) -> Vec<Finding> {
    let more = findings.len().saturating_sub(MOST_TOLD);
    if more > 0 {
        findings.truncate(MOST_TOLD);
        let statement = format!("{more} more, as above.");
        findings.push(case.consider(subject, statement, "as above"));
    }
    findings
}

/// Interrupts on isolated CPUs.
pub(super) const IRQ_ISOLATED: Rule = Rule {
    id: "irq-isolated",
    reason: "interrupts of a busy device disturb the task on an isolated CPU",
    source: IRQ_AFFINITY,
    judge: isolated,
};

fn isolated(case: &Case<'_>) -> Vec<Finding> {
    let facts = case.facts;
    let apart = &facts.isolation.cpus() & facts.topology.online();
    let rest = facts.topology.online() - &apart;
    if apart.is_empty() || rest.is_empty() || facts.interrupts.is_empty() {
        return Vec::new();
    }
    let busy = facts.interrupts.iter().filter(is_busy);
    let findings = busy.filter_map(|it| {
        let cpus = &it.effective.as_ref()?.0;
        if cpus.is_empty() || !cpus.is_subset(&apart) {
            return None;
        }
        let statement = format!("It goes to CPU {cpus}, which is isolated.");
        let risk = "the kernel rejects this for interrupts that it manages itself, such as interrupts of NVMe queues";
        Some(case.change(named(it), statement, risk, affinity(it, &rest)))
    });
    let findings = case.or_content(
        findings.collect(),
        "interrupts",
        || "No busy interrupt goes to an isolated CPU.",
    );
    bounded(case, "interrupts of isolated CPUs", findings)
}

/// Interrupts handled on another node than their device's.
pub(super) const IRQ_NODE: Rule = Rule {
    id: "irq-node",
    reason: "a handler on another node than its device accesses the device's memory and its recent writes across the interconnect",
    source: "Documentation/core-api/irq/irq-affinity.rst; Documentation/networking/scaling.rst, \"RSS IRQ Configuration\"",
    judge: node,
};

fn node(case: &Case<'_>) -> Vec<Finding> {
    let facts = case.facts;
    if facts.topology.nodes() < 2 {
        return Vec::new();
    }
    let mut looked_at = 0_usize;
    let mut findings = Vec::new();
    for it in facts.interrupts.iter().filter(is_busy) {
        let (Some(node), Some(effective)) = (it.node, &it.effective) else { continue };
        let local = facts.topology.cpus_of_node(NodeId(node));
        if local.is_empty() || effective.0.is_empty() {
            continue;
        }
        looked_at += 1;
        // A per-CPU queue's interrupt is bound to that CPU, which its allowed CPUs show.
        let is_bound = it.allowed.as_ref().is_some_and(|allowed| allowed.0.is_disjoint(&local));
        if is_bound || !effective.0.is_disjoint(&local) {
            continue;
        }
        let statement = format!(
            "Its device is on node {node}, but CPU {} on another node handles it.",
            effective.0
        );
        let risk = "irqbalance may move it back; the kernel rejects this for interrupts that it manages itself";
        findings.push(case.change(named(it), statement, risk, affinity(it, &local)));
    }
    if findings.is_empty() && looked_at > 0 {
        let statement =
            "Each busy interrupt is handled on its device's node, or is bound to its CPU.";
        return case.content("interrupts", statement);
    }
    bounded(case, "interrupts of other nodes", findings)
}

/// A device with several queues whose interrupts all go to one CPU.
pub(super) const IRQ_SPREAD: Rule = Rule {
    id: "irq-spread",
    reason: "several queues only help if their interrupts go to several CPUs; otherwise one CPU is the limit",
    source: "Documentation/networking/scaling.rst, \"RSS: Receive Side Scaling\"",
    judge: spread,
};

fn spread(case: &Case<'_>) -> Vec<Finding> {
    let facts = case.facts;
    if facts.topology.cpus().len() < 2 || facts.interrupts.is_empty() {
        return Vec::new();
    }
    let block = facts.block.iter().map(|it| (&it.name, &it.interrupts));
    let network = facts.network.iter().map(|it| (&it.name, &it.interrupts));
    let mut looked_at = 0_usize;
    let mut findings = Vec::new();
    for (name, numbers) in block.chain(network) {
        let busy: Vec<_> =
            numbers.iter().filter_map(|number| facts.interrupt(*number)).filter(is_busy).collect();
        let [first, _, ..] = busy[..] else { continue };
        let Some(cpus) = first.effective.as_ref().filter(|it| it.0.len() == 1) else { continue };
        looked_at += 1;
        if busy.iter().any(|it| it.effective.as_ref() != Some(cpus)) {
            continue;
        }
        let statement = format!("Its {} busy interrupts all go to CPU {}.", busy.len(), cpus.0);
        let risk = "irqbalance or the device's driver may change it back";
        findings.push(case.consider(format!("device {name}"), statement, risk));
    }
    if findings.is_empty() && looked_at > 0 {
        let statement = "Each device with several busy interrupts has them on several CPUs.";
        return case.content("interrupts", statement);
    }
    bounded(case, "devices with interrupts on one CPU", findings)
}
