//! Each rule reports a matching case, and reports nothing or "leave it" for other cases.

use coreshard_topology::{CpuSet, Topology};

use super::*;
use crate::facts::{
    BlockFacts, InterruptFacts, KernelVersion, MaskFacts, NetworkFacts, WorkqueueFacts,
};
use crate::measure::{MeasuredQueue, Times};

/// Two packages of 24 cores behind a cache each.
const WIDE: &str = "pack:2 numa:1 l3:1 core:24 pu:2";

struct World {
    facts: Facts,
    measured: Option<Measured>,
}

fn world(machine: &str) -> World {
    let facts = Facts::assumed(Topology::parse_machine(machine).unwrap(), KernelVersion::new(7, 1));
    World { facts, measured: None }
}

fn cpus(list: &str) -> MaskFacts {
    MaskFacts(list.parse().unwrap())
}

fn queue(change: impl FnOnce(&mut WorkqueueFacts)) -> WorkqueueFacts {
    let mut queue = WorkqueueFacts {
        name: "writeback".to_owned(),
        per_cpu: Some(false),
        scope: Some("default (cache_shard)".parse().unwrap()),
        strict: Some(false),
        cpumask: None,
        max_active: Some(1024),
        nice: Some(0),
    };
    change(&mut queue);
    queue
}

fn interrupt(
    number: u32,
    effective: &str,
    change: impl FnOnce(&mut InterruptFacts),
) -> InterruptFacts {
    let mut interrupt = InterruptFacts {
        number,
        name: Some("nvme0q1".to_owned()),
        count: Some(1_000_000),
        allowed: Some(cpus("0-95")),
        effective: Some(cpus(effective)),
        node: Some(0),
    };
    change(&mut interrupt);
    interrupt
}

fn disk(change: impl FnOnce(&mut BlockFacts)) -> BlockFacts {
    let mut disk = BlockFacts {
        name: "nvme0n1".to_owned(),
        hardware_queues: Some(96),
        scheduler: Some("none".to_owned()),
        schedulers: ["none", "mq-deadline", "kyber", "bfq"].map(str::to_owned).to_vec(),
        rq_affinity: Some(1),
        rotational: Some(false),
        node: Some(0),
        interrupts: vec![30, 31],
    };
    change(&mut disk);
    disk
}

fn interface(queues: usize, steered: &str) -> NetworkFacts {
    let rps = vec![Some(cpus(steered)); queues];
    NetworkFacts { name: "eth0".to_owned(), rps, node: Some(0), interrupts: vec![30] }
}

fn measured(change: impl FnOnce(&mut MeasuredQueue)) -> Option<Measured> {
    let mut queue = MeasuredQueue {
        name: "writeback".to_owned(),
        queued: 100_000,
        started: 100_000,
        ended: 100_000,
        matched: 100_000,
        run: Times { count: 100_000, max_us: 300_000, ..Times::default() },
        ..MeasuredQueue::default()
    };
    change(&mut queue);
    Some(Measured { seconds: 10.0, hog_us: 10_000, queues: vec![queue], ..Measured::default() })
}

type Case = fn(&mut World);

