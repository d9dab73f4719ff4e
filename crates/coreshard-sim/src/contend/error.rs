//! The error of a description that cannot be used.

use std::error::Error;
use std::fmt;

use coreshard_topology::input::plain;

/// The error of a contention's description.
///
/// Its text names the file, the line, the value found and the accepted ones.
pub struct ContentionError {
    file: String,
    line: Option<usize>,
    problem: String,
}

impl ContentionError {
    pub(super) fn new(file: &str, line: Option<usize>, problem: String) -> Self {
        Self { file: file.to_owned(), line, problem }
    }

    /// Returns the line of the problem in the file, counted from 1, if there is one.
    #[must_use]
    pub const fn line(&self) -> Option<usize> {
        self.line
    }
}

impl fmt::Display for ContentionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", plain(&self.file))?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

coreshard_topology::readable_debug!(ContentionError);

impl Error for ContentionError {}
