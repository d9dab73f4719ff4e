//! Why a machine cannot be simulated.

use std::fmt;

use coreshard_topology::TopologyError;
use coreshard_topology::input::{InputError, plain};

/// Why a machine's file cannot be used. Its text is a sentence that names the machine or file, the
/// line and the key where there is one, what was found and what is allowed.
pub struct MachineError {
    machine: String,
    line: Option<usize>,
    kind: MachineErrorKind,
}

#[derive(Debug)]
pub(super) enum MachineErrorKind {
    Input(InputError),
    Topology(TopologyError),
    Problem(String),
}

impl MachineError {
    pub(super) fn new(machine: &str, kind: MachineErrorKind) -> Self {
        Self { machine: machine.to_owned(), line: None, kind }
    }

    pub(super) fn at(machine: &str, line: usize, problem: String) -> Self {
        Self {
            machine: machine.to_owned(),
            line: Some(line),
            kind: MachineErrorKind::Problem(problem),
        }
    }

    /// The line of the file that the problem is in, counted from 1, where it is in a line.
    #[must_use]
    pub const fn line(&self) -> Option<usize> {
        self.line
    }
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine {}", plain(&self.machine))?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        match &self.kind {
            MachineErrorKind::Input(error) => write!(f, ": {error}"),
            MachineErrorKind::Topology(error) => write!(f, ": {error}"),
            MachineErrorKind::Problem(problem) => write!(f, ": {problem}"),
        }
    }
}

coreshard_topology::readable_debug!(MachineError);

impl std::error::Error for MachineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The text has what these say themselves already.
        match &self.kind {
            MachineErrorKind::Topology(error) => error.source(),
            MachineErrorKind::Input(_) | MachineErrorKind::Problem(_) => None,
        }
    }
}
