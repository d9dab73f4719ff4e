//! Tasks of a queue that wait, so that they can be dropped when it is shut down at once.
//!
//! A task is listed when it waits for the first time, by the worker that polls it, and is taken off by whoever drops
//! its future: one that ends in its first poll is never here. While it is on the list it is not done, and so there.
//!
//! Rules:
//!
//! 1. Under the list's lock, whoever closes it takes a reference to each task, and after that refuses each: the
//!    future is dropped there, or by the worker that polls it at that moment.
//! 2. A task that comes to a list that is closed is refused before it is left waiting.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use coreshard_platform::{AtomicInt, DataCell, Lock, Padded, Platform};

/// A task that waits.
#[derive(Clone, Copy)]
pub(crate) struct WaitingTask {
    pub(crate) task: NonNull<()>,
    pub(crate) table: &'static WaitingTable,
}

/// What is done with one.
pub(crate) struct WaitingTable {
    /// Takes a reference to a task that is there.
    pub(crate) hold: unsafe fn(NonNull<()>),
    /// Has its future dropped, which is polled no more, and gives that reference up.
    pub(crate) refuse: unsafe fn(NonNull<()>),
}

// SAFETY: it leads to a task, which was made to be shared.
unsafe impl Send for WaitingTask {}

/// Where a task is on its list. Whoever has the task's future touches it.
pub(crate) struct ListedAt<P: Platform>(P::Cell<u32>);

const UNLISTED: u32 = u32::MAX;

impl<P: Platform> ListedAt<P> {
    pub(crate) fn none() -> Self {
        Self(P::Cell::new(UNLISTED))
    }

    /// Lists a task that is not listed yet. False if the list is closed.
    ///
    /// # Safety
    /// Nobody else touches this, and the task is there until [`Self::unlist`] was called.
    pub(crate) unsafe fn list(&self, waiting: &WaitingTasks<P>, task: WaitingTask) -> bool {
        // SAFETY: nobody else is here.
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

    /// Takes it off, if it is listed.
    ///
    /// # Safety
    /// Nobody else touches this.
    #[inline]
    pub(crate) unsafe fn unlist<'list>(&self, waiting: impl FnOnce() -> &'list WaitingTasks<P>) {
        // SAFETY: nobody else is here.
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
    /// `None` for a place that is free.
    places: Vec<Option<WaitingTask>>,
    free: Vec<u32>,
    is_closed: bool,
}

impl<P: Platform> WaitingTasks<P> {
    pub(crate) fn new() -> Self {
        let list = WaitingList { places: Vec::new(), free: Vec::new(), is_closed: false };
        Self { list: Lock::new(list) }
    }

    /// Lists a task, and tells its place; `None` if the list is closed.
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

    /// Refuses all tasks that are here, and those that would come.
    pub(crate) fn close(&self) {
        self.refuse_all(true);
    }

    /// For a model that fails.
    #[cfg(all(test, loom))]
    pub(crate) fn refuse_those_here(&self) {
        self.refuse_all(false);
    }

    fn refuse_all(&self, closes: bool) {
        let held: Vec<WaitingTask> = {
            let mut list = self.list.lock();
            list.is_closed |= closes;
            let tasks = list.places.iter().flatten();
            // SAFETY: by the contract of `ListedAt::list`: it is not taken off while the lock is held, so it is there.
            tasks.inspect(|listed| unsafe { (listed.table.hold)(listed.task) }).copied().collect()
        };
        for WaitingTask { task, table } in held {
            // SAFETY: the reference was taken above.
            unsafe { (table.refuse)(task) };
        }
    }
}

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
