//! `coreshard bench rt index`.

use std::num::{NonZeroU64, NonZeroUsize};

use anyhow::{Context, bail};
use coreshard::Host;
use coreshard_bench::rt::IndexBench;
use coreshard_bench::{Unwatched, index_over_seeds};
use coreshard_report::rt as report;
use coreshard_results::IndexResults;
use coreshard_rt::Rung;
use coreshard_sim::Sim;

use super::options::{Simulations, WhereArgs};
use crate::common::{
    Bar, PageArgs, PageOutput, bail_input, few, many, or_all, output, variant, whole,
};

/// Default rounds of a simulated thread.
const SIMULATED_ROUNDS: NonZeroU64 = NonZeroU64::new(100).expect("it is not 0");

/// The options of `coreshard bench rt index`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Variants to compare: packed, padded, split, per-llc [default: all]
    #[arg(long, alias = "rungs", value_name = "LIST", value_delimiter = ',', value_parser = variant::<Rung>)]
    variants: Vec<Rung>,

    /// Threads, one for each of the first CPUs [default: all CPUs]
    #[arg(long, value_name = "N", value_parser = few)]
    threads: Option<NonZeroUsize>,

    /// Set and search operations per thread and run [default: 200000, simulated 100]
    #[arg(long, value_name = "N", value_parser = many::<NonZeroU64>)]
    rounds: Option<NonZeroU64>,

    /// Search within groups of N neighbouring CPUs, as programs pinned to some CPUs do [default: all CPUs]
    #[arg(long, value_name = "N", value_parser = few)]
    group: Option<NonZeroUsize>,

    /// Runs of each variant, interleaved [default: 7, simulated 1 per seed]
    #[arg(long, value_name = "N", value_parser = whole::<NonZeroUsize, 1, 10_000>)]
    runs: Option<NonZeroUsize>,

    #[command(flatten)]
    place: WhereArgs,

    #[command(flatten)]
    output: PageArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let defaults = IndexBench::default();
    let variants = or_all(&args.variants, &Rung::ALL);
    let chosen = args.place.chosen()?;
    chosen.has("--threads", args.threads)?;
    chosen.has("--group", args.group)?;
    let Some(machine) = &chosen.machine else {
        let notes = chosen.notes_here();
        let bench = IndexBench {
            variants,
            threads: args.threads,
            rounds: args.rounds.unwrap_or(defaults.rounds),
            group: args.group,
            runs: args.runs.unwrap_or(defaults.runs),
            seed: 0,
        };
        let output = args.output.open()?;
        let mut results = bench.run::<Host>(&chosen.bench_machine, &mut Bar::new()?)?;
        results.notes.splice(0..0, notes);
        return finish(output, &results, &[]);
    };
    if args.place.c2c.is_some() && variants.len() > 1 {
        bail_input!("--c2c shows one variant: expected one in --variants");
    }
    let output = args.output.open()?;
    let run = |variant: &Rung, seed| {
        let bench = IndexBench {
            variants: vec![*variant],
            threads: args.threads,
            rounds: args.rounds.unwrap_or(SIMULATED_ROUNDS),
            group: args.group,
            runs: args.runs.unwrap_or(NonZeroUsize::MIN),
            seed,
        };
        bench.run::<Sim>(&chosen.bench_machine, &mut Unwatched)
    };
    let variants: Vec<Rung> =
        Rung::ALL.into_iter().filter(|variant| variants.contains(variant)).collect();
    let Simulations { found, notes, lines } = args.place.simulate(machine, &variants, run)?;
    let mut results = index_over_seeds(&found).context("nothing was measured")?;
    results.notes.splice(0..0, notes);
    finish(output, &results, &lines)
}

fn finish(output: PageOutput, results: &IndexResults, lines: &[String]) -> anyhow::Result<()> {
    if results.results.is_empty() {
        bail!("nothing was measured");
    }
    let is_stdout = output.is_stdout();
    output.write(results, report::index(results, output::columns()), || {
        report::index_page(results)
    })?;
    lines.iter().try_for_each(|lines| output::print_beside(lines, is_stdout))
}
