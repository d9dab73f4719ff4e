//! `coreshard bench`: measures the rungs of a ladder.

mod destination;
mod progress;
mod queue;
mod rt;
pub(crate) mod simulated;

use clap::Subcommand;

/// The options of `coreshard bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Measure a workqueue: affinity scope × wake-up policy × intake, with real threads or simulated ones
    Queue(queue::Args),
    /// Measure real time: the priority index's rungs, and what runs on it
    Rt(rt::Args),
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.bench {
        Bench::Queue(args) => queue::run(args),
        Bench::Rt(args) => rt::run(args),
    }
}
