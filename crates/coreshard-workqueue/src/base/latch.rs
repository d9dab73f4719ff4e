//! A word that is set once, and that one or more threads wait for.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform};

/// States; the bits above tell in which process it was made, but for `OPEN`.
const CLOSED: u32 = 0;
/// As `CLOSED`, and somebody sleeps until it opens, or until there is something to do for him.
const AWAITED: u32 = 1;
const OPEN: u32 = 2;
const STATES: u32 = 3;
const PROCESS_SHIFT: u32 = 2;

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
        while self.expect()? {
            P::wait(&self.state, here::<P>(AWAITED), timeout);
            if timeout.is_some() {
                return Some(self.is_open());
            }
        }
        Some(true)
    }

    /// Sleeps until it is open, or until somebody [nudges](Self::nudge) who sleeps here; not at all if
    /// `has_more` by now. True if it is open, `None` where nobody here would open it.
    ///
    /// For a latch that one thread waits for.
    pub(crate) fn wait_for_more(&self, has_more: impl FnOnce() -> bool) -> Option<bool> {
        if !self.expect()? {
            return Some(true);
        }
        let (closed, awaited) = (here::<P>(CLOSED), here::<P>(AWAITED));
        if has_more() {
            // Nobody need nudge. Acquire: or it is open.
            let _ = self.state.compare_exchange(awaited, closed, Acquire, Acquire);
        } else {
            // Relaxed: what it was set to is looked at below.
            while self.state.load(Relaxed) == awaited {
                P::wait(&self.state, awaited, None);
            }
        }
        Some(self.is_open())
    }

    /// Says that somebody sleeps. False if it is open; `None` where nobody here would open it.
    ///
    /// SeqCst pairs with that of [`nudge`](Self::nudge): who says it here, and finds nothing to do then, is
    /// seen by who has something to do later.
    fn expect(&self) -> Option<bool> {
        let (closed, awaited) = (here::<P>(CLOSED), here::<P>(AWAITED));
        // Acquire, on failure: it may be open already.
        match self.state.compare_exchange(closed, awaited, SeqCst, Acquire) {
            Err(OPEN) => Some(false),
            Err(seen) if seen != awaited => None,
            _ => Some(true),
        }
    }

    /// Wakes who sleeps, though it is not open: there is something to do for him. True if somebody slept.
    ///
    /// Where that one and this miss each other, it costs time alone.
    #[cold]
    pub(crate) fn nudge(&self) -> bool {
        let (closed, awaited) = (here::<P>(CLOSED), here::<P>(AWAITED));
        let slept = self.state.load(SeqCst) == awaited
            && self.state.compare_exchange(awaited, closed, AcqRel, Relaxed).is_ok();
        if slept {
            P::wake_all(&raw const self.state);
        }
        slept
    }

    /// Opens it and wakes who sleeps. A waiter may free the latch as soon as it is open, so it is
    /// given by its address, which is all that is used after that.
    ///
    /// # Safety
    /// `latch` is alive until it is open.
    #[allow(unsafe_code)]
    #[inline]
    pub(crate) unsafe fn open(latch: *const Self) {
        // SAFETY: alive by this function's contract. The field's address is computed before.
        let state = unsafe { &raw const (*latch).state };
        // Release publishes what was done before; pairs with the Acquire of `is_open`.
        // SAFETY: alive until this exchange.
        if unsafe { (*state).swap(OPEN, AcqRel) } & STATES == AWAITED {
            P::wake_all(state);
        }
    }
}
