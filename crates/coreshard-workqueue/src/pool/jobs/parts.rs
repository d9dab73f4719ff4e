//! Many parts of one thing that somebody waits for, counted.
//!
//! All threads that spawn parts, or end them, would write to one word for each. So whoever opened the thing, while its body
//! runs, and a worker that runs its parts one after the other have *tickets*: parts that are counted, and that nobody has spawned. What is
//! spawned takes one of them, what is over gives one back, and the word is written when there are none left and when that worker goes on to
//! something else. Tickets only make the count higher, and never for longer than a part runs, or the body.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use coreshard_platform::{AtomicInt, Platform};

use crate::base::latch::Latch;

/// Tickets that are got at once.
const TICKETS: u64 = 16;

/// Parts that a worker runs in a row before it writes that they are over, at most.
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
        // Relaxed: whoever spawns is counted itself, or is who waits.
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
        // Acquire: what was spawned is seen to be done. Nobody opens the latch if this is the last.
        (result, self.pending.0.fetch_sub(1 + left, AcqRel) != 1 + left)
    }

    /// So many are over.
    ///
    /// # Safety
    /// They were counted, and not yet ended; `parts` is there until the last is over.
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

/// What a thread has counted and not spawned: of one thing at a time, that which it is at.
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

    /// This thread begins something of `parts`; what it was at before.
    pub(in crate::pool) fn replace(&self, parts: *const Parts<P>) -> (*const Parts<P>, u64) {
        (self.of.replace(parts), self.left.replace(0))
    }

    /// It has ended that, and is at what it was before; how many were left.
    pub(in crate::pool) fn put_back(&self, (of, left): (*const Parts<P>, u64)) -> u64 {
        self.of.set(of);
        self.left.replace(left)
    }
}
