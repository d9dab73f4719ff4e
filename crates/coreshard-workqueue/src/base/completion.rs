//! A latch that a future may also wait for.
//!
//! One *holder* polls it; one *opener* opens it. The holder stores its waker in the cell, and then sets
//! a bit of the latch's word (`POLLED`). While the bit is off and the latch is closed, the cell belongs to the holder.
//! The exchange that opens the latch passes it to the opener, if the bit was on. So the two never access it at
//! the same time, and a holder that never polls pays nothing: the cell is not even written.
//!
//! | step | the word | the cell |
//! |---|---|---|
//! | poll | `POLLED` on (Release), unless it is open | written before; taken back, if it is open |
//! | poll again, forget | `POLLED` off, unless it is open | the holder's again |
//! | open | `OPEN` (AcqRel) | the opener takes the waker, if `POLLED` was on |
//!
//! No wake-up is lost: both change one word, so either the opener sees the bit, or the holder sees it open.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::task::{Context, Waker};

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{DataCell, Platform};

use super::latch::Latch;

/// See the module documentation.
pub(crate) struct Completion<P: Platform> {
    latch: Latch<P>,
    /// Boxed: few items are awaited, and inline it would make all of them larger.
    waker: P::Cell<MaybeUninit<Box<Waker>>>,
}

// SAFETY: the latch's word decides which thread owns the cell, and any thread may use a waker.
unsafe impl<P: Platform> Sync for Completion<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Send for Completion<P> {}

impl<P: Platform> Completion<P> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { latch: Latch::new(), waker: P::Cell::new(MaybeUninit::uninit()) }
    }

    /// The latch, for threads that wait, and for checks.
    #[inline]
    pub(crate) fn latch(&self) -> &Latch<P> {
        &self.latch
    }

    /// Returns whether it is open. If not, the context's waker is woken when it opens.
    ///
    /// # Safety
    /// The caller is its holder. It calls [`Self::forget`] before it releases the memory that this lies in, and the
    /// process was not forked since it was made.
    pub(crate) unsafe fn poll(&self, context: &Context<'_>) -> bool {
        if self.latch.is_open() {
            return true;
        }
        let mut kept = None;
        if self.latch.take_polled() {
            // SAFETY: the bit was on, and the cell belongs to the holder from here.
            kept = Some(unsafe { self.take() }).filter(|kept| kept.will_wake(context.waker()));
        }
        let waker = kept.unwrap_or_else(|| Box::new(context.waker().clone()));
        // SAFETY: the bit is off, so the cell belongs to the holder, and it is empty.
        self.waker.with_mut(|cell| unsafe { (*cell).write(waker) });
        if self.latch.set_polled() {
            return false;
        }
        // SAFETY: written just now; the bit is still off.
        drop(user::discard(unsafe { self.take() }));
        true
    }

    /// Takes back the stored waker, unless the opener has it.
    ///
    /// # Safety
    /// The caller is its holder.
    pub(crate) unsafe fn forget(&self) {
        if self.latch.take_polled() {
            // SAFETY: the bit was on, and the cell belongs to the holder from here.
            drop(user::discard(unsafe { self.take() }));
        }
    }

    /// Opens it, and wakes the waiters. Returns the waker's panic to the caller.
    ///
    /// # Safety
    /// Called once. The caller keeps it alive until this has returned.
    #[inline]
    pub(crate) unsafe fn open(&self) -> Result<(), Thrown> {
        // SAFETY: alive, by this function's contract.
        if unsafe { Latch::open(&raw const self.latch) } {
            // SAFETY: the bit was on when it opened: the cell belongs to the opener.
            return user::wake(*unsafe { self.take() });
        }
        Ok(())
    }

    /// For a model that fails.
    #[cfg(all(test, loom))]
    pub(super) fn leave_without_a_look(&self, waker: Waker) {
        // SAFETY: as in `poll`, whose last step is omitted.
        self.waker.with_mut(|cell| unsafe { (*cell).write(Box::new(waker)) });
        self.latch.set_polled();
    }

    /// # Safety
    /// The cell holds a waker, and the caller owns it.
    unsafe fn take(&self) -> Box<Waker> {
        // SAFETY: by this function's contract.
        self.waker.with_mut(|cell| unsafe { (*cell).assume_init_read() })
    }
}
