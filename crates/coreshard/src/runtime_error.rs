//! Errors of the process's runtime.

use std::fmt;
use std::panic::Location;

use coreshard_topology::TopologyError;
use coreshard_workqueue::BuildError;

/// Why the process has no runtime, or cannot [`configure`](crate::configure) it.
pub struct RuntimeError {
    kind: RuntimeErrorKind,
}

impl RuntimeError {
    pub(crate) fn new(kind: RuntimeErrorKind) -> Self {
        Self { kind }
    }
}

#[derive(Debug)]
pub(crate) enum RuntimeErrorKind {
    Topology(TopologyError),
    Build(BuildError),
    /// It exists, and was first used at this place.
    Runs(&'static Location<'static>),
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            RuntimeErrorKind::Topology(error) => write!(f, "cannot read this machine: {error}"),
            RuntimeErrorKind::Build(error) => error.fmt(f),
            RuntimeErrorKind::Runs(made_at) => write!(
                f,
                "the process's runtime exists already, first used at {made_at}: configure it earlier, at the start of main, or create a separate runtime with runtime_builder"
            ),
        }
    }
}

coreshard_topology::readable_debug!(RuntimeError);

impl std::error::Error for RuntimeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            RuntimeErrorKind::Topology(error) => Some(error),
            RuntimeErrorKind::Build(error) => Some(error),
            RuntimeErrorKind::Runs(_) => None,
        }
    }
}
