//! One benchmark of the queue on a simulated machine.

use std::num::{NonZeroU64, NonZeroUsize};

use coreshard_bench::{BenchError, BenchMachine, QueueBench, Unwatched};
use coreshard_sim::{Machine, Run, Sim, SimError, Simulation};

/// Runs a benchmark on the first CPUs of a machine, once for each combination of its variants. Returns how many results it has.
pub(crate) fn run_bench(
    simulation: &Simulation<'_>,
    machine: &Machine,
    cpus: usize,
    items: u64,
    bench: QueueBench,
) -> Result<Run<Result<usize, BenchError>>, SimError> {
    let topology = machine.topology().clone();
    let usable = topology.online().iter().take(cpus).collect();
    let place = BenchMachine { usable, ..BenchMachine::whole("a machine", "sim", topology) };
    let items_per_thread = NonZeroU64::new(items);
    let bench = QueueBench { items_per_thread, runs: NonZeroUsize::MIN, ..bench };
    simulation.run(|| Ok(bench.run::<Sim>(&place, &mut Unwatched)?.results.len()))
}
