//! Rules for the receive queues of network interfaces and software steering.

use coreshard_topology::CpuSet;

use super::finding::{Case, Finding, Rule, Setting};
use super::isolation::mask_text;
use crate::facts::{Facts, NetworkFacts};

/// Packets steered in software.
pub(super) const RPS: Rule = Rule {
    id: "receive-steering",
    reason: "receive packet steering (RPS) spreads the packets of one hardware queue over the CPUs that share a cache; \
             if each CPU has a queue of its own, it costs inter-processor interrupts without a gain",
    source: "Documentation/networking/scaling.rst, \"RPS: Receive Packet Steering\"",
    judge: rps,
};

/// With fewer CPUs, steering does not help: one keeps up with a queue, or none has time to spare.
const CPUS_WORTH_STEERING: usize = 4;
/// Interrupts since boot below which an interface is ignored.
const BUSY: u64 = 100_000;

fn rps(case: &Case<'_>) -> Vec<Finding> {
    let cpus = case.facts.topology.cpus().len();
    let known = || case.facts.network.iter().filter(|it| it.rps.iter().flatten().next().is_some());
    if known().next().is_none() {
        return Vec::new();
    }
    let findings = known().filter_map(|interface| {
        let queues = interface.rps.len();
        let steered: Vec<_> = (0..)
            .zip(&interface.rps)
            .filter_map(|(queue, mask)| Some((queue, &mask.as_ref()?.0)))
            .filter(|(_, mask)| !mask.is_empty())
            .collect();
        let subject = format!("interface {}", interface.name);
        if queues >= cpus && cpus > 1 && !steered.is_empty() {
            let statement = format!(
                "It has {queues} receive queues for {cpus} CPUs, and {} of them are also steered in software.",
                steered.len()
            );
            let mut finding = case.consider(subject, statement, "flows may move to other CPUs");
            finding.settings.extend(steered.iter().map(|(queue, mask)| {
                Setting::new(file(interface, *queue), Some(mask_text(mask)), "0")
            }));
            return Some(finding);
        }
        let is_narrow = queues == 1 && steered.is_empty() && cpus >= CPUS_WORTH_STEERING;
        (is_narrow && is_busy(case.facts, interface)).then(|| {
            let near = near(case.facts, interface);
            let statement = format!(
                "One receive queue serves {cpus} CPUs, so one CPU receives all packets. Steering can distribute them over {near}."
            );
            let risk = "an inter-processor interrupt per batch of packets: worthwhile only if soft interrupts saturate one CPU";
            let setting = Setting::new(file(interface, 0), Some("0".to_owned()), mask_text(&near));
            case.consider(subject, statement, risk).with(setting)
        })
    });
    case.or_content(findings.collect(), "receive steering", || {
        format!(
            "No interface with enough queues is steered in software. Interfaces with one queue serve fewer than {CPUS_WORTH_STEERING} CPUs or received few packets."
        )
    })
}

fn file(interface: &NetworkFacts, queue: usize) -> String {
    format!("/sys/class/net/{}/queues/rx-{queue}/rps_cpus", interface.name)
}

fn is_busy(facts: &Facts, interface: &NetworkFacts) -> bool {
    let counts = interface.interrupts.iter().filter_map(|it| facts.interrupt(*it)?.count);
    counts.fold(0, u64::saturating_add) >= BUSY
}

/// Returns the CPUs that share a cache with the one that handles the interface's interrupts, without isolated ones.
fn near(facts: &Facts, interface: &NetworkFacts) -> CpuSet {
    let busiest = interface.interrupts.iter().filter_map(|it| facts.interrupt(*it));
    let busiest = busiest.max_by_key(|it| it.count.unwrap_or(0));
    let cpu = busiest.and_then(|it| it.effective.as_ref()?.0.first());
    let llc =
        cpu.and_then(|cpu| facts.topology.cpu(cpu)).and_then(|cpu| facts.topology.llc(cpu.llc));
    let near = llc.map_or_else(|| facts.topology.online().clone(), |llc| llc.cpus.clone());
    let free = &near - &facts.isolation.cpus();
    if free.is_empty() { near } else { free }
}
