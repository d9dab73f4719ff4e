//! Why a benchmark could not be run.

use std::fmt;

use coreshard_block::{IoError, OpenError};
use coreshard_platform::SpawnError;
use coreshard_rt::{RtError, TaskPanic};
use coreshard_topology::PodsError;
use coreshard_workqueue::BuildError;

/// Why a benchmark could not be run. Its text names what is missing.
pub struct BenchError {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    NoRungs { ladder: &'static str },
    CpuCount { asked: usize, most: usize },
    Pods(PodsError),
    Workqueue(BuildError),
    Producer(SpawnError),
    RealTime(RtError),
    Task(String),
    Open(OpenError),
    Io(IoError),
    Job { problem: String, is_bad_input: bool },
}

impl BenchError {
    pub(crate) fn no_rungs(ladder: &'static str) -> Self {
        Self { kind: Kind::NoRungs { ladder } }
    }

    pub(crate) fn task(panic: TaskPanic) -> Self {
        Self { kind: Kind::Task(panic.to_string()) }
    }

    pub(crate) fn cpu_count(asked: usize, most: usize) -> Self {
        Self { kind: Kind::CpuCount { asked, most } }
    }
}

impl BenchError {
    /// What a job asks for cannot be done, whatever the machine does.
    pub(crate) fn bad_job(problem: String) -> Self {
        Self { kind: Kind::Job { problem, is_bad_input: true } }
    }

    /// A job went wrong while it ran.
    pub(crate) fn failed_job(problem: String) -> Self {
        Self { kind: Kind::Job { problem, is_bad_input: false } }
    }

    /// Whether the cause is what was asked for, such as a file that is not there, and not what
    /// happened while it was done.
    pub fn is_bad_input(&self) -> bool {
        match &self.kind {
            Kind::NoRungs { .. } | Kind::CpuCount { .. } | Kind::Pods(_) => true,
            Kind::Open(error) => error.is_bad_input(),
            Kind::Job { is_bad_input, .. } => *is_bad_input,
            Kind::Workqueue(_)
            | Kind::Producer(_)
            | Kind::Io(_)
            | Kind::RealTime(_)
            | Kind::Task(_) => false,
        }
    }
}

impl From<OpenError> for BenchError {
    fn from(error: OpenError) -> Self {
        Self { kind: Kind::Open(error) }
    }
}

impl From<IoError> for BenchError {
    fn from(error: IoError) -> Self {
        Self { kind: Kind::Io(error) }
    }
}

impl From<PodsError> for BenchError {
    fn from(error: PodsError) -> Self {
        Self { kind: Kind::Pods(error) }
    }
}

impl From<BuildError> for BenchError {
    fn from(error: BuildError) -> Self {
        Self { kind: Kind::Workqueue(error) }
    }
}

impl From<SpawnError> for BenchError {
    fn from(error: SpawnError) -> Self {
        Self { kind: Kind::Producer(error) }
    }
}

impl From<RtError> for BenchError {
    fn from(error: RtError) -> Self {
        Self { kind: Kind::RealTime(error) }
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::NoRungs { ladder } => {
                write!(f, "no {ladder} was given; at least one is needed")
            }
            Kind::CpuCount { asked, most } => {
                write!(f, "{asked} CPUs were asked for; 1 to {most} can be used here")
            }
            Kind::Pods(error) => error.fmt(f),
            Kind::Workqueue(error) => error.fmt(f),
            Kind::RealTime(error) => error.fmt(f),
            Kind::Task(text) => f.write_str(text),
            Kind::Producer(error) => write!(f, "a producer cannot be had: {error}"),
            Kind::Open(error) => error.fmt(f),
            Kind::Io(error) => error.fmt(f),
            Kind::Job { problem, .. } => f.write_str(problem),
        }
    }
}

coreshard_topology::readable_debug!(BenchError);

impl std::error::Error for BenchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            Kind::NoRungs { .. } | Kind::CpuCount { .. } | Kind::Job { .. } | Kind::Task(_) => None,
            // This error's text is theirs, so what comes next is what is below them.
            Kind::Open(error) => error.source(),
            Kind::Io(error) => error.source(),
            Kind::Pods(error) => error.source(),
            Kind::Workqueue(error) => error.source(),
            Kind::RealTime(error) => error.source(),
            Kind::Producer(error) => Some(error),
        }
    }
}
