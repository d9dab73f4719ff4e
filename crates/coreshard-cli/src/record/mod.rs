//! `coreshard record`: runs a program and records what its threads do to memory.

mod engine;
mod follow;
mod library;
mod signals;
mod slices;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::common::{Destination, ForceArgs, bail_input, many, output, whole};
use coreshard_trace::Spool;
use engine::{Engine, Language};
use follow::Limits;
use slices::Windows;

const EXAMPLES: &str = "\
Examples:
  gcc $(coreshard record --flags c) -o program program.c
  coreshard record -o program.trace ./program --its options
  coreshard record -o any-program.trace ./any-program
  coreshard replay program.trace --machine epyc-9654-2s";

/// The options of `coreshard record`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where the recording goes
    #[arg(short, long, value_name = "FILE", default_value = "coreshard.trace")]
    output: PathBuf,

    /// The recorder; without it, tsan for a program that was built for it, and else qemu
    #[arg(long, value_enum)]
    engine: Option<Engine>,

    /// Print the compiler's and linker's flags for programs that are to be recorded by the engine tsan, and build what
    /// they name
    #[arg(long, value_enum, value_name = "LANGUAGE", conflicts_with = "program")]
    flags: Option<Language>,

    /// Begin so many milliseconds after the program
    #[arg(long, value_name = "MS", default_value = "0", value_parser = milliseconds)]
    from: u64,

    /// End so many milliseconds after the program's begin; it runs on
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    to: Option<u64>,

    /// Record MS milliseconds out of each OF, in all threads at once
    #[arg(long, value_name = "MS/OF", value_parser = sample)]
    sample: Option<(u64, u64)>,

    /// At most so many bytes in the file: when half of them are used, time slices are recorded, first a tenth of the time and
    /// then less; the program runs on
    #[arg(long, value_name = "BYTES", default_value = "4294967296", value_parser = many::<NonZeroU64>)]
    max_size: NonZeroU64,

    /// At most so many bytes of memory for recording, 64 MiB at least; a thread waits while no more may be used
    #[arg(long, value_name = "BYTES", default_value = "1073741824", value_parser = memory)]
    max_memory: u64,

    #[command(flatten)]
    force: ForceArgs,

    /// The program, and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true)]
    program: Vec<String>,
}

impl Args {
    #[cfg(test)]
    pub(crate) fn program(&self) -> &[String] {
        &self.program
    }
}

/// Memory: enough for a hundred threads at least.
fn memory(text: &str) -> Result<u64, String> {
    whole::<u64, { Spool::LEAST_BYTES }, { Spool::MOST_BYTES }>(text)
}

/// A time of a program: a year at most.
fn milliseconds(text: &str) -> Result<u64, String> {
    whole::<u64, 0, 31_536_000_000>(text)
}

fn sample(text: &str) -> Result<(u64, u64), String> {
    let wrong = || "two numbers of milliseconds are needed, such as 10/1000".to_owned();
    let (open, of) = text.split_once('/').ok_or_else(wrong)?;
    let (open, of) =
        (milliseconds(open).map_err(|_| wrong())?, milliseconds(of).map_err(|_| wrong())?);
    if open == 0 || open > of { Err(wrong()) } else { Ok((open, of)) }
}

/// Runs the subcommand; its status is the program's.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(language) = args.flags {
        output::print(&(engine::flags(language)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.program.is_empty() {
        bail_input!("expected a program, as in: coreshard record ./program --its options");
    }
    if args.to.is_some_and(|to| to <= args.from) {
        bail_input!("--to is not after --from, so nothing would be recorded");
    }
    let windows = Windows { from_ms: args.from, to_ms: args.to, sample_ms: args.sample };
    args.force.apply();
    let place = Destination::open(&args.output)?;
    if let Some(program) = engine::found(&args.program[0]) {
        place.is_not(&program)?;
    }
    let engine = engine::chosen(args.engine, &args.program)?;
    let recorded = engine::command(engine, &args.program)?;
    let file = place.grow()?;
    let limits = Limits { most_bytes: args.max_size.get(), memory_bytes: args.max_memory };
    follow::follow(recorded, engine, &args.program, windows, file, limits)
}
