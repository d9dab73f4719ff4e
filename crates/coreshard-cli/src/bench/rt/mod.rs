//! `coreshard bench rt`: real time, on this machine or a simulated one.

mod cyclic;
mod index;
mod options;
mod pi;
mod transcode;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum RtCommand {
    /// Measure set and search of each priority index variant, on all CPUs at once
    Index(index::Args),
    /// Measure wake-up latency of fixed-priority threads, as cyclictest does
    Cyclic(cyclic::Args),
    /// Count resolved priority inversions, as pi_stress does
    Pi(pi::Args),
    /// Measure frame times of media pipelines, each pinned to some CPUs
    Transcode(transcode::Args),
}

/// Runs the subcommand.
pub(super) fn run(command: &RtCommand) -> anyhow::Result<()> {
    match command {
        RtCommand::Index(args) => index::run(args),
        RtCommand::Cyclic(args) => cyclic::run(args),
        RtCommand::Pi(args) => pi::run(args),
        RtCommand::Transcode(args) => transcode::run(args),
    }
}
