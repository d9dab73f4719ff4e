//! Options of an executor, and how its threads are scheduled.

use std::num::NonZeroUsize;
use std::time::Duration;

use coreshard_platform::{Policy, RealTime};

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
    /// Whether the machine grants priorities.
    pub(super) has_priorities: bool,
}

impl Options {
    /// Rejects what would take threads or CPU time without end.
    pub(super) fn check(&self) -> Result<(), RtError> {
        if let Some(given) = self.round_robin.filter(|given| given.get() > MAX_ROUND_ROBIN) {
            return Err(RtError::new(format!(
                "{given} tasks of a priority cannot take turns on a CPU, since each has a thread; allowed are 1 \
                 to {MAX_ROUND_ROBIN}"
            )));
        }
        if let Some(given) = self.watchdog_period.filter(|given| *given < MIN_WATCHDOG_PERIOD) {
            return Err(RtError::new(format!(
                "the watchdog cannot scan every {given:?}, since it runs above all tasks; allowed are \
                 {MIN_WATCHDOG_PERIOD:?} and longer, or no watchdog"
            )));
        }
        Ok(())
    }

    /// How a thread of a priority is scheduled, as far as that was granted.
    pub(super) fn policy_of(&self, priority: Priority) -> Policy {
        match (self.has_priorities, self.round_robin) {
            (false, _) => Policy::Normal,
            (true, None) => Policy::Fifo(priority.get()),
            (true, Some(_)) => Policy::RoundRobin(priority.get()),
        }
    }

    /// How a thread is scheduled that comes before all tasks, as far as that is granted.
    pub(super) fn highest_policy<P: RealTime>(&self) -> Policy {
        let granted = Priority::new(P::real_time_limits().priority.min(Priority::MAX.get()));
        // The priorities were tried, whatever the limits say.
        self.policy_of(granted.map_or(self.highest, |granted| granted.max(self.highest)))
    }
}
