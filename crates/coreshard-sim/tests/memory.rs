//! What memory costs, against a machine's file and against published measurements.

mod machines;
mod programs;

use coreshard_platform::{Platform, ThreadHandle};
use coreshard_sim::{Machine, Sim, SimAlloc, Simulation};
use coreshard_topology::CpuId;
use machines::{SKYLAKE, TWO_SOCKETS};
use programs::{ping_pong_ns, pinned};

testing::watch!();

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
                // Exactly: the clock's nanosecond at each end is all that is left.
                let off = (run.value - expected).abs();
                assert!(off <= 0.0051, "CPUs {one} and {other}: {} not {expected}", run.value);
            }
        }
    }
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