/// A rule, a case that must trigger it, and a case that must not.
const CASES: &[(&str, Case, Case)] = &[
    (
        "default-scope",
        |it| it.facts.workqueues.default_scope = Some("cache".parse().unwrap()),
        |it| it.facts.workqueues.default_scope = Some("cache_shard".parse().unwrap()),
    ),
    (
        "queue-scope",
        |it| {
            it.facts.workqueues.queues =
                vec![queue(|it| it.scope = Some("system".parse().unwrap()))]
        },
        |it| {
            it.facts.workqueues.queues =
                vec![queue(|it| it.scope = Some("smt".parse().unwrap())), queue(|_| ())]
        },
    ),
    (
        "affinity-strict",
        |it| {
            it.facts.workqueues.queues = vec![queue(|it| {
                it.scope = Some("cpu".parse().unwrap());
                it.strict = Some(true);
            })];
        },
        |it| it.facts.workqueues.queues = vec![queue(|it| it.strict = Some(true))],
    ),
    (
        "max-active",
        |it| it.facts.workqueues.queues = vec![queue(|it| it.max_active = Some(8))],
        |it| {
            // One is an order; a per-CPU queue's limit is for each CPU.
            it.facts.workqueues.queues = vec![
                queue(|it| it.max_active = Some(1)),
                queue(|it| {
                    it.max_active = Some(8);
                    it.per_cpu = Some(true);
                }),
            ];
        },
    ),
    (
        "cpu-intensive-threshold",
        |it| it.facts.workqueues.cpu_intensive_thresh_us = Some(0),
        |it| it.facts.workqueues.cpu_intensive_thresh_us = Some(999_999),
    ),
    (
        "power-efficient",
        |it| it.facts.workqueues.power_efficient = Some(true),
        |it| {
            *it = world("pack:1 l3:1 core:8 pu:2");
            it.facts.workqueues.power_efficient = Some(true);
        },
    ),
    ("force-round-robin", |it| it.facts.workqueues.debug_force_rr_cpu = Some(true), |_| ()),
    ("stall-watchdog", |it| it.facts.workqueues.watchdog_thresh_s = Some(0), |_| ()),
    (
        "unbound-mask",
        |it| {
            it.facts.workqueues.cpumask = Some(cpus("0-95"));
            it.facts.isolation.isolated = Some(cpus("8-15"));
        },
        |it| {
            it.facts.workqueues.cpumask = Some(cpus("0-7,16-95"));
            it.facts.isolation.isolated = Some(cpus("8-15"));
        },
    ),
    (
        "narrow-mask",
        |it| it.facts.workqueues.cpumask = Some(cpus("0-3")),
        |it| {
            // The others are isolated: that is what the mask is for.
            it.facts.workqueues.cpumask = Some(cpus("0-3"));
            it.facts.isolation.isolated = Some(cpus("4-95"));
        },
    ),
    (
        "requested-mask",
        |it| {
            it.facts.workqueues.cpumask = Some(cpus("0-95"));
            it.facts.workqueues.cpumask_requested = Some(cpus("0-3"));
        },
        |it| {
            it.facts.workqueues.cpumask = Some(cpus("0-1"));
            it.facts.workqueues.cpumask_requested = Some(cpus("0-3"));
            it.facts.workqueues.cpumask_isolated = Some(cpus("2-3"));
        },
    ),
    (
        "irq-isolated",
        |it| {
            it.facts.isolation.isolated = Some(cpus("8-15"));
            it.facts.interrupts = vec![interrupt(30, "9", |_| ())];
        },
        |it| {
            // A rare interrupt is harmless.
            it.facts.isolation.isolated = Some(cpus("8-15"));
            it.facts.interrupts =
                vec![interrupt(30, "1", |_| ()), interrupt(31, "9", |it| it.count = Some(3))];
        },
    ),
    (
        "irq-node",
        |it| it.facts.interrupts = vec![interrupt(30, "50", |_| ())],
        |it| {
            // The queue of a CPU of another node goes to that CPU, and may go nowhere else.
            let bound = interrupt(31, "50", |it| it.allowed = Some(cpus("50")));
            let unknown = interrupt(32, "50", |it| it.node = None);
            it.facts.interrupts = vec![interrupt(30, "3", |_| ()), bound, unknown];
        },
    ),
    (
        "irq-spread",
        |it| {
            it.facts.block = vec![disk(|_| ())];
            it.facts.interrupts = vec![interrupt(30, "3", |_| ()), interrupt(31, "3", |_| ())];
        },
        |it| {
            it.facts.block = vec![disk(|_| ())];
            it.facts.interrupts = vec![interrupt(30, "3", |_| ()), interrupt(31, "4", |_| ())];
        },
    ),
    (
        "receive-steering",
        |it| {
            it.facts.network = vec![interface(1, "")];
            it.facts.interrupts = vec![interrupt(30, "50", |_| ())];
        },
        |it| {
            it.facts.network = vec![interface(96, ""), interface(1, "0-23")];
            it.facts.interrupts = vec![interrupt(30, "3", |_| ())];
        },
    ),
    (
        "io-scheduler",
        |it| it.facts.block = vec![disk(|it| it.scheduler = Some("bfq".to_owned()))],
        |it| {
            let turning = |it: &mut BlockFacts| {
                it.scheduler = Some("bfq".to_owned());
                it.rotational = Some(true);
            };
            let one_queue = |it: &mut BlockFacts| {
                it.scheduler = Some("mq-deadline".to_owned());
                it.hardware_queues = Some(1);
            };
            it.facts.block = vec![disk(turning), disk(one_queue), disk(|_| ())];
        },
    ),
    (
        "rq-affinity",
        |it| it.facts.block = vec![disk(|it| it.rq_affinity = Some(0))],
        |it| it.facts.block = vec![disk(|it| it.rq_affinity = Some(2)), disk(|_| ())],
    ),
    (
        "hardware-queues",
        |it| it.facts.block = vec![disk(|it| it.hardware_queues = Some(1))],
        |it| {
            let turning = |it: &mut BlockFacts| {
                it.hardware_queues = Some(1);
                it.rotational = Some(true);
            };
            it.facts.block = vec![disk(turning), disk(|_| ())];
        },
    ),
    (
        "rt-limit",
        |it| {
            it.facts.kernel.version = Some(KernelVersion::new(6, 6));
            it.facts.realtime.runtime_us = Some(-1);
        },
        |it| it.facts.realtime.runtime_us = Some(-1),
    ),
    (
        "measured-hogs",
        |it| it.measured = measured(|it| it.hogs = 2),
        |it| {
            // Writeback takes long on every machine, and delays no other items.
            it.measured = measured(|it| {
                it.hogs = 2;
                it.per_cpu = Some(false);
            });
        },
    ),
    (
        "measured-rescues",
        |it| it.measured = measured(|it| it.rescues = 1),
        |it| it.measured = measured(|_| ()),
    ),
    (
        "measured-crossings",
        |it| it.measured = measured(|it| it.crossed_llc = 90_000),
        |it| {
            it.measured = measured(|it| {
                it.crossed_llc = 900;
                it.matched = 1_000;
                it.started = 1_000;
            });
        },
    ),
];

