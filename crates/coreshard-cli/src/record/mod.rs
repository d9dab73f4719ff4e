//! `coreshard record`: runs a program and records the memory accesses of its threads.

mod engine;
mod follow;
pub(crate) mod library;
mod pace;
mod signals;
pub(crate) mod slices;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::common::{Destination, ForceArgs, bail_input, many, output, whole};
use coreshard_trace::Spool;
use engine::{Engine, Language};
use follow::Limits;
use pace::Pace;
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
    /// Output file
    #[arg(short, long, value_name = "FILE", default_value = "coreshard.trace")]
    output: PathBuf,

    /// Recorder [default: tsan for a program that was built for it, otherwise qemu]
    #[arg(long, value_enum)]
    engine: Option<Engine>,

    /// Print the flags that compile and link a program for the engine tsan, and build the library that they name
    #[arg(long, value_enum, value_name = "LANGUAGE", conflicts_with = "program")]
    flags: Option<Language>,

    /// Start recording this long after the program's start, in milliseconds
    #[arg(long, value_name = "MS", default_value = "0", value_parser = milliseconds)]
    from: u64,

    /// Stop recording this long after the program's start, in milliseconds; the program continues
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    to: Option<u64>,

    /// Record the first MS milliseconds of every OF milliseconds, in all threads at once
    #[arg(long, value_name = "MS/OF", value_parser = sample)]
    sample: Option<(u64, u64)>,

    /// Maximum size of the file. When it is half full, only slices of the time are recorded: first a tenth, later less.
    /// The program continues
    #[arg(long, value_name = "BYTES", default_value = "4294967296", value_parser = many::<NonZeroU64>)]
    max_size: NonZeroU64,

    /// Maximum memory for recording, at least 64 MiB; threads wait while it is used up
    #[arg(long, value_name = "BYTES", default_value = "1073741824", value_parser = memory)]
    max_memory: u64,

    /// Also time the program without recording it, on one CPU, so that replays know the time between accesses; BUILD is
    /// the program without the flags, if it was built for the engine tsan
    #[arg(long, value_name = "BUILD", num_args = 0..=1, require_equals = true, default_missing_value = "", conflicts_with_all = ["from", "to", "sample"])]
    pace: Option<String>,

    #[command(flatten)]
    force: ForceArgs,

    /// Program to run, with its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true)]
    program: Vec<String>,
}

impl Args {
    #[cfg(test)]
    pub(crate) fn program(&self) -> &[String] {
        &self.program
    }
}

/// Parses a size of memory, which must be enough for about a hundred threads.
fn memory(text: &str) -> Result<u64, String> {
    whole::<u64, { Spool::LEAST_BYTES }, { Spool::MOST_BYTES }>(text)
}

/// Parses a time, at most a year.
fn milliseconds(text: &str) -> Result<u64, String> {
    whole::<u64, 0, 31_536_000_000>(text)
}

fn sample(text: &str) -> Result<(u64, u64), String> {
    let wrong = || "expected two numbers of milliseconds, such as 10/1000".to_owned();
    let (open, of) = text.split_once('/').ok_or_else(wrong)?;
    let (open, of) =
        (milliseconds(open).map_err(|_| wrong())?, milliseconds(of).map_err(|_| wrong())?);
    if open == 0 || open > of { Err(wrong()) } else { Ok((open, of)) }
}

/// Runs the subcommand. The exit status is the program's.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(language) = args.flags {
        output::print(&(engine::flags(language)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.program.is_empty() {
        bail_input!("expected a program, as in: coreshard record ./program --its options");
    }
    if args.to.is_some_and(|to| to <= args.from) {
        bail_input!("invalid --to: expected a time after --from");
    }
    let windows = Windows { from_ms: args.from, to_ms: args.to, sample_ms: args.sample };
    args.force.apply();
    let place = Destination::open(&args.output)?;
    if let Some(program) = engine::found(&args.program[0]) {
        place.is_not(&program)?;
    }
    let engine = engine::chosen(args.engine, &args.program)?;
    let pace =
        args.pace.as_ref().map(|build| Pace::of(build, engine, &args.program)).transpose()?;
    let recorded = engine::command(engine, &args.program)?;
    let file = place.grow()?;
    let limits = Limits { most_bytes: args.max_size.get(), memory_bytes: args.max_memory };
    follow::follow(recorded, engine, &args.program, windows, file, limits, pace)
}
