//! The lines for a program that links Coreshard: the scope and the size of shards that suit this topology, by simulation, under the
//! measured load where one was measured.

use coreshard_advise::measure::Measured;
use coreshard_advise::{Facts, emit};
use coreshard_bench::{BenchMachine, TuneLoad};
use coreshard_sim::Simulation;
use coreshard_topology::Scope;

use super::check::{machine, seen_load};
use crate::bench::DEFAULT_SEEDS;
use crate::failure::interrupted;
use crate::machine::MachineArgs;
use crate::tune::over_seeds;

/// The library's own default, where nothing is simulated.
pub(super) fn by_default() -> String {
    emit::builder(Scope::CacheShard, Some(8), "the library's default: nothing was simulated")
}

/// What suits the load best.
pub(super) fn tuned(
    args: &MachineArgs,
    facts: &Facts,
    measured: Option<&Measured>,
    items: u64,
) -> anyhow::Result<String> {
    let machine = machine(args, facts)?;
    let topology = machine.topology().clone();
    let bench_machine = BenchMachine::whole(topology.name().to_owned(), "sim", topology);
    let busiest = seen_load(facts, measured);
    let load = busiest.map_or(TuneLoad::Unknown, |(_, load)| TuneLoad::Seen(load));
    let simulation = |seed| Simulation::new(&machine).seed(seed);
    let tuning = over_seeds(&bench_machine, DEFAULT_SEEDS, items, load, simulation)?
        .ok_or_else(|| interrupted("interrupted before every candidate had its turn"))?;
    let best = tuning.recommended();
    let worth = format!(
        "under the less suitable of two loads (every CPU queues and waits; one CPU queues bursts) it has {:.0} % of the best one's throughput; the best under the first alone is {}, under the second {}; {} of {} seeds find the same",
        best.worth * 100.0,
        tuning.fastest(|it| it.even),
        tuning.fastest(|it| it.lopsided),
        tuning.agreeing,
        tuning.rounds
    );
    let reason = match busiest {
        Some((queue, load)) => format!(
            "simulated on this topology, with {} CPUs that queue items of {} µs, as the queue {} was measured to: of {} layouts none is more than 3 % faster; {worth}",
            load.producers,
            load.item_work.as_micros(),
            queue.name,
            tuning.candidates.len()
        ),
        None => format!(
            "simulated on this topology, of {} layouts; no load was measured (--seconds): {worth}",
            tuning.candidates.len()
        ),
    };
    Ok(emit::builder(best.scope.parse()?, best.shard_cores, &reason))
}
