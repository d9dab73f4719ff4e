//! What an executor is to be.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::level::Priority;

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
