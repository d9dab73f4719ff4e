//! Rules on the queues of block devices.

use super::finding::{Case, Finding, Rule, Setting};
use crate::facts::BlockFacts;

fn file(device: &BlockFacts, name: &str) -> String {
    format!("/sys/block/{}/queue/{name}", device.name)
}

fn named(device: &BlockFacts) -> String {
    format!("device {}", device.name)
}

/// Schedulers on devices that need none.
pub(super) const SCHEDULER: Rule = Rule {
    id: "io-scheduler",
    reason: "a scheduler has one lock for a device that has a queue for each CPU, and orders requests for a head that a \
             solid-state device does not have",
    source: "Documentation/block/blk-mq.rst; the kernel's own choice for devices with several hardware queues is none",
    judge: scheduler,
};

fn scheduler(case: &Case<'_>) -> Vec<Finding> {
    let devices = case.facts.block.iter();
    let known: Vec<_> = devices.filter_map(|it| Some((it, it.scheduler.as_deref()?))).collect();
    let mut findings = Vec::new();
    for (device, name) in &known {
        let queues = device.hardware_queues.unwrap_or_default();
        // kyber has queues of its own for each hardware queue, and is chosen for its limits.
        let is_one_lock = matches!(*name, "bfq" | "mq-deadline");
        let can = device.schedulers.iter().any(|it| it == "none");
        if !(queues > 1 && is_one_lock && can && device.rotational == Some(false)) {
            continue;
        }
        let statement = format!(
            "It is a solid-state device with {queues} hardware queues, and the scheduler {name} has one lock for all of them."
        );
        let risk = if *name == "bfq" {
            "bfq's weights and low latency for interactive programs are lost, and cgroups' io.bfq.weight with them"
        } else {
            "zoned devices need mq-deadline to keep writes in order, and I/O priorities are lost"
        };
        let setting = Setting::new(file(device, "scheduler"), Some((*name).to_owned()), "none");
        findings.push(case.consider(named(device), statement, risk).with(setting));
    }
    if known.is_empty() {
        return Vec::new();
    }
    case.or_content(findings, "I/O schedulers", || match &known[..] {
        [(device, _)] => format!("That of {} fits it.", device.name),
        _ => {
            format!("Those of {} devices fit them; files and memory as devices aside.", known.len())
        }
    })
}

/// Where completions go.
pub(super) const RQ_AFFINITY: Rule = Rule {
    id: "rq-affinity",
    reason: "with 0 a request is completed wherever its interrupt came: its memory, and its queue's, move to that \
             cache and back",
    source: "Documentation/ABI/stable/sysfs-block, rq_affinity",
    judge: rq_affinity,
};

fn rq_affinity(case: &Case<'_>) -> Vec<Finding> {
    let known = || case.facts.block.iter().filter(|it| it.rq_affinity.is_some());
    if known().next().is_none() {
        return Vec::new();
    }
    let llcs = case.facts.topology.llcs();
    let loose = known().filter(|it| it.rq_affinity == Some(0) && llcs > 1).map(|device| {
        let statement = format!(
            "Completions go wherever the interrupt comes, on a machine with {llcs} last-level caches."
        );
        let setting = Setting::new(file(device, "rq_affinity"), Some("0".to_owned()), "1");
        let risk = "an interrupt between CPUs for completions that came elsewhere";
        case.change(named(device), statement, risk, setting)
    });
    case.or_content(loose.collect(), "completions", || match llcs {
        2.. => "Completions go back to the CPUs that share a cache with the one that asked, or to that one.",
        _ => "All CPUs share one last-level cache: where completions go makes little difference.",
    })
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

fn hardware_queues(case: &Case<'_>) -> Vec<Finding> {
    let cpus = case.facts.topology.cpus().len();
    let known = || case.facts.block.iter().filter(|it| it.hardware_queues.is_some());
    if known().next().is_none() {
        return Vec::new();
    }
    let is_narrow = |device: &&BlockFacts| {
        device.hardware_queues == Some(1) && device.rotational == Some(false) && cpus >= MANY_CPUS
    };
    let narrow = known().filter(is_narrow).map(|device| {
        let statement = format!(
            "A solid-state device, and {cpus} CPUs share its one hardware queue. Virtual devices can often have more: that \
             is the host's to set."
        );
        let risk = "none here: it is set by the driver, or by the host of a virtual machine";
        case.consider(named(device), statement, risk)
    });
    case.or_content(narrow.collect(), "hardware queues", || match cpus {
        ..MANY_CPUS => format!("{cpus} CPUs do not wear a hardware queue out."),
        _ => "No solid-state device has a single hardware queue.".to_owned(),
    })
}
