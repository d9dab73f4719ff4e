//! `coreshard sim`: searches the workqueue for bugs on a simulated machine, and replays what was found.

mod sweep;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use clap::Subcommand;
use coreshard_bench::{Ledger, QueueTrial, Scenario};
use coreshard_sim::search::{Failure, Plan, ReplaySeed, Subject, attempt};
use coreshard_sim::{Machine, Sim, Summary, View};

use crate::common::{
    Destination, ForceArgs, MachineArgs, many, output, seed, seeds_end, shell_word, whole,
};
use sweep::{Kind, Kth, Step, Sweep};

/// The options of `coreshard sim`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Debug, Subcommand)]
enum SimCommand {
    /// Run random programs and schedules with faults until a seed fails; with --kth, fail each call of a kind in turn
    Search(SearchArgs),
    /// Replay a seed of a search, or a step of a --kth sweep
    Replay(ReplayArgs),
}

#[derive(Debug, clap::Args)]
#[command(mut_arg("machine", |machine| machine.default_value("pocket")))]
struct SearchArgs {
    #[command(flatten)]
    machine: MachineArgs,

    /// Number of seeds; with --kth, for each failing call (seed 0 keeps the default schedule) [default: 1000; with
    /// --kth 2]
    #[arg(long, value_name = "N", value_parser = many::<u64>)]
    seeds: Option<u64>,

    /// First seed
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = seed)]
    from: u64,

    /// Fail the first call of this kind in one run, the second in the next, and so on: start, nice, affinity, memory,
    /// wait, interrupt, wake, cpu-time, thread-state, panic, or all
    #[arg(long, value_name = "KIND")]
    kth: Option<Kind>,

    /// Number of the last call to fail; earlier if a program makes fewer calls
    #[arg(long, value_name = "K", default_value_t = 2_000, requires = "kth", value_parser = many::<u64>)]
    up_to: u64,

    /// Programs to sweep, such as blocking,scopes [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "kth")]
    programs: Vec<Scenario>,

    /// Rounds of each program
    #[arg(long, value_name = "N", default_value_t = 3, requires = "kth", value_parser = whole::<usize, 1, 1_000>)]
    rounds: usize,
}

#[derive(Debug, clap::Args)]
#[command(mut_arg("machine", |machine| machine.default_value("pocket")))]
struct ReplayArgs {
    #[command(flatten)]
    machine: MachineArgs,

    /// Seed, as printed by the search
    #[arg(long, value_name = "SEED")]
    seed: ReplaySeed,

    /// For a sweep: the calls that fail, as printed
    #[arg(long, value_name = "CALLS", requires = "program")]
    kth: Option<Kth>,

    /// For a sweep: the program
    #[arg(long, value_name = "NAME", requires = "kth")]
    program: Option<Scenario>,

    /// For a sweep: rounds of the program
    #[arg(long, value_name = "N", default_value_t = 3, requires = "kth", value_parser = whole::<usize, 1, 1_000>)]
    rounds: usize,

    /// Write a timeline of the tasks on each CPU, for ui.perfetto.dev
    #[arg(long, value_name = "FILE", conflicts_with = "kth")]
    trace: Option<PathBuf>,

    #[command(flatten)]
    force: ForceArgs,
}

/// A trial and its ledger.
struct Trial {
    trial: QueueTrial,
    ledger: Arc<Ledger>,
}

impl Trial {
    fn new(machine: &Machine, seed: u64) -> Self {
        let trial = QueueTrial::of_seed(seed, machine.topology());
        Self { ledger: trial.ledger(), trial }
    }
}

impl Subject for Trial {
    fn run(&self) -> Result<(), String> {
        self.trial.run::<Sim>(&self.ledger)
    }

    fn look(&self, view: &View<'_>) -> Result<(), String> {
        self.ledger.scan(view.now_ns(), view.last_failure_ns(), |cpu| view.idle_ns(cpu))
    }
}

fn try_seed(machine: &Machine, seed: u64) -> Result<Summary, Box<Failure>> {
    attempt(machine, Plan::of_seed(seed), &Trial::new(machine, seed))
}