#[test]
fn each_rule_fires_where_it_should_and_not_elsewhere() {
    let ids: Vec<_> = RULES.iter().map(|rule| rule.id).collect();
    let cases: Vec<_> = CASES.iter().map(|(id, ..)| *id).collect();
    assert_eq!(ids, cases, "a case for each rule, in their order");
    for (id, fires, quiet) in CASES {
        let judged = |case: &Case| {
            let mut world = world(WIDE);
            case(&mut world);
            let findings = judge(&world.facts, world.measured.as_ref());
            findings.into_iter().filter(|finding| finding.rule.id == *id).collect::<Vec<_>>()
        };
        let fired = judged(fires);
        assert!(
            fired.iter().any(|it| it.verdict > Verdict::Leave),
            "{id} did not fire: {fired:#?}"
        );
        assert!(
            fired.iter().all(|it| !it.statement.is_empty() && !it.risk.is_empty()),
            "{fired:#?}"
        );
        let silent = judged(quiet);
        assert!(!silent.is_empty(), "{id} did not look");
        assert!(silent.iter().all(|it| it.verdict == Verdict::Leave), "{id} fired: {silent:#?}");
    }
}

/// Since Linux 6.12 a fair server stands beside the limit, and in for one that is not there.
#[test]
fn the_limit_of_real_time_tasks_is_told_as_the_kernel_keeps_it() {
    for (version, runtime, verdict, part) in [
        (KernelVersion::new(6, 6), 950_000, Verdict::Leave, "may run 950000 of every 1000000 µs"),
        (KernelVersion::new(6, 12), 950_000, Verdict::Leave, "and this kernel's fair server"),
        (
            KernelVersion::new(6, 12),
            -1,
            Verdict::Leave,
            "fair server reserves time for other tasks",
        ),
        (KernelVersion::new(6, 6), -1, Verdict::Consider, "have no limit"),
    ] {
        let mut world = world(WIDE);
        world.facts.kernel.version = Some(version);
        world.facts.realtime.runtime_us = Some(runtime);
        world.facts.realtime.period_us = Some(1_000_000);
        let findings = judge(&world.facts, None);
        let found = findings.iter().find(|finding| finding.rule.id == "rt-limit").unwrap();
        assert_eq!(found.verdict, verdict, "{found:#?}");
        assert!(found.statement.contains(part), "{part}: {}", found.statement);
    }
}

