//! Counts the subtasks of a job that a caller waits for.
//!
//! All threads that spawn or finish subtasks would write to the same word once per subtask. So the opener of the job, while
//! its body runs, and a worker that runs its subtasks in a row hold *tickets*: subtasks that are counted, but not yet spawned.
//! Spawning takes a ticket and finishing returns one. The word is written when no ticket is left, and when the worker goes on
//! to another job. Tickets only make the count higher, and never for longer than a subtask or the body runs.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use coreshard_platform::{AtomicInt, Platform};

use crate::base::latch::Latch;

/// Tickets that are taken at once.
const TICKETS: u64 = 16;

/// Subtasks that a worker runs in a row before it counts them as finished, at most.
pub(in crate::pool) const MAX_IN_A_ROW: u64 = 64;

/// A value on one cache line of 64 bytes, not on a pair of them as [`Padded`](coreshard_platform::Padded): subtasks are
/// counted in a frame, and nested scopes have one counter each on their thread's stack.
#[repr(align(64))]
struct Line<T>(T);

/// The number of unfinished subtasks, plus one for the waiter.
pub(crate) struct Parts<P: Platform> {
    /// On its own cache line: a spawner writes it, and then reads the neighbouring fields.
    pending: Line<P::AtomicU64>,
    /// Opens when `pending` falls to 0, unless the waiter is the last.
    done: Latch<P>,
}

impl<P: Platform> Parts<P> {
    pub(crate) fn new() -> Self {
        Self { pending: Line(P::AtomicU64::new(1)), done: Latch::new() }
    }

    pub(crate) fn done(&self) -> &Latch<P> {
        &self.done
    }

    /// Unfinished subtasks and tickets.
    pub(crate) fn pending(&self) -> u64 {
        self.pending.0.load(Relaxed)
    }

    /// Counts a subtask that is about to be spawned. `here` has the tickets of this thread if it is a worker.
    pub(crate) fn begin(&self, here: Option<&Tickets<P>>) {
        // Relaxed: the spawner is counted itself, or is the waiter.
        match here.filter(|tickets| tickets.are_of(self)) {
            None => {
                self.pending.0.fetch_add(1, Relaxed);
            }
            Some(tickets) if tickets.left.get() > 0 => tickets.left.set(tickets.left.get() - 1),
            Some(tickets) => {
                self.pending.0.fetch_add(TICKETS, Relaxed);
                tickets.left.set(TICKETS - 1);
            }
        }
    }

    /// Calls `body` on the waiter's thread. Returns true if subtasks are still pending; otherwise their effects are visible.
    pub(crate) fn open<R>(&self, here: Option<&Tickets<P>>, body: impl FnOnce() -> R) -> (R, bool) {
        let outer = here.map(|tickets| tickets.replace(self));
        let result = body();
        let left = here.zip(outer).map_or(0, |(tickets, outer)| tickets.put_back(outer));
        // Acquire pairs with the Release in `end`: the waiter sees the effects of the subtasks. No thread opens the latch if
        // the waiter is the last.
        (result, self.pending.0.fetch_sub(1 + left, AcqRel) != 1 + left)
    }

    /// Counts this many subtasks as finished.
    ///
    /// # Safety
    /// They were counted, and not yet ended; `parts` lives until the last has finished.
    pub(in crate::pool) unsafe fn end(parts: *const Self, count: u64) {
        // SAFETY: `parts` is alive; the latch's address is computed before the count falls.
        let (pending, done) = unsafe { (&raw const (*parts).pending.0, &raw const (*parts).done) };
        // Release pairs with the Acquire in `open` and of the latch: the waiter sees the effects of the subtasks.
        // SAFETY: the last one opens the latch, and the maker of the counter waits for that, unless the maker was the last
        // itself. Not touched after this.
        unsafe {
            if (*pending).fetch_sub(count, AcqRel) == count {
                Latch::open(done);
            }
        }
    }
}

/// Subtasks that a thread has counted and not yet spawned. They belong to one job at a time, the one that the thread works on.
pub(crate) struct Tickets<P: Platform> {
    of: Cell<*const Parts<P>>,
    left: Cell<u64>,
}

impl<P: Platform> Tickets<P> {
    pub(in crate::pool) fn none() -> Self {
        Self { of: Cell::new(ptr::null()), left: Cell::new(0) }
    }

    #[inline]
    fn are_of(&self, parts: &Parts<P>) -> bool {
        ptr::eq(self.of.get(), parts)
    }

    /// Makes `parts` the job that this thread works on; returns the previous one.
    pub(in crate::pool) fn replace(&self, parts: *const Parts<P>) -> (*const Parts<P>, u64) {
        (self.of.replace(parts), self.left.replace(0))
    }

    /// Restores the previous job; returns the tickets left of the current one.
    pub(in crate::pool) fn put_back(&self, (of, left): (*const Parts<P>, u64)) -> u64 {
        self.of.set(of);
        self.left.replace(left)
    }
}
