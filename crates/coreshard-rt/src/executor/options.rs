//! Options of an executor, and how its threads are scheduled.

use std::num::NonZeroUsize;
use std::time::Duration;

use coreshard_platform::{Policy, RealTime};

use crate::error::RtError;
use crate::level::Priority;

/// The most tasks of one priority that may take turns on a CPU: each needs its own thread.
pub const MAX_ROUND_ROBIN: usize = 256;

/// The shortest watchdog period. The watchdog runs above all tasks.
pub const MIN_WATCHDOG_PERIOD: Duration = Duration::from_micros(100);

#[derive(Clone, Debug)]
pub(super) struct Options {
    /// The number of tasks of equal priority that take turns on a CPU.
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
    /// Rejects options that would take unlimited threads or CPU time.
    pub(super) fn check(&self) -> Result<(), RtError> {
        if let Some(given) = self.round_robin.filter(|given| given.get() > MAX_ROUND_ROBIN) {
            return Err(RtError::new(format!(
                "invalid number of tasks that take turns on a CPU, {given}: each has a thread; expected 1 \
                 to {MAX_ROUND_ROBIN}"
            )));
        }
        if let Some(given) = self.watchdog_period.filter(|given| *given < MIN_WATCHDOG_PERIOD) {
            return Err(RtError::new(format!(
                "invalid watchdog period {given:?}: the watchdog runs above all tasks; expected at least \
                 {MIN_WATCHDOG_PERIOD:?}, or no watchdog"
            )));
        }
        Ok(())
    }

    /// Returns the policy of a thread of a priority, as far as it was granted.
    pub(super) fn policy_of(&self, priority: Priority) -> Policy {
        match (self.has_priorities, self.round_robin) {
            (false, _) => Policy::Normal,
            (true, None) => Policy::Fifo(priority.get()),
            (true, Some(_)) => Policy::RoundRobin(priority.get()),
        }
    }

    /// Returns the policy of a thread that runs above all tasks, as far as it is granted.
    pub(super) fn highest_policy<P: RealTime>(&self) -> Policy {
        let granted = Priority::new(P::real_time_limits().priority.min(Priority::MAX.get()));
        // The priorities were tried, whatever the limits say.
        self.policy_of(granted.map_or(self.highest, |granted| granted.max(self.highest)))
    }
}