/// Whom a limit of 12 counts for: two nodes of 48 CPUs each.
#[test]
fn a_limit_is_judged_as_the_kernel_counts_it() {
    let said = |version: &str, most: u64| {
        let mut world = world(WIDE);
        world.facts.kernel.version = Some(version.parse().unwrap());
        world.facts.workqueues.queues = vec![queue(|it| it.max_active = Some(most))];
        let all = judge(&world.facts, None);
        let found = all.into_iter().find(|it| it.rule.id == "max-active").unwrap();
        (found.verdict, found.statement)
    };
    for (version, most, active) in [
        // Of each node.
        ("6.1", 12, Some(24)),
        ("6.1", 48, None),
        // Of each CPU.
        ("6.6", 2, None),
        ("6.8", 12, None),
        // Of the queue, split by CPUs, and at least eight for each node.
        ("6.9", 12, Some(16)),
        ("7.1", 8, Some(16)),
        ("7.1", 4, Some(8)),
        ("7.1", 60, Some(60)),
        ("7.1", 94, Some(94)),
        ("7.1", 95, None),
        ("7.1", 96, None),
    ] {
        let (verdict, statement) = said(version, most);
        match active {
            Some(active) => {
                assert_eq!(verdict, Verdict::Consider, "{version}, {most}");
                let words = format!("At most {active} of its items are active at once");
                assert!(statement.starts_with(&words), "{version}, {most}: {statement}");
            }
            None => assert_eq!(verdict, Verdict::Leave, "{version}, {most}: {statement}"),
        }
    }
}

#[test]
fn a_rule_without_facts_says_nothing() {
    let facts = Facts::of_machine(Topology::parse_machine(WIDE).unwrap());
    let findings = judge(&facts, None);
    let ids: Vec<_> = findings.iter().map(|finding| finding.rule.id).collect();
    assert_eq!(ids, ["default-scope"], "which depends on the machine only");
    assert_eq!(findings[0].verdict, Verdict::Leave);
}

#[test]
fn names_and_sources_are_there_and_no_name_twice() {
    let mut ids: Vec<_> = RULES.iter().map(|rule| rule.id).collect();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|two| two[0] != two[1]));
    assert!(RULES.iter().all(|rule| !rule.reason.is_empty() && !rule.source.is_empty()));
}

/// A laptop: six fast cores of two threads, eight slow ones, one cache.
fn hybrid() -> Topology {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join("sys/devices").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("system/cpu/online", "0-19");
    write("cpu_core/cpus", "0-11");
    write("cpu_atom/cpus", "12-19");
    for cpu in 0..20_u32 {
        let siblings = if cpu < 12 { format!("{}-{}", cpu & !1, cpu | 1) } else { cpu.to_string() };
        write(&format!("system/cpu/cpu{cpu}/topology/core_cpus_list"), &siblings);
        write(&format!("system/cpu/cpu{cpu}/topology/physical_package_id"), "0");
        let cache = format!("system/cpu/cpu{cpu}/cache/index3");
        write(&format!("{cache}/level"), "3");
        write(&format!("{cache}/type"), "Unified");
        write(&format!("{cache}/shared_cpu_list"), "0-19");
    }
    Topology::from_sysfs(folder.path()).unwrap()
}

