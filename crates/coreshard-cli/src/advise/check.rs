//! What a simulated machine of this topology, with a kernel's costs, says of a change of the scope.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use anyhow::Context;
use coreshard_advise::measure::{Measured, MeasuredQueue};
use coreshard_advise::{Facts, Simulated};
use coreshard_bench::{BenchMachine, ScopeComparison, ScopeRatios, SeenLoad};
use coreshard_sim::{Machine, Profile, Simulation};
use coreshard_topology::{Scope, ShardSize};

use crate::bench::DEFAULT_SEEDS;
use crate::bench::simulated::each_alone;
use crate::failure::interrupted;
use crate::machine::MachineArgs;

/// One would do no more than tell of itself: with another one, the beginning is another.
const SEEDS: usize = DEFAULT_SEEDS as usize;

/// The busiest unbound queue, with its load: those that one CPU feeds contend with nobody.
pub(super) fn seen_load<'a>(
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

/// The machine that is simulated: of this one's topology, where it has no costs of its own.
pub(super) fn machine(args: &MachineArgs, facts: &Facts) -> anyhow::Result<Machine> {
    match args.simulated()? {
        Some(machine) => Ok(machine),
        None => Ok(Machine::with_round_costs(facts.topology.clone())?),
    }
}

pub(super) fn against_simulation(
    args: &MachineArgs,
    facts: &Facts,
    measured: Option<&Measured>,
    (from, to): (Scope, Scope),
    items: u64,
) -> anyhow::Result<Simulated> {
    let machine = machine(args, facts)?;
    let topology = machine.topology().clone();
    let bench_machine = BenchMachine::whole(topology.name().to_owned(), "sim", topology);
    let size = facts.workqueues.cache_shard_size.and_then(|size| usize::try_from(size).ok());
    let size = ShardSize::new(size.unwrap_or(ShardSize::DEFAULT.cores()));
    let load = seen_load(facts, measured).map(|(_, load)| load);
    let items = NonZeroU64::new(items).context("no items")?;
    let compared = ScopeComparison::new(&bench_machine, (from, to), size, items, load);
    let simulation = |seed| Simulation::new(&machine).profile(Profile::InKernel).seed(seed);
    let found = each_alone(&bench_machine, compared.benches(), SEEDS, simulation)?;
    let found =
        found.ok_or_else(|| interrupted("interrupted before both scopes were simulated"))?;
    let runs: Vec<ScopeRatios> = found.iter().map(|found| compared.ratios(found)).collect();
    let of = |ratio: fn(&ScopeRatios) -> f64| runs.iter().map(ratio).collect();
    let seen: Option<Vec<f64>> = runs.iter().map(|run| run.seen).collect();
    Ok(Simulated::over_seeds(
        format!("{to} over {from}"),
        items.get(),
        of(|run| run.even),
        of(|run| run.lopsided),
        seen,
    ))
}
