//! Error reports and exit status.

use std::fmt;
use std::process::ExitCode;

use super::output;
use super::progress::interrupted_status;

/// Marks a failure caused by the user's input: an option, a file, a description.
#[derive(Debug)]
struct BadInput(anyhow::Error);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Print the whole chain: the marker adds no link to it.
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for BadInput {}

/// Wraps an error so that the command exits with status 2, as for wrong options.
pub(crate) fn bad_input(error: impl Into<anyhow::Error>) -> anyhow::Error {
    BadInput(error.into()).into()
}

/// Returns from the function with an error of exit status 2. Takes the arguments of `format!`.
macro_rules! bail_input {
    ($($what:tt)+) => {
        return Err($crate::common::bad_input(anyhow::anyhow!($($what)+)))
    };
}

pub(crate) use bail_input;

/// Marks that the user ended the command early.
#[derive(Debug)]
struct Interrupted(&'static str);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Interrupted {}

/// Returns an error that exits with the status shells use for the signal: 130 for Ctrl-C, 143 for SIGTERM.
pub(crate) fn interrupted(what: &'static str) -> anyhow::Error {
    Interrupted(what).into()
}

/// Prints the error and returns the exit status.
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
