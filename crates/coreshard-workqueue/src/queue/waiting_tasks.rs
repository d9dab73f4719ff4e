//! The waiting tasks of a queue, listed so that an immediate shutdown can drop them.
//!
//! The worker that polls a task lists it when the task waits for the first time. Whichever thread drops the task's future takes
//! it off. A task that completes in its first poll is never listed. A listed task is not done, so it is still allocated.
//!
//! Rules:
//!
//! 1. Closing the list takes a reference to each task under the list's lock, then refuses each task after releasing the lock:
//!    the future is dropped there, or by the worker that polls it at that moment.
//! 2. A task that reaches a closed list is refused before it is left waiting.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use coreshard_platform::{AtomicInt, DataCell, Lock, Padded, Platform};
use coreshard_topology::CpuId;

/// A waiting task.
#[derive(Clone, Copy)]
pub(crate) struct WaitingTask {
    pub(crate) task: NonNull<()>,
    pub(crate) table: &'static WaitingTable,
}

/// The operations on a waiting task.
pub(crate) struct WaitingTable {
    /// Takes a reference to a live task.
    pub(crate) hold: unsafe fn(NonNull<()>),
    /// Has the task's future dropped, so that it is not polled again, and gives up the reference.
    pub(crate) refuse: unsafe fn(NonNull<()>),
}

// SAFETY: it points to a task, which is designed to be shared.
unsafe impl Send for WaitingTask {}

/// A task's position on the list. Only the holder of the task's future accesses it.
pub(crate) struct ListedAt<P: Platform>(P::Cell<u32>);

const UNLISTED: u32 = u32::MAX;

impl<P: Platform> ListedAt<P> {
    pub(crate) fn none() -> Self {
        Self(P::Cell::new(UNLISTED))
    }

    /// Lists a task that may not be listed yet. Returns false if the list is closed.
    ///
    /// # Safety
    /// No other thread accesses this, and the task lives until [`Self::unlist`] was called.
    pub(crate) unsafe fn list(&self, waiting: &WaitingTasks<P>, task: WaitingTask) -> bool {
        // SAFETY: no other thread accesses it, by this function's contract.
        if self.0.with(|place| unsafe { *place }) != UNLISTED {
            return true;
        }
        let added = waiting.add(task);
        if let Some(at) = added {
            // SAFETY: as above.
            self.0.with_mut(|place| unsafe { *place = at });
        }
        added.is_some()
    }

    /// Takes the task off the list, if it is listed.
    ///
    /// # Safety
    /// No other thread accesses this.
    #[inline]
    pub(crate) unsafe fn unlist<'list>(&self, waiting: impl FnOnce() -> &'list WaitingTasks<P>) {
        // SAFETY: no other thread accesses it, by this function's contract.
        let place = self.0.with(|place| unsafe { *place });
        if place != UNLISTED {
            waiting().remove(place);
        }
    }
}

pub(crate) struct WaitingTasks<P: Platform> {
    list: Lock<P, WaitingList>,
}

struct WaitingList {
    /// `None` for a free place.
    places: Vec<Option<WaitingTask>>,
    free: Vec<u32>,
    is_closed: bool,
}

impl<P: Platform> WaitingTasks<P> {
    pub(crate) fn new() -> Self {
        let list = WaitingList { places: Vec::new(), free: Vec::new(), is_closed: false };
        Self { list: Lock::new(list) }
    }

    /// Lists a task and returns its place; `None` if the list is closed.
    fn add(&self, task: WaitingTask) -> Option<u32> {
        let mut list = self.list.lock();
        if list.is_closed {
            return None;
        }
        Some(match list.free.pop() {
            Some(place) => {
                list.places[place as usize] = Some(task);
                place
            }
            None => {
                list.places.push(Some(task));
                (list.places.len() - 1) as u32
            }
        })
    }

    fn remove(&self, place: u32) {
        let mut list = self.list.lock();
        list.places[place as usize] = None;
        list.free.push(place);
    }

    /// Refuses all listed tasks, and any that come later.
    pub(crate) fn close(&self) {
        self.refuse_all(true);
    }

    /// Incorrect on purpose, for a model that must fail.
    #[cfg(all(test, loom))]
    pub(crate) fn refuse_those_here(&self) {
        self.refuse_all(false);
    }

    fn refuse_all(&self, closes: bool) {
        let held: Vec<WaitingTask> = {
            let mut list = self.list.lock();
            list.is_closed |= closes;
            let tasks = list.places.iter().flatten();
            // SAFETY: by the contract of `ListedAt::list`: the task is not taken off while the lock is held, so it is alive.
            tasks.inspect(|listed| unsafe { (listed.table.hold)(listed.task) }).copied().collect()
        };
        for WaitingTask { task, table } in held {
            // SAFETY: the reference was taken above.
            unsafe { (table.refuse)(task) };
        }
    }
}

/// Set when the queue has no holder left: the last task of this count then releases the queue.
pub(super) const LEFT: u64 = 1 << 63;

/// How many tasks there are, counted separately for each pod, so that tasks of two pods write no cache line in common. All
/// tasks of one count together hold one reference to the queue.
pub(crate) struct TaskCounts<P: Platform> {
    pub(super) counts: Box<[Padded<P::AtomicU64>]>,
    /// The waiting tasks, by the same counts.
    waiting: Box<[Padded<WaitingTasks<P>>]>,
}

impl<P: Platform> TaskCounts<P> {
    pub(crate) fn new(pods: usize) -> Self {
        Self {
            counts: (0..pods).map(|_| Padded::new(P::AtomicU64::new(0))).collect(),
            waiting: (0..pods).map(|_| Padded::new(WaitingTasks::new())).collect(),
        }
    }

    /// The count of the tasks that are polled near `cpu`.
    pub(super) fn count_near(&self, cpu: CpuId) -> &P::AtomicU64 {
        &self.counts[cpu.index() % self.counts.len()]
    }

    /// Those of them that wait.
    pub(super) fn waiting_near(&self, cpu: CpuId) -> &WaitingTasks<P> {
        &self.waiting[cpu.index() % self.waiting.len()]
    }

    /// Drops the tasks that wait, and any that would wait later.
    pub(super) fn drop_waiting(&self) {
        self.waiting.iter().for_each(|waiting| waiting.close());
    }
}
