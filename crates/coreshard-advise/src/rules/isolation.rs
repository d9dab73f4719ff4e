//! Rules for isolated CPUs and the CPUs of unbound work.

use coreshard_topology::CpuSet;

use super::finding::{Case, Finding, Rule, Setting};
use crate::facts::Facts;

const UNBOUND_CPUMASK: &str = "/sys/devices/virtual/workqueue/cpumask";
const UNBOUND_BOOT: &str = "workqueue.unbound_cpus";
const SUBJECT: &str = "CPUs of unbound work";

/// Isolated CPUs that run unbound work.
pub(super) const UNBOUND_MASK: Rule = Rule {
    id: "unbound-mask",
    reason: "an isolated CPU in the mask of unbound workqueues is interrupted by their items",
    source: "Documentation/core-api/workqueue.rst; Documentation/admin-guide/kernel-per-CPU-kthreads.rst",
    judge: unbound_mask,
};

/// Returns the CPUs removed by cpuset partitions.
fn taken(facts: &Facts) -> CpuSet {
    facts.workqueues.cpumask_isolated.as_ref().map(|it| it.0.clone()).unwrap_or_default()
}

/// Formats a mask as the kernel reads it: 32-bit words, the highest first.
pub(super) fn mask_text(cpus: &CpuSet) -> String {
    let words = cpus.iter().map(|cpu| cpu.0 / 32).max().map_or(1, |highest| highest as usize + 1);
    let mut bits = vec![0_u32; words];
    cpus.iter().for_each(|cpu| bits[cpu.0 as usize / 32] |= 1 << (cpu.0 % 32));
    let words: Vec<String> = bits.iter().rev().map(|word| format!("{word:08x}")).collect();
    words.join(",")
}

fn mask_setting(now: &CpuSet, to: &CpuSet) -> Setting {
    Setting::new(UNBOUND_CPUMASK, Some(mask_text(now)), mask_text(to))
        .at_boot(format!("{UNBOUND_BOOT}={to}"))
}

fn unbound_mask(case: &Case<'_>) -> Vec<Finding> {
    let facts = case.facts;
    let Some(mask) = &facts.workqueues.cpumask else { return Vec::new() };
    let online = facts.topology.online();
    let isolated = &facts.isolation.cpus() & online;
    let both = &isolated & &mask.0;
    let rest = &(&mask.0 & online) - &isolated;
    if isolated.is_empty() {
        return case.content(SUBJECT, "No CPU is isolated.");
    }
    if both.is_empty() {
        let statement = format!("Unbound work does not run on the isolated CPUs ({isolated}).");
        return case.content(SUBJECT, statement);
    }
    if rest.is_empty() {
        let statement = format!(
            "All CPUs of unbound work ({}) are isolated, but it needs at least one CPU.",
            mask.0
        );
        let risk = "work has to run on the remaining CPUs";
        return vec![case.consider(SUBJECT, statement, risk)];
    }
    let statement =
        format!("Unbound work may run on the isolated CPUs {both}; restrict it to {rest}.");
    let risk = "all unbound work shares the remaining CPUs";
    vec![case.change(SUBJECT, statement, risk, mask_setting(&mask.0, &rest))]
}

/// A mask that leaves few CPUs without an apparent reason.
pub(super) const NARROW_MASK: Rule = Rule {
    id: "narrow-mask",
    reason: "unbound work of the whole machine (writeback, encryption, file systems, RPC) runs on the CPUs of this mask",
    source: "Documentation/core-api/workqueue.rst",
    judge: narrow_mask,
};

/// A mask is narrow if it has fewer than one in this many of the available CPUs.
const NARROW: usize = 8;

fn narrow_mask(case: &Case<'_>) -> Vec<Finding> {
    let facts = case.facts;
    let Some(mask) = &facts.workqueues.cpumask else { return Vec::new() };
    let isolated = facts.isolation.cpus();
    let taken = taken(facts);
    let free = &(facts.topology.online() - &isolated) - &taken;
    let used = &mask.0 & facts.topology.online();
    if used.len() * NARROW >= free.len() {
        let statement =
            format!("Unbound work may use {} of {} CPUs.", used.len(), facts.topology.cpus().len());
        return case.content(SUBJECT, statement);
    }
    let statement = format!(
        "Of {} CPUs that are not isolated, unbound work may use {} ({used}).",
        free.len(),
        used.len()
    );
    let risk = "the mask may be intended to keep the other CPUs free; ask before widening it";
    vec![case.consider(SUBJECT, statement, risk).with(mask_setting(&mask.0, &free))]
}

/// A mask that differs from the requested one.
pub(super) const REQUESTED_MASK: Rule = Rule {
    id: "requested-mask",
    reason: "the requested mask is reduced by the CPUs of cpuset partitions; if nothing remains, all possible CPUs are used",
    source: "Documentation/core-api/workqueue.rst; Documentation/admin-guide/cgroup-v2.rst, \"cpuset.cpus.partition\"",
    judge: requested_mask,
};

fn requested_mask(case: &Case<'_>) -> Vec<Finding> {
    let facts = case.facts;
    let (Some(requested), Some(mask)) =
        (&facts.workqueues.cpumask_requested, &facts.workqueues.cpumask)
    else {
        return Vec::new();
    };
    let taken = taken(facts);
    if &requested.0 - &taken == mask.0 {
        return case.content(SUBJECT, "The effective mask is the requested one.");
    }
    let statement =
        format!("Requested: {}; isolated: {}; effective: {}.", requested.0, taken, mask.0);
    let risk = "the administrator may expect the requested mask to be effective";
    vec![case.consider(SUBJECT, statement, risk)]
}
