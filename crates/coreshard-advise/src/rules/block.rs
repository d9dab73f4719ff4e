//! Block devices' queues.

use super::finding::{Finding, Rule, Setting};
use crate::facts::{BlockFacts, Facts};
use crate::measure::Measured;

fn file(device: &BlockFacts, name: &str) -> String {
    format!("/sys/block/{}/queue/{name}", device.name)
}

/// Schedulers on devices that need none.
pub(super) const SCHEDULER: Rule = Rule {
    id: "io-scheduler",
    reason: "a scheduler has one lock for a device that has a queue for each CPU, and orders requests for a head that a \
             solid-state device does not have",
    source: "Documentation/block/blk-mq.rst; the kernel's own choice for devices with several hardware queues is none",
    judge: scheduler,
};

fn scheduler(rule: &'static Rule, facts: &Facts, _: Option<&Measured>) -> Vec<Finding> {
    let known: Vec<_> = facts.block.iter().filter(|it| it.scheduler.is_some()).collect();
    let mut findings = Vec::new();
    for device in &known {
        let is_wide = device.hardware_queues.is_some_and(|queues| queues > 1);
        let name = device.scheduler.as_deref().unwrap_or_default();
        // kyber has queues of its own for each hardware queue, and is chosen for its limits.
        let is_one_lock = matches!(name, "bfq" | "mq-deadline");
        let can = device.schedulers.iter().any(|it| it == "none");
        if !(is_wide && is_one_lock && can && device.rotational == Some(false)) {
            continue;
        }
        let statement = format!(
            "It is a solid-state device with {} hardware queues, and the scheduler {name} has one lock for all of them.",
            device.hardware_queues.unwrap_or_default()
        );
        let risk = if name == "bfq" {
            "bfq's weights and low latency for interactive programs are lost, and cgroups' io.bfq.weight with them"
        } else {
            "zoned devices need mq-deadline to keep writes in order, and I/O priorities are lost"
        };
        let setting = Setting::new(file(device, "scheduler"), Some(name.to_owned()), "none");
        findings.push(
            Finding::consider(rule, format!("device {}", device.name), statement, risk)
                .with(setting),
        );
    }
    if findings.is_empty() && !known.is_empty() {
        let statement = match &known[..] {
            [device] => format!("That of {} fits it.", device.name),
            _ => format!(
                "Those of {} devices fit them; files and memory as devices aside.",
                known.len()
            ),
        };
        findings.push(Finding::leave(rule, "I/O schedulers", statement));
    }
    findings
}

/// Where completions go.
pub(super) const RQ_AFFINITY: Rule = Rule {
    id: "rq-affinity",
    reason: "with 0 a request is completed wherever its interrupt came: its memory, and its queue's, move to that \
             cache and back",
    source: "Documentation/ABI/stable/sysfs-block, rq_affinity",
    judge: rq_affinity,
};

fn rq_affinity(rule: &'static Rule, facts: &Facts, _: Option<&Measured>) -> Vec<Finding> {
    let known: Vec<_> = facts.block.iter().filter(|it| it.rq_affinity.is_some()).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let is_wide = facts.topology.llcs() > 1;
    let loose = known.iter().filter(|it| it.rq_affinity == Some(0) && is_wide);
    let findings: Vec<_> = loose
        .map(|device| {
            let statement = format!(
                "Completions go wherever the interrupt comes, on a machine with {} last-level caches.",
                facts.topology.llcs()
            );
            let setting = Setting::new(file(device, "rq_affinity"), Some("0".to_owned()), "1");
            let risk = "an interrupt between CPUs for completions that came elsewhere";
            Finding::change(rule, format!("device {}", device.name), statement, risk, setting)
        })
        .collect();
    if findings.is_empty() {
        let statement = if is_wide {
            "Completions go back to the CPUs that share a cache with the one that asked, or to that one."
        } else {
            "All CPUs share one last-level cache: where completions go makes little difference."
        };
        return vec![Finding::leave(rule, "completions", statement)];
    }
    findings
}

/// Devices with one queue on machines with many CPUs.
pub(super) const HARDWARE_QUEUES: Rule = Rule {
    id: "hardware-queues",
    reason: "all CPUs share a device's one hardware queue, and its tags",
    source: "Documentation/block/blk-mq.rst, \"Hardware dispatch queues\"",
    judge: hardware_queues,
};

/// From how many CPUs on one queue is worth a word.
const MANY_CPUS: usize = 16;

fn hardware_queues(rule: &'static Rule, facts: &Facts, _: Option<&Measured>) -> Vec<Finding> {
    let cpus = facts.topology.cpus().len();
    let known: Vec<_> = facts.block.iter().filter(|it| it.hardware_queues.is_some()).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let is_narrow = |device: &&&BlockFacts| {
        device.hardware_queues == Some(1) && device.rotational == Some(false) && cpus >= MANY_CPUS
    };
    let narrow: Vec<_> = known.iter().filter(is_narrow).collect();
    if narrow.is_empty() {
        let statement = if cpus < MANY_CPUS {
            format!("{cpus} CPUs do not wear a hardware queue out.")
        } else {
            "No solid-state device has a single hardware queue.".to_owned()
        };
        return vec![Finding::leave(rule, "hardware queues", statement)];
    }
    let finding = |device: &&&BlockFacts| {
        let statement = format!(
            "A solid-state device, and {cpus} CPUs share its one hardware queue. Virtual devices can often have more: that \
             is the host's to set."
        );
        let risk = "none here: it is set by the driver, or by the host of a virtual machine";
        Finding::consider(rule, format!("device {}", device.name), statement, risk)
    };
    narrow.iter().map(finding).collect()
}
