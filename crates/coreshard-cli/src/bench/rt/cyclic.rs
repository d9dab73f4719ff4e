//! `coreshard bench rt cyclic`.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use coreshard::Host;
use coreshard_bench::rt::{CyclicBench, ExecutorSettings};
use coreshard_report::rt as report;
use coreshard_sim::Sim;

use super::options::VariantsArgs;
use crate::common::{few, many, microseconds, output};

/// The options of `coreshard bench rt cyclic`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Threads, one for each of the first CPUs [default: all CPUs]
    #[arg(long, value_name = "N", value_parser = few)]
    threads: Option<NonZeroUsize>,

    /// Interval between a thread's wake-ups, in microseconds
    #[arg(long, value_name = "US", default_value = "1000", value_parser = microseconds::<NonZeroU64, 1>)]
    interval_us: NonZeroU64,

    /// Wake-ups per thread
    #[arg(long, value_name = "N", default_value = "10000", value_parser = many::<NonZeroU64>)]
    cycles: NonZeroU64,

    /// Offset between the wake-ups of successive threads, in microseconds
    #[arg(long, value_name = "US", default_value_t = 500, value_parser = microseconds::<u64, 0>)]
    distance_us: u64,

    #[command(flatten)]
    variants: VariantsArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let bench = |settings: ExecutorSettings| CyclicBench {
        executor: settings,
        threads: args.threads,
        interval: Duration::from_micros(args.interval_us.get()),
        cycles: args.cycles,
        distance: Duration::from_micros(args.distance_us),
    };
    let chosen = args.variants.chosen()?;
    let (output, runs) = args.variants.measure(
        &chosen,
        |bench_machine, settings| bench(settings).run::<Host>(bench_machine),
        |bench_machine, settings| bench(settings).run::<Sim>(bench_machine),
        |results| &mut results.notes,
    )?;
    let table = report::cyclic(&runs, output::columns());
    let page = || report::cyclic_page(&runs);
    match &runs[..] {
        // One variant has the keys of cyclictest's file.
        [one] => output.write(one, table, page),
        _ => output.write(&runs, table, page),
    }
}
