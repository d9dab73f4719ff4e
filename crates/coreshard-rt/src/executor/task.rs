//! Tasks.

use std::time::Duration;

use crate::index::CpuMask;
use crate::level::Priority;

/// What is to be run once, and where.
pub(super) struct Task {
    pub(super) id: u64,
    pub(super) priority: Priority,
    pub(super) allowed: CpuMask,
    /// CPU time after which it is demoted.
    pub(super) budget: Option<Duration>,
    pub(super) run: Box<dyn FnOnce() + Send>,
}
