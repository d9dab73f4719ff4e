//! How a failure is told, and with which exit status.

use std::fmt;
use std::process::ExitCode;

use super::output;
use super::progress::interrupted_status;

/// Marks a failure whose cause is what the user gave: an option, a file, a description.
#[derive(Debug)]
struct BadInput(anyhow::Error);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The whole chain, so that the marker itself adds no link to it.
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for BadInput {}

/// Turns an error into one that exits with status 2, as wrong options do.
pub(crate) fn bad_input(error: impl Into<anyhow::Error>) -> anyhow::Error {
    BadInput(error.into()).into()
}

/// Returns from the function with an error that exits with status 2; takes what `format!` takes.
macro_rules! bail_input {
    ($($what:tt)+) => {
        return Err($crate::common::bad_input(anyhow::anyhow!($($what)+)))
    };
}

pub(crate) use bail_input;

/// Marks that the user ended the command before it was done.
#[derive(Debug)]
struct Interrupted(&'static str);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Interrupted {}

/// An error that exits with the status by which shells report a command that the signal ended: 130 for Ctrl-C, 143 for SIGTERM.
pub(crate) fn interrupted(what: &'static str) -> anyhow::Error {
    Interrupted(what).into()
}

/// Prints one sentence, and gives the status to exit with.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    output::warn(&format!("coreshard: {error:#}"));
    if error.is::<BadInput>() {
        ExitCode::from(2)
    } else if error.is::<Interrupted>() {
        ExitCode::from(interrupted_status())
    } else {
        ExitCode::FAILURE
    }
}
