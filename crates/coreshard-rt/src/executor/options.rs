//! What an executor is to be.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::error::RtError;
use crate::level::Priority;

/// Tasks of one priority that may take turns on a CPU, at most: each has a thread of its own.
pub const MAX_ROUND_ROBIN: usize = 256;

/// The shortest time between two scans of the watchdog, which runs above all tasks.
pub const MIN_WATCHDOG_PERIOD: Duration = Duration::from_micros(100);

#[derive(Clone, Debug)]
pub(super) struct Options {
    /// How many tasks of equal priority take turns on a CPU.
    pub(super) round_robin: Option<NonZeroUsize>,
    pub(super) stack_bytes: usize,
    pub(super) budget: Option<Duration>,
    pub(super) watchdog_period: Option<Duration>,
    pub(super) utilisation_limit: f64,
    /// The highest priority that was tried.
    pub(super) highest: Priority,
}

impl Options {
    /// Refuses what would take threads or CPU time without end.
    pub(super) fn check(&self) -> Result<(), RtError> {
        if let Some(given) =
            self.round_robin.map(NonZeroUsize::get).filter(|n| *n > MAX_ROUND_ROBIN)
        {
            return Err(RtError::round_robin(given, MAX_ROUND_ROBIN));
        }
        match self.watchdog_period {
            Some(given) if given < MIN_WATCHDOG_PERIOD => {
                Err(RtError::watchdog_period(given, MIN_WATCHDOG_PERIOD))
            }
            _ => Ok(()),
        }
    }
}
