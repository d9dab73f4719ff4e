//! Simulations for advice: a scope change with kernel costs, and pools for a program.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use anyhow::Context;
use coreshard_advise::measure::{Measured, MeasuredQueue};
use coreshard_advise::{Facts, Simulated, emit};
use coreshard_bench::{BenchMachine, ScopeComparison, ScopeRatios, SeenLoad, TuneLoad};
use coreshard_sim::{Machine, Profile, Simulation};
use coreshard_topology::{Scope, ShardSize};

use crate::common::{DEFAULT_SEEDS, MachineArgs, each_alone, interrupted};
use crate::tune::over_seeds;

/// The machine to simulate, and the measured load of the real one.
pub(super) struct SimulatedMachine<'a> {
    machine: Machine,
    bench_machine: BenchMachine,
    facts: &'a Facts,
    busiest: Option<(&'a MeasuredQueue, SeenLoad)>,
}

impl<'a> SimulatedMachine<'a> {
    /// Uses this machine's topology if no machine with costs was chosen.
    pub(super) fn new(
        args: &MachineArgs,
        facts: &'a Facts,
        measured: Option<&'a Measured>,
    ) -> anyhow::Result<Self> {
        let machine = match args.simulated()? {
            Some(machine) => machine,
            None => Machine::with_round_costs(facts.topology.clone())?,
        };
        let topology = machine.topology().clone();
        let bench_machine = BenchMachine::whole(topology.name().to_owned(), "sim", topology);
        Ok(Self { machine, bench_machine, facts, busiest: busiest(facts, measured) })
    }

    /// Simulates a change of the scope.
    pub(super) fn compare(
        &self,
        (from, to): (Scope, Scope),
        items: u64,
    ) -> anyhow::Result<Simulated> {
        let size = self.facts.workqueues.cache_shard_size;
        let size = size.and_then(|size| usize::try_from(size).ok());
        let size = ShardSize::new(size.unwrap_or(ShardSize::DEFAULT.cores()));
        let load = self.busiest.map(|(_, load)| load);
        let items = NonZeroU64::new(items).context("no items")?;
        let compared = ScopeComparison::new(&self.bench_machine, (from, to), size, items, load);
        let simulation =
            |seed| Simulation::new(&self.machine).profile(Profile::InKernel).seed(seed);
        // Results of one seed depend on its initial state.
        let seeds = DEFAULT_SEEDS as usize;
        let found = each_alone(&self.bench_machine, compared.benches(), seeds, simulation)?
            .ok_or_else(|| interrupted("interrupted before both scopes were simulated"))?;
        let runs: Vec<ScopeRatios> = found.iter().map(|found| compared.ratios(found)).collect();
        let of = |ratio: fn(&ScopeRatios) -> f64| runs.iter().map(ratio).collect();
        Ok(Simulated::over_seeds(
            format!("{to} over {from}"),
            items.get(),
            of(|run| run.even),
            of(|run| run.lopsided),
            runs.iter().map(|run| run.seen).collect(),
        ))
    }

    /// Returns the builder calls for a program that links Coreshard: the scope and shard size for this topology and, if
    /// measured, its load.
    pub(super) fn builder(&self, items: u64) -> anyhow::Result<String> {
        let load = self.busiest.map_or(TuneLoad::Unknown, |(_, load)| TuneLoad::Seen(load));
        let simulation = |seed| Simulation::new(&self.machine).seed(seed);
        let tuning = over_seeds(&self.bench_machine, DEFAULT_SEEDS, items, load, simulation)?
            .ok_or_else(|| interrupted("interrupted before all candidates ran"))?;
        let best = tuning.recommended();
        let candidates = tuning.candidates.len();
        let worth = format!(
            "under the worse of two loads (every CPU queues and waits; one CPU queues bursts) it reaches {:.0} % of the best throughput; the best under the first is {}, under the second {}; {} of {} seeds agree",
            best.worth * 100.0,
            tuning.fastest(|it| it.even),
            tuning.fastest(|it| it.lopsided),
            tuning.agreeing,
            tuning.rounds
        );
        let reason = match self.busiest {
            Some((queue, load)) => format!(
                "simulated on this topology, with {} CPUs that queue items of {} µs, as measured for the queue {}: none of {candidates} layouts is more than 3 % faster; {worth}",
                load.producers,
                load.item_work.as_micros(),
                queue.name,
            ),
            None => format!(
                "simulated on this topology, with {candidates} layouts and without a measured load (--seconds): {worth}"
            ),
        };
        Ok(emit::builder(best.scope.parse()?, best.shard_cores, &reason))
    }
}

/// Returns the busiest unbound queue with several producers, and its load. A queue with one producer has no contention.
fn busiest<'a>(
    facts: &Facts,
    measured: Option<&'a Measured>,
) -> Option<(&'a MeasuredQueue, SeenLoad)> {
    let is_unbound = |queue: &MeasuredQueue| {
        let known = facts.workqueues.queues.iter().find(|it| it.name == queue.name);
        queue.per_cpu.or(known.and_then(|it| it.per_cpu)) != Some(true)
    };
    let busiest = measured?.queues.iter().find(|queue| queue.producers > 1 && is_unbound(queue))?;
    let load = SeenLoad {
        producers: NonZeroUsize::new(busiest.producers)?,
        item_work: Duration::from_micros(busiest.run.p50_us),
    };
    Some((busiest, load))
}
