//! `coreshard bench`: compares variants of the runtime.

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
    /// Measure a work queue: affinity scopes × wake-up policies × intakes
    Queue(Box<queue::QueueArgs>),
    /// Measure the real-time executor and variants of the priority index
    #[command(subcommand)]
    Rt(Box<rt::RtCommand>),
    /// Run the kernel's algorithms on a simulated machine, before and after a patch
    Kernel(Box<kernel::KernelArgs>),
    /// Measure the block layer, or a file or device through it, with fio's options
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
