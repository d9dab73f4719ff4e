//! How many tasks were accepted, and how many of them are over.
//!
//! 1. A task is counted in before anybody else may see it, and counted out once, by a guard.
//! 2. Both counts are spread over the CPUs: nobody shares a line with another CPU's tasks.

use coreshard_platform::{PerCpuCounter, Platform};

pub(super) struct TaskCounts<P: Platform> {
    accepted: PerCpuCounter<P>,
    finished: PerCpuCounter<P>,
}

impl<P: Platform> TaskCounts<P> {
    pub(super) fn new(cpu_ids: usize) -> Self {
        Self { accepted: PerCpuCounter::new(cpu_ids), finished: PerCpuCounter::new(cpu_ids) }
    }

    /// Counts a task in. Whoever has the guard of it counts it out.
    pub(super) fn accept(&self) -> TaskGuard<'_, P> {
        self.accepted.add(1);
        TaskGuard(self)
    }

    /// The guard of a task that was counted in, and came here through other hands.
    pub(super) fn guard(&self) -> TaskGuard<'_, P> {
        TaskGuard(self)
    }

    /// Whether all tasks are over, those that they have begun among them. Once it is so, it stays so,
    /// unless a task is accepted from elsewhere.
    pub(super) fn all_finished(&self) -> bool {
        // Finished first: then no task that came in between is counted as finished alone. And acquired,
        // with the Release in `TaskGuard::drop`: who sees that a task is over also sees those that it has
        // begun. With relaxed counters a machine that makes stores visible out of order (Arm) may show
        // the end of a task before the beginning of another that the first one began.
        let finished = self.finished.sum_acquired();
        finished == self.accepted.sum()
    }
}

/// A task that was counted in: counted out when this is dropped, also by a panic.
pub(super) struct TaskGuard<'counts, P: Platform>(&'counts TaskCounts<P>);

impl<P: Platform> TaskGuard<'_, P> {
    /// Somebody else counts it out, as he has the task now.
    pub(super) fn forget(self) {
        std::mem::forget(self);
    }
}

impl<P: Platform> Drop for TaskGuard<'_, P> {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `all_finished`: what this task has begun is counted in.
        self.0.finished.add_released(1);
    }
}
