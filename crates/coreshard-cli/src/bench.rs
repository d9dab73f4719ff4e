//! `coreshard bench`: measures the rungs of a ladder.

mod block;
mod kernel;
mod progress;
mod queue;
mod rt;
mod seeds;
pub(crate) mod simulated;

use clap::Subcommand;

pub(crate) use progress::Bar;
pub(crate) use queue::{kernel, or_all, other_load, rung};
pub(crate) use seeds::DEFAULT_SEEDS;

/// The options of `coreshard bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Measure a workqueue: affinity scope × wake-up policy × intake, with real threads or simulated ones
    Queue(Box<queue::Args>),
    /// Measure real time: the priority index's rungs, and what runs on it
    Rt(Box<rt::Args>),
    /// Run the kernel's own algorithms on a simulated machine: before a patch, with it, and ours in their place
    Kernel(Box<kernel::Args>),
    /// Measure the block layer in fio's own words: a file, a block device, memory, or nothing at all
    Block(Box<block::Args>),
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        BenchCommand::Queue(args) => queue::run(args),
        BenchCommand::Rt(args) => rt::run(args),
        BenchCommand::Kernel(args) => kernel::run(args),
        BenchCommand::Block(args) => block::run(args),
    }
}
