//! `coreshard kernel`: boots a Linux kernel in emulation, runs a command in it, and records what its CPUs do to memory.

mod boot;
mod channel;
mod cpio;
mod guest_args;
mod guest_file;
mod image;
mod initramfs;
mod machine;
mod modules;
mod record;
mod run;

use std::process::ExitCode;

/// The options of `coreshard kernel`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: KernelCommand,
}

#[derive(Debug, clap::Subcommand)]
enum KernelCommand {
    /// Boot a kernel, run a command in it, and print its console
    Run(Box<run::Args>),
    /// Do the same, and record the kernel's memory accesses
    Record(Box<record::Args>),
}

/// Runs the subcommand; its status is the guest's command's.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        KernelCommand::Run(args) => run::run(args),
        KernelCommand::Record(args) => record::run(args),
    }
}
