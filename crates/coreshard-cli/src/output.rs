//! The only place that writes to the terminal.

use std::io::{ErrorKind, Write, stderr, stdout};

use anyhow::Context;

/// Writes to standard output. A reader that went away (`coreshard topo | head`) is no failure.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.context("cannot write to standard output"),
    }
}

/// Writes a line to standard error. That this fails cannot be told anywhere, so it is let go.
pub(crate) fn warn(line: &str) {
    let _ = writeln!(stderr().lock(), "{line}");
}
