//! The error of a machine that cannot be simulated.

use std::error::Error;
use std::fmt;

use coreshard_topology::TopologyError;
use coreshard_topology::input::plain;

/// The error when a machine's file cannot be used.
///
/// Its text is a sentence that names the machine or file, the line and the key if there is one, the value
/// found and the accepted ones.
pub struct MachineError {
    machine: String,
    line: Option<usize>,
    problem: String,
    topology: Option<TopologyError>,
}

impl MachineError {
    pub(super) fn new(machine: &str, line: Option<usize>, problem: String) -> Self {
        Self { machine: machine.to_owned(), line, problem, topology: None }
    }

    pub(super) fn of_topology(machine: &str, error: TopologyError) -> Self {
        let problem = error.to_string();
        Self { topology: Some(error), ..Self::new(machine, None, problem) }
    }

    /// Returns the line of the problem in the file, counted from 1, if there is one.
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
        write!(f, ": {}", self.problem)
    }
}

coreshard_topology::readable_debug!(MachineError);

impl Error for MachineError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // The text already contains the topology error's text.
        self.topology.as_ref().and_then(Error::source)
    }
}
