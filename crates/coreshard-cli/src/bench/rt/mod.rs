//! `coreshard bench rt`: real time, on this machine or on a simulated one.

mod cyclic;
mod index;
mod options;
mod pi;
mod transcode;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum RtCommand {
    /// Set and search each variant of the priority index on all CPUs at once
    Index(index::Args),
    /// Measure how late threads of fixed priority wake up, as cyclictest does
    Cyclic(cyclic::Args),
    /// Count priority inversions that are resolved, as pi_stress does
    Pi(pi::Args),
    /// Run instances of a media pipeline, each pinned to some CPUs
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
