//! Rules for the queues of block devices.

use super::finding::{Case, Finding, Rule, Setting};
use crate::facts::BlockFacts;

fn file(device: &BlockFacts, name: &str) -> String {
    format!("/sys/block/{}/queue/{name}", device.name)
}

fn named(device: &BlockFacts) -> String {
    format!("device {}", device.name)
}

/// I/O schedulers on devices that need none.
pub(super) const SCHEDULER: Rule = Rule {
    id: "io-scheduler",
    reason: "a scheduler takes one lock for all of a device's queues, and sorts requests to reduce seeks, which solid-state devices do not have",
    source: "Documentation/block/blk-mq.rst; the kernel's default for devices with several hardware queues is none",
    judge: scheduler,
};

fn scheduler(case: &Case<'_>) -> Vec<Finding> {
    let devices = case.facts.block.iter();
    let known: Vec<_> = devices.filter_map(|it| Some((it, it.scheduler.as_deref()?))).collect();
    let mut findings = Vec::new();
    for (device, name) in &known {
        let queues = device.hardware_queues.unwrap_or_default();
        // kyber has a queue per hardware queue, and is chosen for its limits.
        let is_one_lock = matches!(*name, "bfq" | "mq-deadline");
        let can = device.schedulers.iter().any(|it| it == "none");
        if !(queues > 1 && is_one_lock && can && device.rotational == Some(false)) {
            continue;
        }
        let statement = format!(
            "This solid-state device has {queues} hardware queues, and the scheduler {name} has one lock for all of them."
        );
        let risk = if *name == "bfq" {
            "loses bfq's weights, its low latency for interactive programs and the cgroup setting io.bfq.weight"
        } else {
            "loses I/O priorities; zoned devices need mq-deadline to keep writes in order"
        };
        let setting = Setting::new(file(device, "scheduler"), Some((*name).to_owned()), "none");
        findings.push(case.consider(named(device), statement, risk).with(setting));
    }
    if known.is_empty() {
        return Vec::new();
    }
    case.or_content(findings, "I/O schedulers", || match &known[..] {
        [(device, _)] => format!("The scheduler of {} is suitable.", device.name),
        _ => {
            format!(
                "The schedulers of {} devices are suitable (not counting loop and memory devices).",
                known.len()
            )
        }
    })
}

/// Where completions run.
pub(super) const RQ_AFFINITY: Rule = Rule {
    id: "rq-affinity",
    reason: "with 0, a request completes on the CPU that handles the interrupt, so its cache lines move there and back",
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
            "Completions run on the CPU that handles the interrupt, on a machine with {llcs} last-level caches."
        );
        let setting = Setting::new(file(device, "rq_affinity"), Some("0".to_owned()), "1");
        let risk = "an inter-processor interrupt for completions from other CPUs";
        case.change(named(device), statement, risk, setting)
    });
    case.or_content(loose.collect(), "completions", || match llcs {
        2.. => "Completions run on the submitting CPU, or one that shares a cache with it.",
        _ => "All CPUs share one last-level cache, so the CPU of a completion makes little difference.",
    })
}

/// Devices with one queue on machines with many CPUs.
pub(super) const HARDWARE_QUEUES: Rule = Rule {
    id: "hardware-queues",
    reason: "all CPUs share a device's one hardware queue, and its tags",
    source: "Documentation/block/blk-mq.rst, \"Hardware dispatch queues\"",
    judge: hardware_queues,
};

/// Smallest number of CPUs for a report of a single hardware queue.
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
            "{cpus} CPUs share the only hardware queue of this solid-state device. The host can often configure more for virtual devices."
        );
        let risk = "none: the driver or the host of a virtual machine sets it";
        case.consider(named(device), statement, risk)
    });
    case.or_content(narrow.collect(), "hardware queues", || match cpus {
        ..MANY_CPUS => format!("{cpus} CPUs do not overload a hardware queue."),
        _ => "No solid-state device has a single hardware queue.".to_owned(),
    })
}
