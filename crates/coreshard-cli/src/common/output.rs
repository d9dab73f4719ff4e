//! Terminal output. No other module writes to the terminal.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::process::ExitCode;

use anyhow::Context;
use coreshard_topology::input;

/// Writes to standard output. A closed pipe (`coreshard topo | head`) is not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    ignoring_closed_pipe(out.write_all(harmless(text).as_bytes()).and_then(|()| out.flush()))
}

/// Prints text that is not part of the results: to standard error if JSON goes to standard output.
pub(crate) fn print_beside(text: &str, json_is_stdout: bool) -> anyhow::Result<()> {
    if json_is_stdout {
        warn(text);
        return Ok(());
    }
    print(text)
}

/// Prints the parser's message: help and version to standard output, errors to standard error.
pub(crate) fn answer(told: &clap::Error) -> anyhow::Result<ExitCode> {
    let done = told.print().and_then(|()| stdout().flush());
    if !told.use_stderr() {
        ignoring_closed_pipe(done)?;
    }
    Ok(ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(1)))
}

fn ignoring_closed_pipe(done: io::Result<()>) -> anyhow::Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.context("cannot write to standard output"),
    }
}

/// Writes a line to standard error. A failure cannot be reported and is ignored.
pub(crate) fn warn(line: &str) {
    let _ = writeln!(stderr().lock(), "{}", harmless(line));
}

/// Replaces control characters: names of machines, CPUs and queues are untrusted.
fn harmless(text: &str) -> Cow<'_, str> {
    let is_harmless = |letter| matches!(letter, '\n' | '\t') || input::is_plain(letter);
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let replaced = |letter| if is_harmless(letter) { letter } else { char::REPLACEMENT_CHARACTER };
    Cow::Owned(text.chars().map(replaced).collect())
}

/// Width of a table that does not go to a terminal, in columns.
const COLUMNS_OF_A_FILE: usize = 200;

/// Returns the width of standard output in columns; of a file or pipe, the one that the environment's `COLUMNS` asks for.
pub(crate) fn columns() -> usize {
    let wished = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    match terminal_size::terminal_size_of(std::io::stdout()) {
        Some((width, _)) => usize::from(width.0),
        None => wished().unwrap_or(COLUMNS_OF_A_FILE),
    }
}
