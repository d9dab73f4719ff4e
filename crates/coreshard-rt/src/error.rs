//! The error of invalid or refused requests.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use coreshard_platform::{MemoryLockError, SpawnError};
use coreshard_topology::CpuSet;

/// The error when a request is invalid or refused. The text names what was given and what is accepted.
pub struct RtError {
    text: Cow<'static, str>,
    is_forked: bool,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl RtError {
    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into(), is_forked: false, source: None }
    }

    pub(crate) fn forked() -> Self {
        let text = "this process was forked from the executor's and has none of its threads: create an executor here";
        Self { is_forked: true, ..Self::new(text) }
    }

    pub(crate) fn no_cpu() -> Self {
        Self::new("the set of allowed CPUs is empty: expected at least one CPU")
    }

    pub(crate) fn outside_cpus(given: &CpuSet, allowed: &CpuSet) -> Self {
        Self::new(format!("invalid CPUs {given}: expected CPUs among {allowed}"))
    }

    /// Creates the error for a watchdog that cannot run above the tasks.
    pub(crate) fn watchdog(error: Self) -> Self {
        let text = format!(
            "{error}; without it the watchdog does not run above all tasks: accept that with build_degraded, or \
             disable the watchdog with watchdog_period(None)"
        );
        Self { text: text.into(), ..error }
    }

    fn caused_by(source: impl Error + Send + Sync + 'static) -> Self {
        let text = source.to_string();
        Self { source: Some(Box::new(source)), ..Self::new(text) }
    }

    /// Returns true if the reason is that this process was forked from the executor's.
    pub fn is_forked(&self) -> bool {
        self.is_forked
    }
}

impl From<SpawnError> for RtError {
    fn from(error: SpawnError) -> Self {
        Self::caused_by(error)
    }
}

impl From<MemoryLockError> for RtError {
    fn from(error: MemoryLockError) -> Self {
        Self::caused_by(error)
    }
}

impl fmt::Display for RtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

coreshard_topology::readable_debug!(RtError);

impl Error for RtError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
