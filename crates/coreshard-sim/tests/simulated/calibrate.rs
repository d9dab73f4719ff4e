//! Calibrating a simulated machine returns the values of its file, so the measured operations are the
//! simulated ones.

use coreshard_bench::{Effort, Unwatched, calibrate, item_chains};
use coreshard_sim::{Machine, Sim, Simulation};
use coreshard_topology::{CpuId, CpuSet};

use crate::machines::TWO_SOCKETS;

#[test]
fn a_simulated_machine_has_the_costs_that_its_file_says() {
    let cost = |key: &str, ns: u32| format!("\n[costs.{key}]\nns = {ns}\nsource = \"s\"\n");
    let text = [("timer", 130), ("wake_remote", 250)].map(|(key, ns)| cost(key, ns));
    let text = format!("{TWO_SOCKETS}{}", text.concat());
    let machine = Machine::from_toml("two sockets", &text).unwrap();
    // One CPU, its sibling, and one CPU at each other distance.
    let cpus: CpuSet = "0-2,4,8".parse().unwrap();
    let part = machine.topology().restrict(&cpus).unwrap();
    let effort = Effort { rounds: 2, repeats: 1_000, memory_bytes: 1 << 12 };
    let run = Simulation::new(&machine).run(|| calibrate::<Sim>(&part, effort, &mut Unwatched));
    let found = run.unwrap().value.unwrap().unwrap();
    let near = |what: &str, found: f64, expected: f64, tolerance: f64| {
        let off = (found - expected).abs();
        assert!(off <= tolerance.max(expected * 0.01), "{what}: {found}, the file says {expected}");
    };
    for (one, row) in found.latency.iter().enumerate() {
        for (other, figure) in row.iter().enumerate() {
            let expected = machine.latency_ns(CpuId(found.cpus[one]), CpuId(found.cpus[other]));
            match (figure, expected) {
                (Some(figure), Some(expected)) => near("latency", figure.median_ns, expected, 0.5),
                (figure, expected) => assert!(figure.is_none() && expected.is_none()),
            }
        }
    }
    near("load", found.load.median_ns, 1.54, 0.2);
    near("atomic", found.atomic.median_ns, 6.92, 0.2);
    near("spin hint", found.spin_hint.median_ns, 53.8, 0.2);
    near("clock", found.clock_read.median_ns, 20.0, 0.2);
    let contests = found.contended.iter().map(|it| format!("{:?} {}", it.contenders, it.threads));
    let expected = "CoresFirst 1, CoresFirst 2, CoresFirst 3, CoresFirst 4, CoresFirst 5, Siblings 2, Packages 2, Packages 4";
    assert_eq!(contests.collect::<Vec<_>>().join(", "), expected);
    let costs = found.costs();
    near("syscall", costs.syscall_ns, 100.0, 1.0);
    near("futex", costs.futex_ns, 150.0, 10.0);
    near("wake", costs.wake_ns, 500.0, 30.0);
    near("timer", costs.timer_ns, 130.0, 10.0);
    near("another CPU's", costs.wake_remote_ns, 250.0, 30.0);
    near("ipi", costs.ipi_send_ns, 375.0, 30.0);
    near("switch", costs.context_switch_ns, 1_500.0, 60.0);
    near("idle exit", costs.idle_exit_ns, 2_000.0, 150.0);
    near("deep idle exit", costs.deep_idle_exit_ns, 2_000.0, 150.0);
    near("thread", costs.thread_create_ns, 15_000.0, 600.0);
    // Minus a switch, plus a reading of the clock.
    near("slice", found.slice.unwrap().median_ns, 3e6, 10_000.0);
}

/// Lines that no thread waits for, and variation, measured on a machine that models them.
#[test]
fn what_comes_with_a_line_and_what_interrupts_are_found() {
    let measured = |more: &str| {
        let text = format!("{TWO_SOCKETS}{more}");
        let machine = Machine::from_toml("two sockets", &text).unwrap();
        let cpus: CpuSet = "0,2".parse().unwrap();
        let part = machine.topology().restrict(&cpus).unwrap();
        let effort = Effort { rounds: 2, repeats: 100, memory_bytes: 1 << 12 };
        let run = Simulation::new(&machine).run(|| calibrate::<Sim>(&part, effort, &mut Unwatched));
        run.unwrap().value.unwrap().unwrap()
    };
    let source = "source = \"s\"\n";
    let plain = measured(&format!("\n[costs.arbitration]\nhold_ns = 0\n{source}"));
    let fetched = plain.fetched.unwrap();
    assert!(!fetched.loads_take_dirty_lines() && !fetched.pairs_come_together(), "{fetched:?}");
    assert_eq!(fetched.stores_at_once(), 1, "{fetched:?}");
    assert_eq!(plain.variation.unwrap().interruptions, 0);

    let rich = measured(&format!(
        "\n[costs.arbitration]\nhold_ns = 0\nloads_take_dirty_lines = true\n\
         pair_prefetch = true\nmisses_at_once = 4\n{source}\n[costs.variation]\ncalls = [0.8, 0.9, 1, 1.1, 1.5, 2]\n\
         exits = [0.8, 0.9, 1, 1.2, 2, 4]\ninterrupted_every_ns = 200000\ninterrupted_for_ns = 8000\n{source}"
    ));
    let fetched = rich.fetched.unwrap();
    assert!(fetched.loads_take_dirty_lines() && fetched.pairs_come_together(), "{fetched:?}");
    assert!((3..=6).contains(&fetched.stores_at_once()), "{fetched:?}");
    let variation = rich.variation.unwrap();
    let every_us = variation.interrupted_every_ns / 1e3;
    assert!((120.0..330.0).contains(&every_us), "every {every_us} µs, of 200 and 8");
    assert!((7e3..9e3).contains(&variation.interrupted_for_ns), "{variation:?}");
    assert!(variation.calls[0] < 0.95 && variation.calls[4] > 1.1, "{variation:?}");
    assert!(variation.exits[4] > 1.2, "{variation:?}");
}

/// The computation between two accesses is the additional time of a program per access.
#[test]
fn what_a_program_computes_is_added_to_each_access() {
    let run = |text: &str| {
        let machine = Machine::from_toml("two sockets", text).unwrap();
        let one_cpu = machine.topology().restrict(&"0".parse().unwrap()).unwrap();
        let simulated = |items| {
            let run =
                Simulation::new(&machine).run(|| item_chains::<Sim>(&one_cpu, items, 1)).unwrap();
            (run.value.unwrap().median_ns, run.summary.accesses)
        };
        let (few, many) = (simulated(1_600), simulated(3_200));
        // One round is measured, and one is not.
        (many.0, (many.1 - few.1) as f64 / 3_200.0)
    };
    let nothing = run(TWO_SOCKETS);
    let computes = "[costs]\ncompute = { ns = 5, source = \"assumed\" }";
    let computing = run(&TWO_SOCKETS.replacen("[costs]", computes, 1));
    let [(before_ns, accesses), (after_ns, same)] = [nothing, computing];
    assert!((accesses - same).abs() < 0.1 && accesses > 5.0, "{accesses}, then {same}");
    let each_ns = (after_ns - before_ns) / accesses;
    // An access to two lines counts as two.
    assert!((4.7..=5.0).contains(&each_ns), "{before_ns} to {after_ns} ns, {accesses} accesses");
}
