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
    /// Run small programs on random schedules with faults, seed by seed, until one breaks a promise;
    /// or with --kth, let each call of a kind fail in turn
    Search(SearchArgs),
    /// Run one seed of a search again, or one step of a sweep
    Replay(ReplayArgs),
}

#[derive(Debug, clap::Args)]
#[command(mut_arg("machine", |machine| machine.default_value("pocket")))]
struct SearchArgs {
    #[command(flatten)]
    machine: MachineArgs,

    /// How many seeds to try: 1000; with --kth, for each call, 2 (the seed decides the variants, and from 1
    /// on the schedule)
    #[arg(long, value_name = "N", value_parser = many::<u64>)]
    seeds: Option<u64>,

    /// The first of them
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = seed)]
    from: u64,

    /// Let the first call of this kind fail in one run, the second in the next, and so on: start, nice,
    /// affinity, memory, wait, interrupt, wake, cpu-time, thread-state, panic, or all
    #[arg(long, value_name = "KIND")]
    kth: Option<Kind>,

    /// The last call that is to fail; fewer where a program makes no more
    #[arg(long, value_name = "K", default_value_t = 2_000, requires = "kth", value_parser = many::<u64>)]
    up_to: u64,

    /// The programs to sweep, as blocking,scopes; all by default
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "kth")]
    programs: Vec<Scenario>,

    /// How often each program does what it does
    #[arg(long, value_name = "N", default_value_t = 3, requires = "kth", value_parser = whole::<usize, 1, 1_000>)]
    rounds: usize,
}

#[derive(Debug, clap::Args)]
#[command(mut_arg("machine", |machine| machine.default_value("pocket")))]
struct ReplayArgs {
    #[command(flatten)]
    machine: MachineArgs,

    /// The seed, as the search printed it
    #[arg(long, value_name = "SEED")]
    seed: ReplaySeed,

    /// Of a sweep: which calls fail, as it printed them
    #[arg(long, value_name = "CALLS", requires = "program")]
    kth: Option<Kth>,

    /// Of a sweep: the program
    #[arg(long, value_name = "NAME", requires = "kth")]
    program: Option<Scenario>,

    /// Of a sweep: how often the program does what it does
    #[arg(long, value_name = "N", default_value_t = 3, requires = "kth", value_parser = whole::<usize, 1, 1_000>)]
    rounds: usize,

    /// Write what each CPU ran when, for ui.perfetto.dev
    #[arg(long, value_name = "FILE", conflicts_with = "kth")]
    trace: Option<PathBuf>,

    #[command(flatten)]
    force: ForceArgs,
}

/// A trial, and the ledger that it is judged by.
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

/// What was found, and the one line that brings it about again.
fn tell(failure: &Failure, machine: &Machine, name: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    let trial = QueueTrial::of_seed(failure.replay.seed, machine.topology());
    writeln!(text, "seed {} breaks a promise: {failure}", failure.replay.seed)?;
    writeln!(text, "program: {trial}")?;
    writeln!(
        text,
        "to replay it: coreshard sim replay --seed {} --machine {name}",
        failure.replay
    )?;
    Ok(text)
}

/// The machine, and its name as a shell takes it.
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
                bail!("a bug was found, by seed {} of {}", seed - args.from + 1, seeds);
            }
        }
    }
    output::print(&format!(
        "{seeds} seeds from {} on, {} CPUs, {accesses} memory accesses: no promise was broken\n",
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
        // Where it ends early there is no timeline of it, and the failure below says why.
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
            "this is not the run that was printed: its trace is {hash:016x}, not {expected:016x}; the code, \
             or the machine {name}, is another"
        )
    });
    match outcome {
        Ok(summary) => {
            output::print(&format!(
                "seed {seed} breaks no promise: {} ns of virtual time, {} accesses, trace {:016x}\n",
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
            bail!("the seed breaks a promise")
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
