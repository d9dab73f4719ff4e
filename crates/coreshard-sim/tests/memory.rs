//! What memory costs, against a machine's file and against published measurements.

mod machines;
mod programs;

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use coreshard_platform::{AtomicInt, Platform, ThreadHandle};
use coreshard_sim::{Machine, Sim, SimAlloc, Simulation};
use coreshard_topology::CpuId;
use machines::{GRAVITON_1, SKYLAKE, TWO_SOCKETS};
use programs::{Line, ping_pong_ns, pinned};

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

/// Each read-modify-write is a load and a store there, and one whose line was taken between the two does both again.
#[test]
fn nothing_is_lost_where_atomics_are_loads_and_stores_that_fail() {
    const CPUS: u32 = 8;
    const TIMES: u64 = 200;
    let machine = Machine::from_toml("graviton 1", GRAVITON_1).unwrap();
    for seed in 0..4 {
        let run = Simulation::new(&machine).seed(seed).run(|| {
            let line = Arc::new(Line::new());
            let body = |line: Arc<Line>| {
                move || {
                    for _ in 0..TIMES {
                        line.word.fetch_add(1, AcqRel);
                        let mut seen = line.other.load(Relaxed);
                        while let Err(now) =
                            line.other.compare_exchange(seen, seen + 1, AcqRel, Relaxed)
                        {
                            assert_ne!(
                                now, seen,
                                "it was refused although it held what was expected"
                            );
                            seen = now;
                        }
                    }
                }
            };
            let threads: Vec<_> =
                (0..CPUS).map(|cpu| pinned(CpuId(cpu), body(Arc::clone(&line)))).collect();
            threads.into_iter().for_each(ThreadHandle::join);
            [line.word.load(Relaxed), line.other.load(Relaxed)]
        });
        assert_eq!(run.unwrap().value, [u64::from(CPUS) * TIMES; 2]);
    }
}
