//! `coreshard bench rt pi`.

use std::num::{NonZeroU64, NonZeroUsize};

use coreshard::Host;
use coreshard_bench::rt::{ExecutorSettings, PiBench};
use coreshard_report::rt as report;
use coreshard_sim::Sim;

use super::options::VariantsArgs;
use crate::common::{few, many, output};

/// The options of `coreshard bench rt pi`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Groups of three tasks, one group for each of the first CPUs [default: all CPUs]
    #[arg(long, value_name = "N", value_parser = few)]
    groups: Option<NonZeroUsize>,

    /// Inversions per group
    #[arg(long, value_name = "N", default_value = "2000", value_parser = many::<NonZeroU64>)]
    rounds: NonZeroU64,

    #[command(flatten)]
    variants: VariantsArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let bench = |settings: ExecutorSettings| PiBench {
        executor: settings,
        groups: args.groups,
        rounds: args.rounds,
    };
    args.variants.needs_priority(3)?;
    let chosen = args.variants.chosen()?;
    let (output, runs) = args.variants.measure(
        &chosen,
        |bench_machine, settings| bench(settings).run::<Host>(bench_machine),
        |bench_machine, settings| bench(settings).run::<Sim>(bench_machine),
        |results| &mut results.notes,
    )?;
    output.write(&runs, report::pi(&runs, output::columns()), || report::pi_page(&runs))
}
