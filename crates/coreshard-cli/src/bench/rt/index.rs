//! `coreshard bench rt index`.

use std::num::{NonZeroU64, NonZeroUsize};

use anyhow::{Context, bail};
use coreshard::Host;
use coreshard_bench::rt::IndexBench;
use coreshard_report::rt as table;
use coreshard_rt::Rung;
use coreshard_sim::Sim;

use super::super::queue::rung;
use super::{Bar, OutputArgs, Outside, WhereArgs, first_cpus, here, simulated};
use crate::output;

/// The rounds of a simulated thread, and the runs, where nothing else is asked for.
const SIMULATED_ROUNDS: NonZeroU64 = NonZeroU64::new(100).expect("it is not 0");

/// The options of `coreshard bench rt index`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Rungs: packed, padded, split, per-llc [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = rung::<Rung>)]
    rungs: Vec<Rung>,

    /// Threads, one for each of the first CPUs [default: all CPUs]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// How often each thread sets and searches in a run [default: 200000, simulated 100]
    #[arg(long, value_name = "N")]
    rounds: Option<NonZeroU64>,

    /// Search among N neighbouring CPUs, as programs do that are pinned to some [default: all CPUs]
    #[arg(long, value_name = "N")]
    group: Option<NonZeroUsize>,

    /// Runs of each rung, interleaved [default: 7, simulated 1]
    #[arg(long, value_name = "N")]
    runs: Option<NonZeroUsize>,

    /// Use the first N CPUs alone
    #[arg(long, value_name = "N")]
    cpus: Option<NonZeroUsize>,

    /// Show N of the lines that CPUs take from one another, of the last rung alone
    #[arg(long, value_name = "N", requires = "machine")]
    c2c: Option<usize>,

    #[command(flatten)]
    place: WhereArgs,

    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let defaults = IndexBench::default();
    let rungs = if args.rungs.is_empty() { Rung::ALL.to_vec() } else { args.rungs.clone() };
    let cpus = args.cpus.map(NonZeroUsize::get);
    let Some(machine) = args.place.simulated()? else {
        let (ground, notes) = here()?;
        let bench = IndexBench {
            rungs,
            threads: args.threads,
            rounds: args.rounds.unwrap_or(defaults.rounds),
            group: args.group,
            runs: args.runs.unwrap_or(defaults.runs),
            seed: 0,
        };
        let file = args.output.open()?;
        let mut bar = Bar::new()?;
        let mut results = bench.run::<Host>(&first_cpus(ground, cpus)?, &mut bar)?;
        drop(bar);
        results.notes.splice(0..0, notes);
        return finish(args, file, &results);
    };
    if args.c2c.is_some() && rungs.len() > 1 {
        bail!("the lines of one rung can be shown at a time: give one with --rungs");
    }
    let bench = IndexBench {
        rungs,
        threads: args.threads,
        rounds: args.rounds.unwrap_or(SIMULATED_ROUNDS),
        group: args.group,
        runs: args.runs.unwrap_or(NonZeroUsize::MIN),
        seed: args.place.seed,
    };
    let file = args.output.open()?;
    let bar = Bar::new()?;
    let ground = first_cpus(simulated::ground(&machine), cpus)?;
    let simulation = args.place.simulation(&machine).record_lines(args.c2c.is_some());
    let run = simulation.run(|| bench.run::<Sim>(&ground, &mut Outside(bar)))?;
    let note = args.place.note(&run);
    let mut results = run.value?;
    results.notes.insert(0, note);
    finish(args, file, &results)?;
    if let Some(lines) = args.c2c {
        let mut report = run.lines.context("the simulation has recorded no lines")?;
        report.lines.truncate(lines);
        output::print(&report.to_string())?;
    }
    Ok(())
}

fn finish(
    args: &Args,
    file: Option<super::Destination>,
    results: &coreshard_bench::rt::IndexResults,
) -> anyhow::Result<()> {
    if results.results.is_empty() {
        bail!("nothing was measured");
    }
    args.output.write(file, results, &table::index(results))
}
