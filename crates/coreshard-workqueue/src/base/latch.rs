//! A word that is set once, and that one or more threads wait for; a future, too, see `completion.rs`.

use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform};

/// States; the bits above tell in which process it was made, but for `OPEN`.
const CLOSED: u32 = 0;
/// As `CLOSED`, and somebody sleeps until it opens.
const AWAITED: u32 = 1;
const OPEN: u32 = 2;
/// A bit beside `CLOSED` or `AWAITED`: a waker was left for whoever opens it.
const POLLED: u32 = 4;
const STATES: u32 = 7;
const PROCESS_SHIFT: u32 = 3;

/// A state, in this process.
fn here<P: Platform>(state: u32) -> u32 {
    P::process_generation() << PROCESS_SHIFT | state
}

/// Opened once, by whoever finishes what others wait for.
#[derive(Debug)]
pub(crate) struct Latch<P: Platform> {
    state: P::AtomicU32,
}

impl<P: Platform> Latch<P> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { state: P::AtomicU32::new(here::<P>(CLOSED)) }
    }

    /// True once it is open: what was done before [`Latch::open`] is seen.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.state.load(Acquire) == OPEN
    }

    /// True if it is not open and this process was forked since it was made: who would open it is
    /// not here.
    pub(crate) fn is_orphaned(&self) -> bool {
        let seen = self.state.load(Acquire);
        seen != OPEN && seen & !STATES != here::<P>(CLOSED)
    }

    /// Sleeps until it is open. False, at once, if it is not and this process was forked since it
    /// was made: who would open it is not here.
    pub(crate) fn wait(&self) -> bool {
        self.await_for(None).is_some()
    }

    /// As [`wait`](Self::wait), but not for longer than about `timeout`: true where it is open by then.
    pub(crate) fn wait_timeout(&self, timeout: Duration) -> bool {
        self.await_for(Some(timeout)).unwrap_or(false)
    }

    /// Whether it is open; `None` where nobody here would open it.
    fn await_for(&self, timeout: Option<Duration>) -> Option<bool> {
        let (closed, awaited) = (here::<P>(CLOSED), here::<P>(AWAITED));
        // Acquire: it may be open already.
        match self.state.compare_exchange(closed, awaited, Acquire, Acquire) {
            Err(OPEN) => return Some(true),
            Err(seen) if seen != awaited => return None,
            _ => {}
        }
        while !self.is_open() {
            P::wait(&self.state, awaited, timeout);
            if timeout.is_some() {
                break;
            }
        }
        Some(self.is_open())
    }

    /// Says that a waker was left for whoever opens it. False if it is open, or nobody here would open it:
    /// then nothing is changed.
    pub(crate) fn set_polled(&self) -> bool {
        // Release: whoever opens it sees the waker.
        self.change_polled(|seen| Some(seen | POLLED), Release)
    }

    /// Takes the waker back that was left. False if there is none, or if it is whoever opens it that has it.
    pub(crate) fn take_polled(&self) -> bool {
        // Relaxed: the caller has left that waker.
        self.change_polled(|seen| (seen & POLLED != 0).then_some(seen & !POLLED), Relaxed)
    }

    fn change_polled(&self, change: impl Fn(u32) -> Option<u32>, success: Ordering) -> bool {
        let mut seen = self.state.load(Acquire);
        loop {
            if seen == OPEN || seen & !STATES != here::<P>(CLOSED) {
                return false;
            }
            let Some(next) = change(seen) else { return false };
            match self.state.compare_exchange(seen, next, success, Acquire) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Opens it and wakes who sleeps. True if a waker was left: it is the caller's now. A waiter may free the latch as soon as it is open, so it is
    /// given by its address, which is all that is used after that.
    ///
    /// # Safety
    /// `latch` is alive until it is open.
    #[allow(unsafe_code)]
    #[inline]
    pub(crate) unsafe fn open(latch: *const Self) -> bool {
        // SAFETY: alive by this function's contract. The field's address is computed before.
        let state = unsafe { &raw const (*latch).state };
        // Release publishes what was done before; pairs with the Acquire of `is_open`. Acquire: the waker that
        // was left, see `set_polled`.
        // SAFETY: alive until this exchange.
        let seen = unsafe { (*state).swap(OPEN, AcqRel) } & STATES;
        if seen == CLOSED {
            return false;
        }
        if seen & AWAITED != 0 {
            P::wake_all(state);
        }
        seen & POLLED != 0
    }
}
