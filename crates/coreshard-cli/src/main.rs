//! The command `coreshard`: what a machine looks like to a runtime that follows its caches.
//!
//! This crate parses, calls and prints; everything else is in the libraries below it. Each subcommand
//! is a module with its `Args` and a `run`. Exit status: 0, or 2 for input that cannot be used (see
//! [`failure`]), or 1 for anything else that went wrong.

mod bench;
mod c2c;
mod calibrate;
mod failure;
mod machine;
mod output;
mod sim;
mod top;
mod topo;
mod tune;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// A simulated program's memory comes from its simulation, so that equal runs are equal; everybody
/// else's from the system.
#[global_allocator]
static ALLOCATOR: coreshard_sim::SimAlloc = coreshard_sim::SimAlloc;

/// Shown by `coreshard` alone.
const EXAMPLES: &str = "\
Examples:
  coreshard topo                this machine: caches, nodes, and the pods of each scope
  coreshard bench queue         which scope, wake-up and intake is best here
  coreshard topo --machine epyc-9654-2s --format svg > epyc.svg
                                a drawing of a machine you do not have";

/// Runs work on many-core machines along their caches, and shows what that is worth.
#[derive(Debug, Parser)]
#[command(name = "coreshard", version, after_help = EXAMPLES, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show a machine: packages, nodes, caches, and the pods of each affinity scope
    Topo(topo::Args),
    /// Measure a ladder on this machine, rung by rung
    Bench(Box<bench::Args>),
    /// Recommend an affinity scope and a size of shards, for this machine or a simulated one
    Tune(tune::Args),
    /// Measure what memory, wake-ups and threads cost here, for simulations
    Calibrate(calibrate::Args),
    /// Watch a running process's queues and pools
    Top(top::Args),
    /// Show which lines and fields a simulated machine's CPUs take from one another
    C2c(c2c::Args),
    /// Search the workqueue for bugs on a simulated machine, and replay what was found
    Sim(sim::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Some(Command::Topo(args)) => topo::run(&args),
        Some(Command::Bench(args)) => bench::run(&args),
        Some(Command::Tune(args)) => tune::run(&args),
        Some(Command::Calibrate(args)) => calibrate::run(&args),
        Some(Command::C2c(args)) => c2c::run(&args),
        Some(Command::Top(args)) => top::run(&args),
        Some(Command::Sim(args)) => sim::run(&args),
        None => output::print(&Cli::command().render_help().to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