/// The verdict on the default scope of common machines, for each kernel and each setting.
#[test]
fn the_default_scope_is_judged_by_the_machine() {
    let preset = |name: &str| Topology::preset(name).unwrap();
    let (leave, consider, change) = (Verdict::Leave, Verdict::Consider, Verdict::Change);
    let machines = [
        // 72 cores behind one cache: the machine that shards were made for.
        ("grace", preset("grace"), [consider, consider, leave], [change, leave, change, consider]),
        // 8 cores behind each cache: nothing to divide, but caches are better than nodes.
        (
            "epyc",
            preset("epyc-9654-2s"),
            [consider, leave, leave],
            [leave, leave, change, consider],
        ),
        // 120 cores behind each of two caches.
        (
            "xeon",
            preset("xeon-hcc-2s"),
            [consider, consider, leave],
            [change, leave, change, consider],
        ),
        ("laptop", hybrid(), [leave, leave, leave], [leave, leave, leave, consider]),
        // Two nodes of four cores, behind two caches each: smaller than a shard, whatever the kernel.
        (
            "old",
            Topology::from_synthetic("pack:2 numa:1 l3:2 core:2 pu:1").unwrap(),
            [leave; 3],
            [leave, leave, change, consider],
        ),
        (
            "vm",
            Topology::from_synthetic("pack:1 l3:1 core:2 pu:1").unwrap(),
            [leave; 3],
            [leave, leave, leave, consider],
        ),
    ];
    for (name, topology, by_kernel, by_setting) in machines {
        let judged = |facts: &Facts| {
            let all = judge(facts, None);
            all.into_iter().find(|finding| finding.rule.id == "default-scope").unwrap()
        };
        for (minor, expected) in
            [("6.1", by_kernel[0]), ("6.12", by_kernel[1]), ("7.1", by_kernel[2])]
        {
            let facts = Facts::assumed(topology.clone(), minor.parse().unwrap());
            let found = judged(&facts);
            assert_eq!(found.verdict, expected, "{name}, Linux {minor}: {}", found.statement);
        }
        for (scope, expected) in ["cache", "cache_shard", "numa", "cpu"].into_iter().zip(by_setting)
        {
            let mut facts = Facts::assumed(topology.clone(), KernelVersion::new(7, 1));
            facts.workqueues.default_scope = Some(scope.parse().unwrap());
            let found = judged(&facts);
            assert_eq!(found.verdict, expected, "{name}, {scope}: {}", found.statement);
        }
    }
}

#[test]
fn what_no_simulated_load_gains_by_is_left() {
    let mut world = world(WIDE);
    world.facts.workqueues.default_scope = Some("cache".parse().unwrap());
    let mut finding = judge(&world.facts, None).remove(0);
    assert_eq!(finding.verdict, Verdict::Change);
    let simulated = |even: [f64; 3]| {
        Simulated::over_seeds("it".to_owned(), 200, even.to_vec(), vec![0.9; 3], None)
    };
    finding.check_against(simulated([1.0, 1.5, 1.4]));
    assert_eq!(finding.verdict, Verdict::Change);
    // With another seed it would be a loss; and it is too little.
    let mut other = finding.clone();
    other.check_against(simulated([0.9, 2.0, 1.9]));
    assert_eq!(other.verdict, Verdict::Leave);
    finding.check_against(simulated([1.04, 2.0, 1.0]));
    assert_eq!(finding.verdict, Verdict::Leave);
    assert!(
        finding.settings.is_empty() && finding.statement.contains("keep the setting"),
        "{finding:?}"
    );
}

#[test]
fn what_can_be_set_at_boot_alone_is_not_written_to_a_file() {
    let mut world = world(WIDE);
    world.facts.workqueues.power_efficient = Some(true);
    world.facts.workqueues.watchdog_thresh_s = Some(0);
    let findings = judge(&world.facts, None);
    let lines = crate::emit::sysfs(&findings);
    assert!(lines.contains("(only at boot): workqueue.power_efficient=0"), "{lines}");
    assert!(!lines.contains("> /sys/module/workqueue/parameters/power_efficient"), "{lines}");
    assert!(
        lines.contains("\necho 30 > /sys/module/workqueue/parameters/watchdog_thresh\n"),
        "{lines}"
    );
    let profile = crate::emit::tuned(&findings);
    assert!(
        profile
            .contains("[bootloader]\n# consider: cmdline_coreshard=+workqueue.power_efficient=0"),
        "{profile}"
    );
    assert_eq!(
        crate::emit::boot_parameters(&findings),
        "# consider: workqueue.power_efficient=0\nworkqueue.watchdog_thresh=30\n"
    );
}

#[test]
fn masks_are_written_as_the_kernel_reads_them() {
    for list in ["", "0", "0-3", "31-32", "5,64-127"] {
        let cpus: CpuSet = list.parse().unwrap();
        let text = isolation::mask_text(&cpus);
        assert_eq!(CpuSet::from_mask(&text).as_ref(), Ok(&cpus), "{text}");
    }
    assert_eq!(isolation::mask_text(&"32".parse().unwrap()), "00000001,00000000");
}
