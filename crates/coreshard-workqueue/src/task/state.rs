//! The state word of a task. `README.md` beside this file describes the protocol.
//!
//! | bits | name | set by | cleared by |
//! |---|---|---|---|
//! | 0 | `SCHEDULED`: it is to be polled or closed; an item for that is on its way, unless `RUNNING` | the thread that spawns, wakes, or cancels it | the item that begins |
//! | 1 | `RUNNING`: a worker polls it, or closes it | that worker | that worker |
//! | 2 | `DONE`: the future was dropped, the outcome is available | that worker, with `RUNNING` cleared | – |
//! | 3 | `CANCELLED`: it is polled no more | its handle; the thread that drops the last reference | – |
//! | 4 | `HANDLE`: its handle exists, and owns the outcome | spawn | the handle |
//! | 5 | `AWAITED`: the handle's owner has left a waker | the handle | – |
//! | 6 | `REFUSED`: it is polled no more since its queue is closed; with `CANCELLED` only | the thread that finds it closed | – |
//! | 8–23 | senders: threads inside the schedule function | the thread that schedules it | the same |
//! | 24–63 | references: the item on its way, the handle, each waker | | |

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use coreshard_platform::{AtomicInt, Platform};

pub(super) const SCHEDULED: u64 = 1 << 0;
pub(super) const RUNNING: u64 = 1 << 1;
pub(super) const DONE: u64 = 1 << 2;
pub(super) const CANCELLED: u64 = 1 << 3;
pub(super) const HANDLE: u64 = 1 << 4;
pub(super) const AWAITED: u64 = 1 << 5;
pub(super) const REFUSED: u64 = 1 << 6;
pub(super) const ONE_SENDER: u64 = 1 << 8;
pub(super) const ONE_REFERENCE: u64 = 1 << 24;
const SENDERS: u64 = ONE_REFERENCE - ONE_SENDER;

/// Returns true while a waker may be sending the task to the queue. Without senders, the queue reference of a done task can be
/// released.
pub(super) fn has_senders(word: u64) -> bool {
    word & SENDERS != 0
}

pub(super) fn references(word: u64) -> u64 {
    word / ONE_REFERENCE
}

/// Returns true if no thread can access the task any more.
fn is_left(word: u64) -> bool {
    !has_senders(word) && references(word) == 0
}

/// The action required of the thread that made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Nothing,
    /// Send it: the caller counts as a sender, and a reference belongs to the item.
    Send,
    /// Close it: the caller, which has `RUNNING`, drops the future.
    Close,
    /// Free it: no other thread can access it.
    Free,
}

pub(super) struct TaskState<P: Platform> {
    word: P::AtomicU64,
}

impl<P: Platform> TaskState<P> {
    /// The state of a new task with a handle, which the spawning thread sends.
    pub(super) fn new() -> Self {
        Self { word: P::AtomicU64::new(SCHEDULED | HANDLE | (2 * ONE_REFERENCE)) }
    }

    pub(super) fn load(&self) -> u64 {
        self.word.load(Acquire)
    }

    /// Replaces the word by the result of `step`; `None` leaves it. Returns the previous word.
    ///
    /// AcqRel, since almost every pair of steps hands something over: wake → poll (the waker's caller's writes), poll → poll
    /// (the future), done → handle (the outcome), last reference → free (everything).
    #[inline]
    fn change<R>(&self, mut step: impl FnMut(u64) -> (u64, R)) -> R {
        let mut seen = self.word.load(Acquire);
        loop {
            let (next, result) = step(seen);
            match self.word.compare_exchange(seen, next, AcqRel, Acquire) {
                Ok(_) => return result,
                Err(now) => seen = now,
            }
        }
    }

    /// Adds a reference for a cloned waker.
    pub(super) fn add_reference(&self) {
        // AcqRel costs nothing here; the count cannot overflow: it has 40 bits.
        self.word.fetch_add(ONE_REFERENCE, AcqRel);
    }

    /// Wakes the task. `by_value` hands the caller's reference over. Writes the word unless the task is done, so that the next
    /// poll sees the caller's earlier writes.
    #[inline]
    pub(super) fn wake(&self, by_value: bool) -> Next {
        let gives = |seen: u64| if by_value { seen - ONE_REFERENCE } else { seen };
        self.change(|seen| {
            if seen & (DONE | SCHEDULED | RUNNING) == 0 {
                let item = if by_value { 0 } else { ONE_REFERENCE };
                return ((seen | SCHEDULED) + item + ONE_SENDER, Next::Send);
            }
            if seen & DONE != 0 {
                let next = gives(seen);
                return (next, if is_left(next) { Next::Free } else { Next::Nothing });
            }
            // An item is on its way, or a worker runs it: each holds a reference.
            (gives(seen) | SCHEDULED, Next::Nothing)
        })
    }

