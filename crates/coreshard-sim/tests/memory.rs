//! What memory costs, against a machine's file and against published measurements.

mod machines;
mod programs;

use coreshard_platform::{Platform, ThreadHandle};
use coreshard_sim::{Machine, Sim, SimAlloc, Simulation};
use coreshard_topology::CpuId;
use machines::{SKYLAKE, TWO_SOCKETS};
use programs::{ping_pong_ns, pinned};

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

#[test]
fn ping_pong_between_any_two_cpus_takes_the_files_latency_exactly() {
    let machine = Machine::from_toml("two sockets", TWO_SOCKETS).unwrap();
    let cpus: Vec<CpuId> = machine.topology().cpus().iter().map(|cpu| cpu.id).collect();
    for one in &cpus {
        for other in cpus.iter().filter(|other| *other != one) {
            let expected = machine.latency_ns(*one, *other).unwrap();
            for seed in 0..2 {
                let simulation = Simulation::new(&machine).seed(seed);
                let run = simulation.run(|| ping_pong_ns(*one, *other)).unwrap();
                assert_eq!(run.value, expected, "CPUs {one} and {other}");
            }
        }
    }
}

/// Published for four cores of a Skylake, in nanoseconds per operation and thread: two, three and
/// four threads. The transfer latency of 20 ns is the only figure of the machine's file that these
/// are not allowed to have any part in.
#[test]
fn contended_operations_take_what_was_published() {
    let machine = Machine::from_toml("skylake", SKYLAKE).unwrap();
    let rows: [(&str, programs::Operation, [f64; 3]); 4] = [
        ("atomic add", programs::add, [44.0, 70.0, 96.0]),
        ("compare-exchange loop", programs::compare_exchange_loop, [109.0, 227.0, 347.0]),
        ("ticket lock", programs::ticket_lock, [215.0, 346.0, 489.0]),
        ("mutex", programs::mutex, [125.0, 178.0, 276.0]),
    ];
    let mut wrong = Vec::new();
    for (name, operation, published) in rows {
        for (threads, published) in (2..).zip(published) {
            let simulation = Simulation::new(&machine).seed(1);
            let run = simulation.run(|| programs::contended_ns(threads, operation)).unwrap();
            let off = run.value / published - 1.0;
            println!("{name}, {threads} threads: {:.1} ns, published {published}", run.value);
            if off.abs() > 0.2 {
                wrong.push(format!("{name}, {threads} threads: {:+.0} %", off * 100.0));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn an_uncontended_operation_costs_what_the_file_says() {
    let machine = Machine::from_toml("skylake", SKYLAKE).unwrap();
    let run = Simulation::new(&machine).run(|| programs::contended_ns(1, programs::add)).unwrap();
    assert!((6.0..=8.0).contains(&run.value), "{}", run.value);
    pinned_threads_stay_where_they_are(&machine);
}

fn pinned_threads_stay_where_they_are(machine: &Machine) {
    let run = Simulation::new(machine).run(|| {
        pinned(CpuId(2), || assert_eq!(Sim::current_cpu(), CpuId(2))).join();
    });
    assert_eq!(run.unwrap().summary.threads, 2);
}
