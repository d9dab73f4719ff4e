//! Counts of accepted and finished tasks.
//!
//! A task is counted in before another thread can see it, and counted out once, by a guard. Both counts are
//! per CPU, so that no two CPUs share a line.

use coreshard_platform::{PerCpuCounter, Platform};

pub(super) struct TaskCounts<P: Platform> {
    accepted: PerCpuCounter<P>,
    finished: PerCpuCounter<P>,
}

impl<P: Platform> TaskCounts<P> {
    pub(super) fn new(cpu_ids: usize) -> Self {
        Self { accepted: PerCpuCounter::new(cpu_ids), finished: PerCpuCounter::new(cpu_ids) }
    }

    /// Counts a task in; the guard counts it out.
    pub(super) fn accept(&self) -> TaskGuard<'_, P> {
        self.accepted.add(1);
        TaskGuard(self)
    }

    /// Returns the guard of a task that was counted in by another thread.
    pub(super) fn guard(&self) -> TaskGuard<'_, P> {
        TaskGuard(self)
    }

    /// Returns whether all tasks have finished, including the tasks that they spawned. The result stays true
    /// unless a task is accepted from outside.
    pub(super) fn all_finished(&self) -> bool {
        // Finished tasks first: then no task that arrives in between is counted only as finished. Acquire
        // pairs with the Release in `TaskGuard::drop`: a thread that sees a task's end sees the tasks that it
        // spawned. With relaxed counters, a weakly ordered machine (Arm) may show the end of a task before
        // the beginning of one that it spawned.
        let finished = self.finished.sum_acquired();
        finished == self.accepted.sum()
    }
}

/// Counts its task out when dropped, also after a panic.
pub(super) struct TaskGuard<'counts, P: Platform>(&'counts TaskCounts<P>);

impl<P: Platform> TaskGuard<'_, P> {
    /// Leaves it to another thread to count the task out.
    pub(super) fn forget(self) {
        std::mem::forget(self);
    }
}

impl<P: Platform> Drop for TaskGuard<'_, P> {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `all_finished`: tasks spawned by this one are counted in.
        self.0.finished.add_released(1);
    }
}
