//! The error of a benchmark.

use std::error::Error;
use std::fmt;

use coreshard_block::{IoError, OpenError};
use coreshard_platform::SpawnError;
use coreshard_rt::{RtError, TaskPanic};
use coreshard_topology::PodsError;
use coreshard_workqueue::BuildError;

/// The error when a benchmark cannot run. Its text names the missing resource.
pub struct BenchError {
    kind: Kind,
    is_bad_input: bool,
}

enum Kind {
    Problem(String),
    /// Another error, whose text is also this one's.
    Caused(Box<dyn Error + Send + Sync>),
}

impl BenchError {
    pub(crate) fn no_variants(what: &str) -> Self {
        Self::bad_job(format!("no {what} was given: expected at least one"))
    }

    pub(crate) fn task(panic: TaskPanic) -> Self {
        Self::failed_job(panic.to_string())
    }

    pub(crate) fn cpu_count(asked: usize, most: usize) -> Self {
        Self::bad_job(format!("invalid number of CPUs {asked}: expected 1 to {most}"))
    }

    /// Creates an error for a request that can never be met.
    pub(crate) fn bad_job(problem: String) -> Self {
        Self { kind: Kind::Problem(problem), is_bad_input: true }
    }

    /// Creates an error for a failure during the run.
    pub(crate) fn failed_job(problem: String) -> Self {
        Self { kind: Kind::Problem(problem), is_bad_input: false }
    }

    fn caused(error: impl Error + Send + Sync + 'static, is_bad_input: bool) -> Self {
        Self { kind: Kind::Caused(Box::new(error)), is_bad_input }
    }

    /// Returns whether the request is the cause, such as a file that does not exist, rather than a failure
    /// during the run.
    pub fn is_bad_input(&self) -> bool {
        self.is_bad_input
    }
}

impl From<OpenError> for BenchError {
    fn from(error: OpenError) -> Self {
        let is_bad_input = error.is_bad_input();
        Self::caused(error, is_bad_input)
    }
}

impl From<PodsError> for BenchError {
    fn from(error: PodsError) -> Self {
        Self::caused(error, true)
    }
}

impl From<SpawnError> for BenchError {
    fn from(error: SpawnError) -> Self {
        Self::failed_job(format!("a thread cannot be started: {error}"))
    }
}

macro_rules! failed {
    ($($error:ty),+) => {
        $(impl From<$error> for BenchError {
            fn from(error: $error) -> Self {
                Self::caused(error, false)
            }
        })+
    };
}

failed!(BuildError, IoError, RtError);

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Problem(problem) => f.write_str(problem),
            Kind::Caused(error) => error.fmt(f),
        }
    }
}

coreshard_topology::readable_debug!(BenchError);

impl Error for BenchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            Kind::Problem(_) => None,
            // This error's text is the cause's, so the chain continues below the cause.
            Kind::Caused(error) => error.source(),
        }
    }
}