/// Formats a failure and the command line that reproduces it.
fn tell(failure: &Failure, machine: &Machine, name: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    let trial = QueueTrial::of_seed(failure.replay.seed, machine.topology());
    writeln!(text, "seed {} fails: {failure}", failure.replay.seed)?;
    writeln!(text, "program: {trial}")?;
    writeln!(
        text,
        "to replay it: coreshard sim replay --seed {} --machine {name}",
        failure.replay
    )?;
    Ok(text)
}

/// Returns the machine and its name, quoted for a shell.
fn searched(args: &MachineArgs) -> anyhow::Result<(Machine, String)> {
    let machine = args.must_be_simulated()?;
    Ok((machine, shell_word(args.name())))
}

fn search(args: &SearchArgs) -> anyhow::Result<()> {
    let (machine, name) = searched(&args.machine)?;
    if let Some(kind) = args.kth {
        let scenarios = match args.programs.as_slice() {
            [] => Scenario::ALL.to_vec(),
            some => some.to_vec(),
        };
        let seeds = args.from..seeds_end(args.from, args.seeds.unwrap_or(2))?;
        let sweep = Sweep { kind, up_to: args.up_to, scenarios, rounds: args.rounds, seeds };
        return sweep.run(&machine, &name);
    }
    let seeds = args.seeds.unwrap_or(1_000);
    let mut accesses = 0;
    for seed in args.from..seeds_end(args.from, seeds)? {
        match try_seed(&machine, seed) {
            Ok(summary) => accesses += summary.accesses,
            Err(failure) => {
                output::print(&tell(&failure, &machine, &name)?)?;
                bail!("seed {} of {} found a bug", seed - args.from + 1, seeds);
            }
        }
    }
    output::print(&format!(
        "{seeds} seeds from {} on, {} CPUs, {accesses} memory accesses: no failure\n",
        args.from,
        machine.topology().cpus().len(),
    ))
}

fn replay(args: &ReplayArgs) -> anyhow::Result<()> {
    let (machine, name) = searched(&args.machine)?;
    let ReplaySeed { seed, trace_hash: expected } = args.seed;
    let step = args.program.zip(args.kth).map(|(scenario, kth)| Step {
        scenario,
        rounds: args.rounds,
        seed,
        kth,
    });
    args.force.apply();
    let trace = args.trace.as_deref().map(Destination::open).transpose()?;
    if let Some(file) = trace {
        let trial = Trial::new(&machine, seed);
        let simulation = Plan::of_seed(seed).simulation(&machine).record_timeline(true);
        // A run that ends early has no timeline. The failure is reported below.
        if let Ok(run) = simulation.run(|| trial.run())
            && let Some(timeline) = run.timeline
        {
            file.write(|out| out.write_all(timeline.to_trace_json().as_bytes()))?;
        }
    }
    let outcome = match &step {
        Some(step) => sweep::replay(step, &machine, &name),
        None => try_seed(&machine, seed),
    };
    let hash = match &outcome {
        Ok(summary) => Some(summary.trace_hash),
        Err(failure) => failure.replay.trace_hash,
    };
    let another = expected.zip(hash).filter(|(expected, hash)| expected != hash);
    let another = another.map(|(expected, hash)| {
        format!(
            "this run differs from the printed one: trace {hash:016x}, expected {expected:016x}; the code or the machine {name} has changed"
        )
    });
    match outcome {
        Ok(summary) => {
            output::print(&format!(
                "seed {seed} passes: {} ns of virtual time, {} accesses, trace {:016x}\n",
                summary.virtual_ns, summary.accesses, summary.trace_hash
            ))?;
            another.map_or(Ok(()), |another| Err(anyhow::Error::msg(another)))
        }
        Err(failure) => {
            let text = match &step {
                Some(step) => step.tell(&failure, &name),
                None => tell(&failure, &machine, &name)?,
            };
            output::print(&text)?;
            if let Some(another) = another {
                output::warn(&format!("coreshard: {another}"));
            }
            bail!("the seed fails")
        }
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        SimCommand::Search(args) => search(args),
        SimCommand::Replay(args) => replay(args),
    }
}
