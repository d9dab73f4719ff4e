//! Trees as they are, and trees that are damaged.

use coreshard_topology::Topology;

use super::*;

#[allow(unreachable_pub, reason = "it is also a module of test programs")]
#[path = "../../tests/common/mod.rs"]
mod common;

use common::Recording;

fn small() -> Topology {
    Topology::from_synthetic("pack:2 numa:1 l3:1 core:2 pu:1").unwrap()
}

fn read(recording: &Recording) -> Facts {
    Facts::read(recording.path(), small())
}

/// A machine with a disk and an interface, each behind a PCI function.
fn whole() -> Recording {
    let recording = Recording::of(&small());
    recording
        .kernel("6.18.4-test", "cache")
        .file("sys/devices/virtual/workqueue/cpumask", "f")
        .file("sys/devices/virtual/workqueue/cpumask_requested", "f")
        .file("sys/devices/virtual/workqueue/cpumask_isolated", "0")
        .file("sys/devices/virtual/workqueue/power/control", "auto")
        .file("sys/devices/system/cpu/isolated", "3")
        .file("sys/devices/system/cpu/nohz_full", "(null)")
        .file("proc/sys/kernel/sched_rt_runtime_us", "-1")
        .file("proc/sys/kernel/sched_rt_period_us", "1000000")
        .file("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor sse")
        .file(
            "proc/interrupts",
            "   CPU0 CPU1 CPU2 CPU3\n 40: 1 2 3 4 PCI-MSI 5-edge nvme0q1\nNMI: 0 0 0 0 x",
        )
        .file("proc/irq/40/smp_affinity_list", "0-3")
        .file("proc/irq/40/effective_affinity_list", "2")
        .file("proc/irq/40/node", "-1")
        .file("sys/devices/pci0/0:1/numa_node", "1")
        .file("sys/devices/pci0/0:1/msi_irqs/40", "msix")
        .file("sys/devices/pci0/0:1/nvme/nvme0/state", "live")
        .link("sys/block/nvme0n1/device", "../../devices/pci0/0:1/nvme/nvme0")
        .file("sys/block/nvme0n1/mq/0/cpu_list", "0")
        .file("sys/block/nvme0n1/mq/1/cpu_list", "1")
        .file("sys/block/nvme0n1/queue/scheduler", "none [mq-deadline] kyber")
        .file("sys/block/nvme0n1/queue/rq_affinity", "1")
        .file("sys/block/nvme0n1/queue/rotational", "0")
        .file("sys/block/loop0/queue/scheduler", "none")
        .file("sys/class/net/lo/queues/rx-0/rps_cpus", "0")
        .link("sys/class/net/eth0/device", "../../../devices/pci0/0:1")
        .file("sys/class/net/eth0/queues/tx-0/xps_cpus", "0");
    for queue in 0..11 {
        recording.file(
            &format!("sys/class/net/eth0/queues/rx-{queue}/rps_cpus"),
            &format!("{:x}", queue % 4),
        );
    }
    recording
}

#[test]
fn a_whole_machine_is_read() {
    let facts = read(&whole());
    assert_eq!(facts.notes, [""; 0]);
    assert_eq!(facts.kernel.version, Some(KernelVersion::new(6, 18)));
    assert!(facts.kernel.is_virtual && !facts.kernel.is_assumed);
    let settings = &facts.workqueues;
    assert_eq!(settings.default_scope, Some("cache".parse().unwrap()));
    assert_eq!(settings.has_shards(facts.kernel.version), Some(false));
    assert_eq!(settings.cpumask, Some(MaskFacts("0-3".parse().unwrap())));
    let [queue] = &settings.queues[..] else { panic!("{:?}", settings.queues) };
    assert_eq!(
        (queue.name.as_str(), queue.max_active, queue.strict),
        ("writeback", Some(1024), Some(false))
    );
    assert_eq!(queue.scope.unwrap().to_string(), "default (cache)");
    assert_eq!(facts.isolation.cpus().to_string(), "3");
    assert_eq!((facts.realtime.runtime_us, facts.realtime.period_us), (Some(-1), Some(1_000_000)));
    let interrupt = facts.interrupt(40).unwrap();
    assert_eq!(
        (interrupt.count, interrupt.name.as_deref(), interrupt.node),
        (Some(10), Some("nvme0q1"), None)
    );
    let [disk] = &facts.block[..] else { panic!("{:?}", facts.block) };
    assert_eq!(
        (disk.hardware_queues, disk.node, &disk.interrupts[..]),
        (Some(2), Some(1), &[40][..])
    );
    assert_eq!((disk.scheduler.as_deref(), disk.schedulers.len()), (Some("mq-deadline"), 3));
    let [interface] = &facts.network[..] else { panic!("{:?}", facts.network) };
    assert_eq!(interface.rps.len(), 11);
    assert_eq!(
        interface.rps[10],
        Some(MaskFacts("1".parse().unwrap())),
        "in the order of their numbers"
    );
    serde_json::to_string(&facts).unwrap();
}

