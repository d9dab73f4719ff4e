//! Why a benchmark could not be run.

use std::fmt;

use coreshard_platform::SpawnError;
use coreshard_rt::{RtError, TaskPanic};
use coreshard_topology::PodsError;
use coreshard_workqueue::BuildError;

/// Why a benchmark could not be run. Its text names what is missing.
#[derive(Debug)]
pub struct BenchError {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    NoRungs { ladder: &'static str },
    Pods(PodsError),
    Workqueue(BuildError),
    Producer(SpawnError),
    RealTime(RtError),
    Task(String),
}

impl BenchError {
    pub(crate) fn no_rungs(ladder: &'static str) -> Self {
        Self { kind: Kind::NoRungs { ladder } }
    }

    pub(crate) fn task(panic: TaskPanic) -> Self {
        Self { kind: Kind::Task(panic.to_string()) }
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
            Kind::Pods(error) => error.fmt(f),
            Kind::Workqueue(error) => error.fmt(f),
            Kind::RealTime(error) => error.fmt(f),
            Kind::Task(text) => f.write_str(text),
            Kind::Producer(error) => write!(f, "a producer cannot be had: {error}"),
        }
    }
}

impl std::error::Error for BenchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            Kind::NoRungs { .. } | Kind::Task(_) => None,
            Kind::Pods(error) => Some(error),
            Kind::Workqueue(error) => Some(error),
            Kind::RealTime(error) => Some(error),
            Kind::Producer(error) => Some(error),
        }
    }
}
