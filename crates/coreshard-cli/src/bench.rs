//! `coreshard bench`: measures the rungs of a ladder.

mod destination;
mod progress;
mod queue;

use clap::Subcommand;

/// The options of `coreshard bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Measure a workqueue: affinity scope × wake-up policy × intake, with real threads
    Queue(queue::Args),
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.bench {
        Bench::Queue(args) => queue::run(args),
    }
}