#[test]
fn nothing_there_is_nothing_known() {
    let facts = read(&Recording::new());
    assert_eq!(facts.notes, [""; 0]);
    assert!(
        facts.kernel.version.is_none()
            && facts.workqueues.queues.is_empty()
            && facts.block.is_empty()
    );
}

#[test]
fn a_report_of_sos_is_read_where_it_has_things() {
    let report = Recording::of(&small());
    report
        .file("sos_commands/kernel/uname_-a", "Linux db1 5.14.0-503.el9.x86_64 #1 SMP")
        .file("sos_commands/kernel/sysctl_-a", "kernel.sched_rt_runtime_us = 950000\nkernel.x = 1");
    let facts = read(&report);
    assert_eq!(facts.kernel.version, Some(KernelVersion::new(5, 14)));
    assert_eq!(facts.realtime.runtime_us, Some(950_000));
}

/// Each file that is wrong is a sentence, and takes nothing else away.
#[test]
fn what_is_wrong_is_a_sentence_each() {
    for (name, text, expected) in [
        ("proc/sys/kernel/osrelease", "\u{1b}[2Jx", "invalid kernel release"),
        ("proc/sys/kernel/osrelease", "99999999999999.1", "invalid kernel release"),
        ("proc/sys/kernel/sched_rt_runtime_us", "9".repeat(40).as_str(), "expected a whole number"),
        (
            "sys/module/workqueue/parameters/default_affinity_scope",
            "cash",
            "expected an affinity scope",
        ),
        ("sys/module/workqueue/parameters/cache_shard_size", "-1", "at least 0"),
        ("sys/module/workqueue/parameters/power_efficient", "maybe", "expected Y, N, 1 or 0"),
        (
            "sys/module/workqueue/parameters/watchdog_thresh",
            "1".repeat(5_000).as_str(),
            "at most 4096 bytes",
        ),
        ("sys/devices/virtual/workqueue/cpumask", "fffffffff", "at most 32 bits"),
        ("sys/devices/virtual/workqueue/writeback/max_active", "many", "whole number"),
        ("sys/devices/system/cpu/isolated", "0-99999999", "expected a CPU number up to"),
        ("proc/irq/40/effective_affinity_list", "4-1", "ends before it starts"),
        ("sys/block/nvme0n1/queue/rotational", "slowly", "expected Y, N, 1 or 0"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "xyz", "hexadecimal"),
    ] {
        let recording = whole();
        recording.file(name, text);
        let facts = read(&recording);
        let [note] = &facts.notes[..] else { panic!("{name}: {:?}", facts.notes) };
        assert!(note.contains(expected), "{name}: {note}");
        assert!(
            note.chars().all(coreshard_topology::input::is_plain) && note.len() < 1_100,
            "{note}"
        );
        assert_eq!(facts.block.len(), 1, "{name}");
        assert!(!crate::judge(&facts, None).is_empty(), "{name}");
    }
}

#[test]
fn loops_and_ways_out_of_the_tree_lead_nowhere() {
    let recording = Recording::of(&small());
    recording
        .link("sys/block/a/device", "device")
        .link("sys/block/b/device", "/")
        .link("sys/block/c/device", "../../../../../../../../..")
        .link("sys/module/workqueue/parameters", ".")
        .link("sys/devices/virtual/workqueue", "../..")
        .link("proc/irq", "irq")
        .link("proc/interrupts", "/dev/zero")
        .link("proc/sys/kernel/osrelease", "/proc/sys/kernel/osrelease")
        .file("proc/cpuinfo/x", "");
    let facts = read(&recording);
    assert_eq!(facts.block.len(), 3);
    assert!(
        facts.block.iter().all(|disk| disk.node.is_none() && disk.interrupts.is_empty()),
        "{:?}",
        facts.block
    );
    let says = |words: &str| facts.notes.iter().any(|note| note.contains(words));
    for part in ["b/device leads out of the tree", "interrupts leads out", "osrelease leads out"] {
        assert!(says(part), "{part}: {:?}", facts.notes);
    }
    assert_eq!(facts.kernel.release, None, "of this machine, not of the recorded one");
}

#[test]
fn no_tree_fills_a_screen() {
    let recording = Recording::of(&small());
    for queue in 0..100 {
        recording.file(&format!("sys/devices/virtual/workqueue/q{queue}/max_active"), "\u{202e}x");
    }
    std::fs::create_dir_all(recording.path().join("sys/block/\u{1b}[2J")).unwrap();
    let facts = read(&recording);
    assert_eq!(facts.notes.len(), 41);
    assert!(facts.notes[40].contains("more files were not usable"), "{:?}", facts.notes[40]);
    assert!(facts.block.is_empty());
}
