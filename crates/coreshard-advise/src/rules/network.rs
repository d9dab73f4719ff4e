//! Rules on the receive queues of network interfaces, and on steering in software.

use coreshard_topology::CpuSet;

use super::finding::{Case, Finding, Rule, Setting};
use super::isolation::mask_text;
use crate::facts::{Facts, NetworkFacts};

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
                "It has {queues} receive queues for {cpus} CPUs, and {} of them are steered once more in software.",
                steered.len()
            );
            let mut finding = case.consider(subject, statement, "a flow's CPU may change");
            finding.settings.extend(steered.iter().map(|(queue, mask)| {
                Setting::new(file(interface, *queue), Some(mask_text(mask)), "0")
            }));
            return Some(finding);
        }
        let is_narrow = queues == 1 && steered.is_empty() && cpus >= CPUS_WORTH_STEERING;
        (is_narrow && is_busy(case.facts, interface)).then(|| {
            let near = near(case.facts, interface);
            let statement = format!(
                "One receive queue serves {cpus} CPUs, so one of them takes all packets in. Steering can share them out \
                 among {near}."
            );
            let risk = "an interrupt between CPUs for each batch of packets: worth it where one CPU is at its limit \
                        with soft interrupts, and not else";
            let setting = Setting::new(file(interface, 0), Some("0".to_owned()), mask_text(&near));
            case.consider(subject, statement, risk).with(setting)
        })
    });
    case.or_content(findings.collect(), "receive steering", || {
        format!(
            "No interface that has queues enough is steered in software, and where one queue serves all CPUs, there are \
             fewer than {CPUS_WORTH_STEERING} of them, or few packets came."
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
