//! `coreshard bench rt pi`.

use std::num::{NonZeroU64, NonZeroUsize};

use coreshard::Host;
use coreshard_bench::rt::{Footing, PiBench};
use coreshard_report::rt as report;
use coreshard_sim::Sim;

use super::{FootingArgs, OutputArgs, WhereArgs, each_rung};

/// The options of `coreshard bench rt pi`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Groups of three tasks, one for each of the first CPUs [default: all CPUs]
    #[arg(long, value_name = "N")]
    groups: Option<NonZeroUsize>,

    /// Inversions of each group
    #[arg(long, value_name = "N", default_value = "2000")]
    rounds: NonZeroU64,

    /// Use the first N CPUs alone
    #[arg(long, value_name = "N")]
    cpus: Option<NonZeroUsize>,

    /// Show N of the lines that CPUs take from one another
    #[arg(long, value_name = "N", requires = "machine")]
    c2c: Option<usize>,

    #[command(flatten)]
    footing: FootingArgs,

    #[command(flatten)]
    place: WhereArgs,

    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let bench = |footing: Footing| PiBench { footing, groups: args.groups, rounds: args.rounds };
    let file = args.output.open()?;
    let runs = each_rung(
        &args.place,
        args.cpus.map(NonZeroUsize::get),
        &args.footing,
        args.c2c,
        |ground, footing| bench(footing).run::<Host>(ground),
        |ground, footing| bench(footing).run::<Sim>(ground),
        |results, notes| drop(results.notes.splice(0..0, notes)),
    )?;
    args.output.write(file, &runs, &report::pi(&runs))
}
