//! Network interfaces: receive queues, and steering in software.

use coreshard_topology::CpuSet;

use super::finding::{Finding, Rule, Setting};
use super::isolation::mask_text;
use crate::facts::{Facts, NetworkFacts};
use crate::measure::Measured;

/// Packets spread over CPUs in software.
pub(super) const RPS: Rule = Rule {
    id: "receive-steering",
    reason: "receive packet steering (RPS) spreads the packets of one hardware queue over the CPUs that share a cache; \
             where each CPU has a queue of its own, it costs an interrupt between CPUs and gives nothing",
    source: "Documentation/networking/scaling.rst, \"RPS: Receive Packet Steering\"",
    judge: rps,
};

/// On fewer CPUs one of them keeps up with a queue, or none has time to spare.
const CPUS_WORTH_STEERING: usize = 4;
/// Packets since the machine was started, in interrupts, below which an interface does not matter.
const BUSY: u64 = 100_000;

fn rps(rule: &'static Rule, facts: &Facts, _: Option<&Measured>) -> Vec<Finding> {
    let cpus = facts.topology.cpus().len();
    let mut known = 0_usize;
    let mut findings = Vec::new();
    for interface in &facts.network {
        let steered = interface.rps.iter().flatten().filter(|mask| !mask.0.is_empty()).count();
        let queues = interface.rps.len();
        if interface.rps.iter().flatten().next().is_none() {
            continue;
        }
        known += 1;
        let subject = format!("interface {}", interface.name);
        if queues >= cpus && cpus > 1 && steered > 0 {
            let statement = format!(
                "It has {queues} receive queues for {cpus} CPUs, and {steered} of them are steered once more in software."
            );
            let mut finding =
                Finding::consider(rule, subject, statement, "a flow's CPU may change");
            for (queue, mask) in interface.rps.iter().enumerate() {
                if let Some(mask) = mask.as_ref().filter(|it| !it.0.is_empty()) {
                    let path = file(interface, queue);
                    finding = finding.with(Setting::new(path, Some(mask_text(&mask.0)), "0"));
                }
            }
            findings.push(finding);
        } else if queues == 1
            && steered == 0
            && cpus >= CPUS_WORTH_STEERING
            && is_busy(facts, interface)
        {
            let near = near(facts, interface);
            let statement = format!(
                "One receive queue serves {cpus} CPUs, so one of them takes all packets in. Steering can share them out \
                 among {near}."
            );
            let risk = "an interrupt between CPUs for each batch of packets: worth it where one CPU is at its limit \
                        with soft interrupts, and not else";
            let setting = Setting::new(file(interface, 0), Some("0".to_owned()), mask_text(&near));
            findings.push(Finding::consider(rule, subject, statement, risk).with(setting));
        }
    }
    if findings.is_empty() && known > 0 {
        let statement = format!(
            "No interface that has queues enough is steered in software, and where one queue serves all CPUs, there are \
             fewer than {CPUS_WORTH_STEERING} of them, or few packets came."
        );
        findings.push(Finding::leave(rule, "receive steering", statement));
    }
    findings
}

fn file(interface: &NetworkFacts, queue: usize) -> String {
    format!("/sys/class/net/{}/queues/rx-{queue}/rps_cpus", interface.name)
}

fn is_busy(facts: &Facts, interface: &NetworkFacts) -> bool {
    let counts = interface.interrupts.iter().filter_map(|it| facts.interrupt(*it)?.count);
    counts.fold(0, u64::saturating_add) >= BUSY
}

/// The CPUs behind the cache of the CPU that takes the interface's interrupts; without isolated ones.
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
