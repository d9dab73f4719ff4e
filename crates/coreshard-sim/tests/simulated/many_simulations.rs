//! A process may run any number of simulations: a finished benchmark keeps no simulation's addresses.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use coreshard_bench::kernel::{KernelBench, KernelProgram};
use coreshard_bench::{BenchMachine, QueueBench, TuneEffort, TuneLoad, Unwatched, tune};
use coreshard_platform::{Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::{Machine, Sim, Simulation};
use coreshard_topology::Scope;
use coreshard_workqueue::{Intake, Wake};

/// More than the 256 address ranges for simulations.
const MANY: u64 = 1_000;

/// A runtime's monitor checks several times a second whether it is still needed.
const SETTLE: Duration = Duration::from_secs(1);

fn place(machine: &Machine, cpus: usize) -> BenchMachine {
    let topology = machine.topology().clone();
    let usable = topology.online().iter().take(cpus).collect();
    BenchMachine { usable, ..BenchMachine::whole("a machine", "sim", topology) }
}

fn one_item() -> QueueBench {
    QueueBench {
        scopes: vec![Scope::Cache],
        wakes: vec![Wake::UnderLock],
        intakes: vec![Intake::Locked],
        items_per_thread: Some(NonZeroU64::MIN),
        runs: NonZeroUsize::MIN,
        ..QueueBench::default()
    }
}

fn leaves_nothing(machine: &Machine, seed: u64, what: &str, program: impl FnOnce()) {
    let simulation = Simulation::new(machine).seed(seed).settle(SETTLE);
    let run = simulation.run(program).unwrap();
    assert!(!run.left_memory, "{what} leaves memory of its simulation behind, seed {seed}");
}

#[test]
fn a_thousand_simulations_of_queues_run_in_one_process() {
    testing::own_process!();
    let machine = Machine::pocket();
    let place = place(&machine, 2);
    for seed in 0..MANY {
        let bench = QueueBench { seed, ..one_item() };
        leaves_nothing(&machine, seed, "bench queue", || {
            drop(bench.run::<Sim>(&place, &mut Unwatched).unwrap());
        });
    }
}

#[test]
fn no_benchmark_leaves_memory_of_its_simulation_behind() {
    testing::own_process!();
    let machine = Machine::pocket();
    let place = place(&machine, 8);
    let flood = QueueBench {
        outstanding: NonZeroU64::new(4),
        items_per_thread: NonZeroU64::new(200),
        ..one_item()
    };
    leaves_nothing(&machine, 1, "bench queue --outstanding", || {
        drop(flood.run::<Sim>(&place, &mut Unwatched).unwrap());
    });
    leaves_nothing(&machine, 1, "tune", || {
        let effort = TuneEffort { rounds: 1, items: 2 };
        drop(tune::<Sim>(&place, effort, TuneLoad::Unknown, &mut Unwatched).unwrap());
    });
    for program in KernelProgram::ALL {
        for case in KernelBench::cases(program) {
            let bench = KernelBench { operations: 2, ..KernelBench::default() };
            leaves_nothing(&machine, 1, &case.to_string(), || {
                bench.run::<Sim>(&place, &case).unwrap();
            });
        }
    }
}

/// While any allocation is in a simulation's memory, all of its addresses stay reserved.
#[test]
fn what_is_copied_out_of_a_thousand_simulations_can_be_kept() {
    testing::own_process!();
    let machine = Machine::pocket();
    let copy = |seed: u64| {
        let run = Simulation::new(&machine).seed(seed).run(|| vec![seed]).unwrap();
        run.map(|inside| inside.clone()).value
    };
    let kept: Vec<Vec<u64>> = (0..MANY).map(copy).collect();
    assert!(kept.iter().zip(0..).all(|(found, seed)| *found == [seed]));
}

/// Each stack would be two mappings of the process, which may have at most 65,530.
#[test]
fn a_value_that_stays_keeps_no_stacks() {
    testing::own_process!();
    const THREADS: usize = 200;
    let machine = Machine::pocket();
    let run = Simulation::new(&machine).run(|| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                Sim::spawn(ThreadSpec::default(), Box::new(|| Sim::sleep(Duration::from_millis(9))))
                    .unwrap()
            })
            .collect();
        threads.into_iter().for_each(ThreadHandle::join);
        vec![1_u8]
    });
    let run = run.unwrap();
    assert!(run.left_memory, "the value is in it");
    // 32 GiB for each, at a multiple of that.
    let arena = run.value.as_ptr().addr() >> 35;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let start = |line: &str| usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
    let mappings = maps.lines().filter(|line| start(line) >> 35 == arena).count();
    assert!((1..=4).contains(&mappings), "{mappings} mappings");
}