    /// Drops a reference of a waker or the item. If it was the last one of a task that is not done, the task can never be
    /// woken, so it must be closed.
    pub(super) fn drop_reference(&self) -> Next {
        self.change(|seen| {
            if references(seen) == 1 && seen & DONE == 0 {
                return ((seen | SCHEDULED | CANCELLED) + ONE_SENDER, Next::Send);
            }
            let next = seen - ONE_REFERENCE;
            (next, if is_left(next) { Next::Free } else { Next::Nothing })
        })
    }

    /// Begins the item that was on its way, on a worker. Returns false if the future is to be closed, not polled.
    #[inline]
    pub(super) fn begin(&self) -> bool {
        // Clears SCHEDULED and sets RUNNING.
        self.word.fetch_add(RUNNING - SCHEDULED, AcqRel) & CANCELLED == 0
    }

    /// Ends a poll that has left the future waiting.
    #[inline]
    pub(super) fn suspend(&self) -> Next {
        self.change(|seen| {
            if seen & CANCELLED != 0 {
                (seen, Next::Close)
            } else if seen & SCHEDULED != 0 {
                // It was woken meanwhile; the waker may have had the last reference besides the worker's.
                (seen - RUNNING + ONE_SENDER, Next::Send)
            } else if references(seen) == 1 {
                // The last reference is the worker's: the task can never be woken.
                (seen, Next::Close)
            } else {
                (seen - RUNNING - ONE_REFERENCE, Next::Nothing)
            }
        })
    }

    /// Marks the task as done: the future was dropped, the outcome is available. `unwanted` is called first, once, if there is
    /// no handle. Returns the previous word; if it was `AWAITED`, the caller counts as a sender.
    #[inline]
    pub(super) fn finish(&self, mut unwanted: impl FnMut()) -> u64 {
        let mut was_told = false;
        let mut seen = self.word.load(Acquire);
        loop {
            if seen & HANDLE == 0 && !was_told {
                unwanted();
                was_told = true;
            }
            let sender = if seen & AWAITED != 0 { ONE_SENDER } else { 0 };
            match self.word.compare_exchange(seen, seen - RUNNING + DONE + sender, AcqRel, Acquire)
            {
                Ok(_) => return seen,
                Err(now) => seen = now,
            }
        }
    }

    /// Removes a sender. The last sender of a task that is done calls `release` first: no sender comes after it.
    #[inline]
    pub(super) fn sent(&self, mut release: impl FnMut()) -> Next {
        let mut was_told = false;
        let mut seen = self.word.load(Acquire);
        loop {
            let next = seen - ONE_SENDER;
            if seen & DONE != 0 && !has_senders(next) && !was_told {
                release();
                was_told = true;
            }
            match self.word.compare_exchange(seen, next, AcqRel, Acquire) {
                Ok(_) if is_left(next) => return Next::Free,
                Ok(_) => return Next::Nothing,
                Err(now) => seen = now,
            }
        }
    }

    /// Removes a sender like [`Self::sent`]; returns false, without a change, for the last sender of a task that is done.
    pub(super) fn sent_unless_last(&self) -> bool {
        self.change(|seen| {
            let next = seen - ONE_SENDER;
            if seen & DONE != 0 && !has_senders(next) { (seen, false) } else { (next, true) }
        })
    }

    /// Records that the handle's owner has left a waker. Returns true if the outcome is available already.
    pub(super) fn await_end(&self) -> bool {
        self.word.fetch_or(AWAITED, AcqRel) & DONE != 0
    }

    /// Cancels the task. The caller keeps its reference.
    pub(super) fn cancel(&self) -> Next {
        self.cancel_as(CANCELLED)
    }

    /// Cancels the task like [`Self::cancel`], because its queue is closed: the handle reports that, unless the task was
    /// cancelled before.
    pub(super) fn refuse(&self) -> Next {
        self.cancel_as(CANCELLED | REFUSED)
    }

    fn cancel_as(&self, how: u64) -> Next {
        self.change(|seen| {
            if seen & (DONE | CANCELLED) != 0 {
                (seen, Next::Nothing)
            } else if seen & (SCHEDULED | RUNNING) == 0 {
                ((seen | SCHEDULED | how) + ONE_REFERENCE + ONE_SENDER, Next::Send)
            } else {
                (seen | how, Next::Nothing)
            }
        })
    }

    /// Drops the handle; a task that is not done is cancelled, or continues without it. `None` if it is done: the handle still
    /// owns the outcome and the reference.
    pub(super) fn let_go(&self, cancels: bool) -> Option<Next> {
        self.change(|seen| {
            if seen & DONE != 0 {
                return (seen, None);
            }
            let is_idle = seen & (SCHEDULED | RUNNING) == 0;
            let next = seen & !HANDLE;
            if is_idle && (cancels || references(seen) == 1) {
                // The handle's reference passes to the item.
                return ((next | SCHEDULED | CANCELLED) + ONE_SENDER, Some(Next::Send));
            }
            let cancelled = if cancels { CANCELLED } else { 0 };
            ((next | cancelled) - ONE_REFERENCE, Some(Next::Nothing))
        })
    }
}
