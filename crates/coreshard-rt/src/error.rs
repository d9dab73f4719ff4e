//! Why something cannot be had as asked for.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use coreshard_platform::{MemoryLockError, SpawnError};
use coreshard_topology::CpuSet;

/// Why something cannot be had as asked for. The text names the thing, what was given, and what is accepted.
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
        let text = "this process was forked from the executor's, whose threads are not here; make one in this process";
        Self { is_forked: true, ..Self::new(text) }
    }

    pub(crate) fn no_cpu() -> Self {
        Self::new("the set of allowed CPUs is empty; at least one is needed")
    }

    pub(crate) fn outside_cpus(given: &CpuSet, allowed: &CpuSet) -> Self {
        Self::new(format!("CPUs {given} are not among the allowed ones, which are {allowed}"))
    }

    /// The watchdog cannot run above the tasks.
    pub(crate) fn watchdog(error: Self) -> Self {
        let text = format!(
            "{error}; without it the watchdog is not above all tasks, which build_degraded accepts, and \
             watchdog_period(None) needs no watchdog"
        );
        Self { text: text.into(), ..error }
    }

    fn caused_by(source: impl Error + Send + Sync + 'static) -> Self {
        let text = source.to_string();
        Self { source: Some(Box::new(source)), ..Self::new(text) }
    }

    /// True if the reason is that this process was forked from the executor's.
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
