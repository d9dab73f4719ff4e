//! `coreshard bench rt cyclic`.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use coreshard::Host;
use coreshard_bench::rt::{CyclicBench, CyclicResults, Footing};
use coreshard_report::rt as report;
use coreshard_sim::Sim;

use super::super::destination::Destination;
use super::super::queue::said;
use super::{FootingArgs, OutputArgs, WhereArgs, each_rung};

/// The options of `coreshard bench rt cyclic`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Threads, one for each of the first CPUs [default: all CPUs]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// From one wake-up of a thread to the next, in microseconds
    #[arg(long, value_name = "US", default_value = "1000")]
    interval_us: NonZeroU64,

    /// Wake-ups of each thread
    #[arg(long, value_name = "N", default_value = "10000")]
    cycles: NonZeroU64,

    /// By how much a thread's wake-ups are after the thread's before it, in microseconds
    #[arg(long, value_name = "US", default_value_t = 500)]
    distance_us: u64,

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

    /// Write a page with a picture of each thread's histogram
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let bench = |footing: Footing| CyclicBench {
        footing,
        threads: args.threads,
        interval: Duration::from_micros(args.interval_us.get()),
        cycles: args.cycles,
        distance: Duration::from_micros(args.distance_us),
    };
    let file = args.output.open()?;
    let page = args.html.as_deref().map(Destination::open).transpose()?;
    let runs: Vec<CyclicResults> = each_rung(
        &args.place,
        args.cpus.map(NonZeroUsize::get),
        &args.footing,
        args.c2c,
        |ground, footing| bench(footing).run::<Host>(ground),
        |ground, footing| bench(footing).run::<Sim>(ground),
        |results, notes| drop(results.notes.splice(0..0, notes)),
    )?;
    let table = report::cyclic(&runs);
    match &runs[..] {
        // The very keys of cyclictest's file.
        [one] => args.output.write(file, one, &table)?,
        _ => args.output.write(file, &runs, &table)?,
    }
    if let Some(page) = page {
        let path = page.path().to_owned();
        page.write(|out| out.write_all(report::cyclic_page(&runs).as_bytes()))?;
        said(&path);
    }
    Ok(())
}
