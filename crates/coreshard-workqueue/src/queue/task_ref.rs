//! References from tasks to their queue: a task may be woken after the queue's last holder was dropped, and still accesses the
//! queue then.
//!
//! These references keep only the queue's memory. A task that waits for something may exist forever, but the workers exit when
//! the queue's last handle is dropped and its last item has finished (`Shared::end`). A task that is woken later finds the
//! queue closed, and is dropped by the timers' thread for user code.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use coreshard_platform::{AtomicInt, Platform};
use coreshard_topology::CpuId;

use super::shared::Shared;
use super::waiting_tasks::{LEFT, ListedAt, WaitingTask};

/// The right to access a queue for as long as a task exists.
pub(crate) struct TaskRef<P: Platform> {
    shared: NonNull<Shared<P>>,
    /// The CPU in whose pod the task is polled.
    cpu: CpuId,
    /// The task's place among the waiting ones.
    listed_at: ListedAt<P>,
}

// SAFETY: it stands for a reference to the queue, which is shared among threads.
unsafe impl<P: Platform> Send for TaskRef<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Sync for TaskRef<P> {}

impl<P: Platform> TaskRef<P> {
    /// Called by the last holder of the queue: from here on the tasks keep the queue's memory.
    pub(crate) fn keep_queue(shared: &Arc<Shared<P>>) {
        for count in &shared.task_counts.counts {
            let kept = Arc::into_raw(Arc::clone(shared));
            if count.fetch_or(LEFT, AcqRel) == 0 {
                // SAFETY: from `into_raw` above; without tasks, no task takes it.
                drop(unsafe { Arc::from_raw(kept) });
            }
        }
    }

    /// Counts one more task. The caller holds the queue.
    pub(crate) fn new(shared: &Arc<Shared<P>>, cpu: CpuId) -> Self {
        // Relaxed: the queue's last holder leaves only after the caller's hold on the queue has ended.
        shared.task_counts.count_near(cpu).fetch_add(1, Relaxed);
        let shared = NonNull::new(Arc::as_ptr(shared).cast_mut()).expect("an Arc is not null");
        Self { shared, cpu, listed_at: ListedAt::none() }
    }

    pub(crate) fn polled_on(&self) -> CpuId {
        self.cpu
    }

    /// Lists the task as waiting. Returns false if the queue was shut down at once.
    ///
    /// # Safety
    /// It must be this reference's task, and no other thread may call this or [`Self::unlist`] concurrently. The task must live
    /// until [`Self::unlist`] was called.
    pub(crate) unsafe fn list(&self, task: WaitingTask) -> bool {
        // SAFETY: by this function's contract.
        unsafe { self.listed_at.list(self.queue().task_counts.waiting_near(self.cpu), task) }
    }

    /// # Safety
    /// As for [`Self::list`].
    #[inline]
    pub(crate) unsafe fn unlist(&self) {
        // SAFETY: by this function's contract.
        unsafe { self.listed_at.unlist(|| self.queue().task_counts.waiting_near(self.cpu)) };
    }

    pub(crate) fn queue(&self) -> &Shared<P> {
        // SAFETY: `leave` keeps a reference for this task's count until the task is freed.
        unsafe { self.shared.as_ref() }
    }
}

impl<P: Platform> Drop for TaskRef<P> {
    fn drop(&mut self) {
        // AcqRel: every task's accesses to the queue happen before the queue is freed.
        let before = self.queue().task_counts.count_near(self.cpu).fetch_sub(1, AcqRel);
        if before == LEFT | 1 {
            // SAFETY: `leave` kept a reference for this count, and this was its last task.
            drop(unsafe { Arc::from_raw(self.shared.as_ptr().cast_const()) });
        }
    }
}
