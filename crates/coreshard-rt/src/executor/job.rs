//! Jobs.

use std::time::Duration;

use coreshard_platform::{ThreadId, Time};

use crate::level::Level;

/// An activation of a periodic task that has begun on a CPU and is not over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) thread: ThreadId,
    pub(super) level: Level,
    pub(super) budget: Option<Duration>,
    /// The CPU time of its thread when it began; where it has a budget.
    pub(super) began: Duration,
    /// `None` for a task of fixed priority.
    pub(super) deadline: Option<Time>,
    /// The watchdog has counted it out.
    pub(super) demoted: bool,
}
