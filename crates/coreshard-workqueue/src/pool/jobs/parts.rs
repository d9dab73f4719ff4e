//! Subtasks of one job that is waited for, counted.
//!
//! All threads that spawn or finish subtasks would write to one word for each. So the opener of the job, while its body
//! runs, and a worker that runs its subtasks one after the other hold *tickets*: subtasks that are counted, and not spawned. Spawning
//! takes one of them, finishing gives one back, and the word is written when there are none left and when that worker goes on to
//! something else. Tickets only make the count higher, and never for longer than a subtask or the body runs.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use coreshard_platform::{AtomicInt, Platform};

use crate::base::latch::Latch;

/// Tickets that are got at once.
const TICKETS: u64 = 16;

/// Subtasks that a worker runs in a row before it writes that they have finished, at most.
pub(in crate::pool) const MAX_IN_A_ROW: u64 = 64;

/// A value on one cache line of 64 bytes, not a pair of them as [`Padded`](coreshard_platform::Padded): parts are counted in a frame, and scopes
/// inside one another have as many on their thread's stack.
#[repr(align(64))]
struct Line<T>(T);

/// How many parts are not over, and one for who waits for them.
pub(crate) struct Parts<P: Platform> {
    /// On a line of its own: who spawns writes here, and then reads what lies beside.
    pending: Line<P::AtomicU64>,
    /// Opens when that falls to nothing, unless who waits is the last.
    done: Latch<P>,
}

impl<P: Platform> Parts<P> {
    pub(crate) fn new() -> Self {
        Self { pending: Line(P::AtomicU64::new(1)), done: Latch::new() }
    }

    pub(crate) fn done(&self) -> &Latch<P> {
        &self.done
    }

    /// Those that are not over, and tickets.
    pub(crate) fn pending(&self) -> u64 {
        self.pending.0.load(Relaxed)
    }

    /// Counts a part that is about to be spawned, by a thread with these tickets if it is a worker.
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

    /// Calls `body` of who waits. True if there is something to wait for then; else what the parts did is seen.
    pub(crate) fn open<R>(&self, here: Option<&Tickets<P>>, body: impl FnOnce() -> R) -> (R, bool) {
        let outer = here.map(|tickets| tickets.replace(self));
        let result = body();
        let left = here.zip(outer).map_or(0, |(tickets, outer)| tickets.put_back(outer));
        // Acquire: the waiter sees what the subtasks did. No thread opens the latch if this is the last.
        (result, self.pending.0.fetch_sub(1 + left, AcqRel) != 1 + left)
    }

    /// This many have finished.
    ///
    /// # Safety
    /// They were counted, and not yet ended; `parts` lives until the last has finished.
    pub(in crate::pool) unsafe fn end(parts: *const Self, count: u64) {
        // SAFETY: it is there; the latch's address is computed before.
        let (pending, done) = unsafe { (&raw const (*parts).pending.0, &raw const (*parts).done) };
        // Release: who waits sees what was done.
        // SAFETY: the last one opens the latch, and who made this waits for that, unless it was the last itself. Not touched after.
        unsafe {
            if (*pending).fetch_sub(count, AcqRel) == count {
                Latch::open(done);
            }
        }
    }
}

/// Subtasks that a thread has counted and not spawned: of one job at a time, the one that it works on.
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

    /// This thread begins to work on `parts`; returns what it worked on before.
    pub(in crate::pool) fn replace(&self, parts: *const Parts<P>) -> (*const Parts<P>, u64) {
        (self.of.replace(parts), self.left.replace(0))
    }

    /// It has ended that, and is at what it was before; how many were left.
    pub(in crate::pool) fn put_back(&self, (of, left): (*const Parts<P>, u64)) -> u64 {
        self.of.set(of);
        self.left.replace(left)
    }
}
