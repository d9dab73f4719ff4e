//! `coreshard bench`: measures variants against one another.

mod block;
mod kernel;
mod queue;
mod rt;

use clap::Subcommand;

/// The options of `coreshard bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Measure a workqueue: affinity scope × wake-up policy × intake, with real threads or simulated ones
    Queue(Box<queue::QueueArgs>),
    /// Measure real time: the priority index's variants, and what runs on it
    #[command(subcommand)]
    Rt(Box<rt::RtCommand>),
    /// Run the kernel's own algorithms on a simulated machine: before a patch, with it, and ours in their place
    Kernel(Box<kernel::KernelArgs>),
    /// Measure the block layer in fio's own words: a file, a block device, memory, or nothing at all
    Block(Box<block::BlockArgs>),
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        BenchCommand::Queue(args) => queue::run(args),
        BenchCommand::Rt(command) => rt::run(command),
        BenchCommand::Kernel(args) => kernel::run(args),
        BenchCommand::Block(args) => block::run(args),
    }
}
