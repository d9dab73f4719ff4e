//! A process simulates as often as it likes: what a benchmark leaves behind keeps no simulation's addresses.

use std::num::{NonZeroU64, NonZeroUsize};

use coreshard_bench::kernel::{KernelBench, KernelProgram};
use coreshard_bench::{BenchMachine, QueueBench, TuneEffort, Unwatched, tune};
use coreshard_sim::{Machine, Sim, SimAlloc, Simulation};
use coreshard_topology::Scope;

testing::watch!();

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

/// More than there are ranges of addresses for simulations, which are 256.
const MANY: u64 = 1_000;

fn place(machine: &Machine) -> BenchMachine {
    BenchMachine::whole("a machine", "sim", machine.topology().clone())
}

fn one_item() -> QueueBench {
    QueueBench {
        scopes: vec![Scope::Cache],
        items_per_thread: Some(NonZeroU64::MIN),
        runs: NonZeroUsize::MIN,
        ..QueueBench::default()
    }
}

fn leaves_nothing(machine: &Machine, seed: u64, what: &str, program: impl FnOnce()) {
    let run = Simulation::new(machine).seed(seed).run(program).unwrap();
    assert!(!run.left_memory, "{what} leaves memory of its simulation behind");
}

#[test]
fn a_thousand_simulations_of_queues_run_in_one_process() {
    let machine = Machine::pocket();
    let place = place(&machine);
    for seed in 0..MANY {
        let bench = QueueBench { seed, ..one_item() };
        leaves_nothing(&machine, seed, "bench queue", || {
            drop(bench.run::<Sim>(&place, &mut Unwatched).unwrap());
        });
    }
}

#[test]
fn no_benchmark_leaves_memory_of_its_simulation_behind() {
    let machine = Machine::pocket();
    let place = place(&machine);
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
        drop(tune::<Sim>(&place, effort, None, &mut Unwatched).unwrap());
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
