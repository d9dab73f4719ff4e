//! How many tasks of a queue exist; `task_ref.rs` says what for.

use coreshard_platform::{AtomicInt, Padded, Platform};

use super::waiting_tasks::WaitingTasks;

/// Nobody holds the queue any more: the last task of this count lets go of it.
pub(super) const LEFT: u64 = 1 << 63;

/// How many there are, counted apart for each pod, so that tasks of two pods write no line in
/// common. All tasks of one count hold one reference to the queue together.
pub(crate) struct TaskCounts<P: Platform> {
    pub(super) counts: Box<[Padded<P::AtomicU64>]>,
    /// Those that wait, by the same counts.
    pub(super) waiting: Box<[Padded<WaitingTasks<P>>]>,
}

impl<P: Platform> TaskCounts<P> {
    pub(crate) fn new(pods: usize) -> Self {
        Self {
            counts: (0..pods).map(|_| Padded::new(P::AtomicU64::new(0))).collect(),
            waiting: (0..pods).map(|_| Padded::new(WaitingTasks::new())).collect(),
        }
    }

    /// Drops the tasks that wait, and those that would.
    pub(super) fn drop_waiting(&self) {
        self.waiting.iter().for_each(|waiting| waiting.close());
    }
}
