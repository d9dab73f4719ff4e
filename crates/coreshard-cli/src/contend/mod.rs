//! `coreshard contend`: predicts a contention that is described in a few lines, and what each remedy would give.

mod here;
mod picture;
mod questions;
mod report;
mod simulated;
mod text;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use coreshard_sim::Placement;
use coreshard_sim::contend::{Contention, Outside, Pinning, thread_counts};
use coreshard_topology::input;

use crate::common::{JsonArgs, MachineArgs, SeedsArgs, bad_input, bail_input, counted, few, seed};
use crate::replay::time;
use here::{Here, RUNS};
use report::Report;
use simulated::Simulated;

/// Shown after the help.
const EXAMPLE: &str = "\
A description:
  lines = [[\"lock\", \"head\"]]      words that share a line; others lie alone
  per_thread = [\"hits\"]           words of which each thread has its own
  outside_ns = 300                time between two rounds, or outside_share
  placement = \"unpinned\"          or spread, compact, a list of CPUs
  threads = [1, 2, 4, 8]          without it, up to all CPUs
  steps = [
    { spin-lock = \"lock\", writes = [\"head\"], inside_ns = 40 },
    { add = \"hits\", every = 8 },
  ]
Steps: load, store, add, cas, spin-lock, ticket-lock, queue-lock, mutex,
read-lock, write-lock, combine. Keys of a step: reads, writes, inside_ns (of a
lock's holder), retry (at-once, pause, back-off), every.";

/// The options of `coreshard contend`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Description of the contention, in TOML
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    machine: MachineArgs,

    /// Models to ask, with --machine; the queueing model alone takes milliseconds [default: both]
    #[arg(long, value_name = "MODEL", value_enum)]
    model: Option<Model>,

    /// Numbers of threads, such as 1,2,4,8 [default: the file's, or up to all CPUs]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = few)]
    threads: Vec<NonZeroUsize>,

    /// Seed of the simulation, with --machine; equal seeds give equal results [default: 0]
    #[arg(long, value_name = "N", value_parser = seed)]
    seed: Option<u64>,

    #[command(flatten)]
    seeds: SeedsArgs,

    #[command(flatten)]
    json: JsonArgs,

    /// Draw throughput and time by the number of threads, and the remedies
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The models to ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Model {
    /// Both, with their disagreement as the error
    #[default]
    Both,
    /// The simulated machine
    Simulator,
    /// A closed queueing network
    Queueing,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let contention = Contention::from_file(&args.file).map_err(bad_input)?;
    let machine = args.machine.simulated()?;
    if machine.is_none() {
        let given = [("--model", args.model.is_some()), ("--seed", args.seed.is_some())];
        if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            bail_input!(
                "{option} is about a simulated machine, and this one is measured: expected --machine as well"
            );
        }
    }
    let (json, [svg]) = args.json.open_beside([args.svg.as_deref()])?;
    json.is_not(&args.file)?;
    svg.iter().try_for_each(|file| file.is_not(&args.file))?;
    let asked = asked(args, &contention);
    let report = match &machine {
        Some(machine) => {
            let name = args.machine.bench_machine(machine).name;
            let threads = threads(asked, contention.cpus(machine).len(), &name)?;
            let model = args.model.unwrap_or_default();
            let models = Simulated {
                machine,
                simulates: model != Model::Queueing,
                queues: model != Model::Simulator,
                seeds: args.seeds.from(args.seed.unwrap_or(0))?,
            };
            let runs = if models.simulates { models.seeds.len() } else { 0 };
            let report =
                questions::report(&contention, &threads, |questions| models.ask(questions))?;
            Report { machine: name, platform: "sim", runs, ..report }
        }
        None => {
            let here = Here::read(&contention)?;
            let threads = here.threads(asked)?;
            let report = questions::report(&contention, &threads, |questions| here.ask(questions))?;
            let notes = [here.notes, report.notes].concat();
            Report { machine: here.name, platform: "host", runs: RUNS, notes, ..report }
        }
    };
    let (title, setting) = (title(args, &contention), setting(&contention));
    let report = Report { title, setting, ..report };
    if let Some(file) = svg {
        file.write(|out| out.write_all(picture::picture(&report).as_bytes()))?;
    }
    json.print(&report, || text::text(&report))
}

fn title(args: &Args, contention: &Contention) -> String {
    if !contention.title.is_empty() {
        return contention.title.clone();
    }
    input::plain(&args.file.file_stem().unwrap_or_default().to_string_lossy())
}

/// Returns the numbers of threads that were asked for, or those that suit a machine with this many CPUs for them.
fn threads(asked: Option<Vec<usize>>, most: usize, machine: &str) -> anyhow::Result<Vec<usize>> {
    if most == 0 {
        bail_input!("invalid placement: {machine} has none of these CPUs");
    }
    let counts = asked.unwrap_or_else(|| thread_counts(most));
    match counts.iter().find(|threads| **threads > most) {
        Some(threads) => bail_input!(
            "invalid number of threads {threads}: expected at most {most}, one for each CPU of {machine}"
        ),
        None => Ok(counts),
    }
}

/// Returns the numbers of threads of the option or of the file.
fn asked(args: &Args, contention: &Contention) -> Option<Vec<usize>> {
    if args.threads.is_empty() {
        return contention.threads.clone();
    }
    let mut counts: Vec<_> = args.threads.iter().map(|threads| threads.get()).collect();
    counts.sort_unstable();
    counts.dedup();
    Some(counts)
}

/// Describes the threads' time outside, and their CPUs.
fn setting(contention: &Contention) -> String {
    let placement = match &contention.pinning {
        Pinning::Unpinned => "unpinned".to_owned(),
        Pinning::Pinned(Placement::Spread) => "spread".to_owned(),
        Pinning::Pinned(Placement::Compact) => "compact".to_owned(),
        Pinning::Pinned(Placement::List(cpus)) => {
            format!("on {}", counted(cpus.len(), "listed CPU"))
        }
    };
    let outside = match contention.outside {
        Outside::Ns(ns) => format!("{} outside", time(ns)),
        Outside::Share(least, most) => {
            let percent = |share: f64| format!("{:.0}", share * 100.0);
            let range = if least == most {
                percent(least)
            } else {
                format!("{} to {}", percent(least), percent(most))
            };
            format!("{range} % of a lone thread's time outside")
        }
    };
    format!("threads {placement}, {outside}")
}
