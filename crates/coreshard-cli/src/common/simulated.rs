//! Benchmarks on a simulated machine: the same code in virtual time.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Duration;

use coreshard_bench::{BenchMachine, Progress, QueueBench, Unwatched};
use coreshard_results::QueueResults;
use coreshard_sim::{Machine, Profile, Run, Sim, SimError, Simulation, Summary};

use super::number::{seed, sum_of};
use super::progress::{Bar, interrupts};
use super::seeds::side_by_side;

/// Threads that check periodically whether they are still needed exit within this time.
pub(crate) const SETTLE: Duration = Duration::from_secs(1);

/// The options of a simulation.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct SimArgs {
    /// Simulate the machine in virtual time; only bench queue needs this option
    #[arg(long, requires = "machine")]
    pub(crate) sim: bool,

    /// Seed of the simulation; equal seeds give equal results [default: 0]
    #[arg(long, value_name = "N", requires = "machine", value_parser = seed)]
    seed: Option<u64>,

    /// Costs to apply: futex (a program on that machine) or in-kernel (no system calls, queued spin locks) [default:
    /// futex; bench block: in-kernel]
    #[arg(long, value_name = "PROFILE", requires = "machine")]
    pub(crate) costs: Option<Profile>,
}

impl SimArgs {
    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    pub(crate) fn costs(&self) -> Profile {
        self.costs.unwrap_or(Profile::Futex)
    }

    /// Returns an option that needs a simulation, if one was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        self.seed.map(|_| "--seed").or(self.costs.map(|_| "--costs"))
    }

    /// Creates a simulation of the machine with these options.
    pub(crate) fn simulation<'machine>(&self, machine: &'machine Machine) -> Simulation<'machine> {
        Simulation::new(machine).seed(self.seed()).profile(self.costs()).settle(SETTLE)
    }

    /// Describes simulations with one seed, for readers of the results. `runs` must not be empty.
    pub(crate) fn note(&self, runs: &[Summary]) -> String {
        note(self.costs(), runs)
    }
}

/// Lets Ctrl-C and SIGTERM end the simulation.
pub(crate) fn stoppable(simulation: Simulation<'_>) -> Simulation<'_> {
    simulation.stop_when(interrupts())
}

/// Runs `program` in the simulation. Returns `None` if Ctrl-C or SIGTERM ended it.
pub(crate) fn unless_interrupted<R>(
    simulation: Simulation<'_>,
    program: impl FnOnce() -> R,
) -> Option<Result<Run<R>, SimError>> {
    unless_stopped(stoppable(simulation).run(program))
}

/// Returns `None` for a run that Ctrl-C or SIGTERM ended.
pub(crate) fn unless_stopped<R>(run: Result<R, SimError>) -> Option<Result<R, SimError>> {
    match run {
        Err(SimError::Stopped) => None,
        done => Some(done),
    }
}

/// Runs each benchmark with each seed, each in its own simulation. Returns the results by seed, then by benchmark, or
/// `None` after an interrupt.
pub(crate) fn each_alone<'machine>(
    place: &BenchMachine,
    benches: &[QueueBench],
    seeds: usize,
    simulation: impl Fn(u64) -> Simulation<'machine> + Sync,
) -> anyhow::Result<Option<Vec<Vec<QueueResults>>>> {
    let bar = Mutex::new(Bar::new()?);
    bar.lock().expect("no holder panics").begin(benches.len() * seeds);
    let runs = side_by_side(benches.len() * seeds, |at| {
        let (seed, bench) = (at / benches.len(), &benches[at % benches.len()]);
        let what = format!("{}, seed {seed}", bench.scopes[0]);
        if bar.lock().expect("no holder panics").step(&what) == ControlFlow::Break(()) {
            return Ok(None);
        }
        let run = || bench.run::<Sim>(place, &mut Unwatched);
        match unless_interrupted(simulation(seed as u64), run) {
            Some(run) => anyhow::Ok(Some(taken_out(run?).value?)),
            None => Ok(None),
        }
    });
    let found: Option<Vec<QueueResults>> = runs.into_iter().collect::<anyhow::Result<_>>()?;
    Ok(found.map(|found| found.chunks(benches.len()).map(<[_]>::to_vec).collect()))
}

/// Clones the results out of the simulation's memory, which is freed only as a whole.
pub(crate) fn taken_out<R: Clone, E>(run: Run<Result<R, E>>) -> Run<Result<R, E>> {
    run.map(|found| found.map(|results| R::clone(&results)))
}

/// Describes simulations with these costs and one seed, for readers of the results. `runs` must not be empty.
pub(crate) fn note(costs: Profile, runs: &[Summary]) -> String {
    let seed = runs[0].seed;
    let virtual_ns: u64 = runs.iter().map(|run| run.virtual_ns).sum();
    let traces = match runs {
        [one] => format!("trace {:016x}", one.trace_hash),
        several => format!(
            "{} simulations, traces {:016x}",
            several.len(),
            sum_of(several.iter().map(|run| run.trace_hash))
        ),
    };
    format!("simulated: costs {costs}, seed {seed}, {virtual_ns} ns of virtual time, {traces}")
}

/// The progress of several simulations at once.
pub(crate) struct Shared<'bar> {
    pub(crate) bar: &'bar Mutex<Bar>,
    pub(crate) simulations: usize,
}

impl Shared<'_> {
    fn with<R>(&self, act: impl FnOnce(&mut Bar) -> R) -> R {
        Sim::outside(|| act(&mut self.bar.lock().expect("no holder panics")))
    }
}

impl Progress for Shared<'_> {
    fn begin(&mut self, steps: usize) {
        let all = steps * self.simulations;
        self.with(|bar| bar.begin(all));
    }

    fn step(&mut self, what: &dyn fmt::Display) -> ControlFlow<()> {
        self.with(|bar| bar.step(what))
    }
}
