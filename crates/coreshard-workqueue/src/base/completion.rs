//! A latch that a future may wait for, too.
//!
//! One *holder* polls it; one *opener* opens it. The holder leaves its waker in the cell, and then says so by
//! a bit of the latch's word (`POLLED`). While the bit is off and the latch is closed, the cell is the holder's;
//! the exchange that opens the latch makes it the opener's, if the bit was on. So the two never touch it at
//! once, and who never polls pays nothing: the cell is not even written.
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

/// See the top of this file.
pub(crate) struct Completion<P: Platform> {
    latch: Latch<P>,
    /// In a box of its own: few items are awaited, and all would be the larger for it.
    waker: P::Cell<MaybeUninit<Box<Waker>>>,
}

// SAFETY: the latch's word says whose the cell is, and a waker may be used by any thread.
unsafe impl<P: Platform> Sync for Completion<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Send for Completion<P> {}

impl<P: Platform> Completion<P> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { latch: Latch::new(), waker: P::Cell::new(MaybeUninit::uninit()) }
    }

    /// For threads that wait, and for looks.
    #[inline]
    pub(crate) fn latch(&self) -> &Latch<P> {
        &self.latch
    }

    /// Whether it is open. If it is not, the context's waker is woken when it is.
    ///
    /// # Safety
    /// The caller is its holder. It calls [`Self::forget`] before it lets go of what this lies in, and the
    /// process was not forked since it was made.
    pub(crate) unsafe fn poll(&self, context: &Context<'_>) -> bool {
        if self.latch.is_open() {
            return true;
        }
        let mut kept = None;
        if self.latch.take_polled() {
            // SAFETY: the bit was on, and the cell is the holder's from here.
            kept = Some(unsafe { self.take() }).filter(|kept| kept.will_wake(context.waker()));
        }
        let waker = kept.unwrap_or_else(|| Box::new(context.waker().clone()));
        // SAFETY: the bit is off, so the cell is the holder's, and there is nothing in it.
        self.waker.with_mut(|cell| unsafe { (*cell).write(waker) });
        if self.latch.set_polled() {
            return false;
        }
        // SAFETY: written just now; the bit is still off.
        drop(user::discard(unsafe { self.take() }));
        true
    }

    /// Takes the waker back that was left, unless the opener has it.
    ///
    /// # Safety
    /// The caller is its holder.
    pub(crate) unsafe fn forget(&self) {
        if self.latch.take_polled() {
            // SAFETY: the bit was on, and the cell is the holder's from here.
            drop(user::discard(unsafe { self.take() }));
        }
    }

    /// Opens it, and wakes whoever waits. What the waker threw is the caller's.
    ///
    /// # Safety
    /// Called once. The caller keeps it until this has returned.
    #[inline]
    pub(crate) unsafe fn open(&self) -> Result<(), Thrown> {
        // SAFETY: alive, by this function's contract.
        if unsafe { Latch::open(&raw const self.latch) } {
            // SAFETY: the bit was on as it opened: the cell is the opener's.
            return user::wake(*unsafe { self.take() });
        }
        Ok(())
    }

    /// For a model that fails.
    #[cfg(all(test, loom))]
    pub(super) fn leave_without_a_look(&self, waker: Waker) {
        // SAFETY: as in `poll`, of whose steps the last is left out.
        self.waker.with_mut(|cell| unsafe { (*cell).write(Box::new(waker)) });
        self.latch.set_polled();
    }

    /// # Safety
    /// There is a waker, and it is the caller's.
    unsafe fn take(&self) -> Box<Waker> {
        // SAFETY: by this function's contract.
        self.waker.with_mut(|cell| unsafe { (*cell).assume_init_read() })
    }
}
