//! A word that is set once, and that one or more threads wait for. Futures can wait as well, see `completion.rs`.

use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform, WaitOutcome};

/// States. The bits above identify the process that made it, except in `OPEN`.
const CLOSED: u32 = 0;
/// As `CLOSED`, and a thread sleeps until it opens.
const AWAITED: u32 = 1;
const OPEN: u32 = 2;
/// As `CLOSED`, and the waiter looks for other work meanwhile.
const HELPED: u32 = 3;
/// As `HELPED`, but the waiter found no work and sleeps.
const HELPER_SLEEPS: u32 = 4;
/// A bit beside any of them but `OPEN`: a waker was stored for the opener.
const POLLED: u32 = 8;
const STATES: u32 = 15;
const PROCESS_SHIFT: u32 = 4;

/// Adds this process's bits to a state.
fn here<P: Platform>(state: u32) -> u32 {
    P::process_generation() << PROCESS_SHIFT | state
}

/// Opened once, by the thread that finishes the awaited work.
#[derive(Debug)]
pub(crate) struct Latch<P: Platform> {
    state: P::AtomicU32,
}

impl<P: Platform> Latch<P> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { state: P::AtomicU32::new(here::<P>(CLOSED)) }
    }

    /// True once it is open. Everything before [`Latch::open`] is then visible.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.state.load(Acquire) == OPEN
    }

    /// True if it is not open and this process was forked since it was made: its opener does not exist here.
    pub(crate) fn is_orphaned(&self) -> bool {
        let seen = self.state.load(Acquire);
        seen != OPEN && seen & !STATES != here::<P>(CLOSED)
    }

    /// Sleeps until it is open. Returns false at once if it is not and this process was forked since it was made: its opener
    /// does not exist here.
    pub(crate) fn wait(&self) -> bool {
        self.await_for(None).is_some()
    }

    /// As [`wait`](Self::wait), but not for longer than about `timeout`. Returns true if it is open by then.
    pub(crate) fn wait_timeout(&self, timeout: Duration) -> bool {
        self.await_for(Some(timeout)).unwrap_or(false)
    }

    /// Returns whether it is open, or `None` if no thread of this process would open it.
    fn await_for(&self, timeout: Option<Duration>) -> Option<bool> {
        let awaited = here::<P>(AWAITED);
        // Acquire pairs with the Release of `open`: it may be open already. A helper waits plainly from here on.
        match self.move_on(&[here::<P>(CLOSED), here::<P>(HELPED)], awaited, Acquire) {
            Err(OPEN) => return Some(true),
            Err(seen) if seen & !POLLED != awaited => return None,
            _ => {}
        }
        while !self.is_open() {
            // Relaxed: if the word has changed by then, the wait ends at once.
            P::wait(&self.state, awaited | self.state.load(Relaxed) & POLLED, timeout);
            if timeout.is_some() {
                break;
            }
        }
        Some(self.is_open())
    }

    /// Announces a waker that was stored for the opener. Returns false, and changes nothing, if it is open, or if no thread of
    /// this process would open it.
    pub(crate) fn set_polled(&self) -> bool {
        // Release pairs with the Acquire of `open`: the opener sees the waker.
        self.change_polled(|seen| Some(seen | POLLED), Release)
    }

    /// Withdraws the stored waker. Returns false if there is none, or if the opener has it.
    pub(crate) fn take_polled(&self) -> bool {
        // Relaxed: the caller itself has stored that waker.
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

    /// Announces that the waiter, which is this thread alone, runs other work meanwhile if there is any.
    pub(crate) fn begin_helping(&self) {
        let _ = self.move_on(&[here::<P>(CLOSED), here::<P>(AWAITED)], here::<P>(HELPED), Acquire);
    }

    /// Announces that the waiter has found work. SeqCst: see `nudge`.
    pub(crate) fn stop_helping(&self) {
        let _ = self.move_on(&[here::<P>(HELPED)], here::<P>(CLOSED), SeqCst);
    }

    /// After [`begin_helping`](Self::begin_helping): sleeps until it is open, or until [`nudge`](Self::nudge)
    /// reports work. Does not sleep if `has_more` returns true.
    ///
    /// Sleeps for at most about `timeout`; returns true if that expired.
    pub(crate) fn wait_for_more(
        &self,
        has_more: impl FnOnce() -> bool,
        timeout: Option<Duration>,
    ) -> bool {
        let (helped, asleep) = (here::<P>(HELPED), here::<P>(HELPER_SLEEPS));
        // SeqCst pairs with the SeqCst of `nudge`: if a waiter announces here that it sleeps, and then finds no work, a
        // thread that adds work later sees the announcement.
        if self.move_on(&[helped], asleep, SeqCst).is_err() {
            return false;
        }
        if has_more() {
            let _ = self.move_on(&[asleep], helped, Relaxed);
            return false;
        }
        loop {
            // Relaxed: a caller that must know whether it is open checks `is_open`.
            let seen = self.state.load(Relaxed);
            if seen & !POLLED != asleep {
                return false;
            }
            if P::wait(&self.state, seen, timeout) == WaitOutcome::TimedOut {
                // Unless it is open by now, or was nudged.
                return self.move_on(&[asleep], helped, Relaxed).is_ok();
            }
        }
    }

    /// Tells the waiter that there is work. Returns false if no idle waiter exists.
    ///
    /// If a nudge and a waiter miss each other, that only costs time. SeqCst pairs with the SeqCst of `stop_helping` and
    /// `wait_for_more`: if a thread publishes jobs and then finds no waiter here, a waiter that looks for jobs after its
    /// announcement finds them.
    #[cold]
    pub(crate) fn nudge(&self) -> bool {
        let (helped, asleep) = (here::<P>(HELPED), here::<P>(HELPER_SLEEPS));
        let seen = self.state.load(SeqCst);
        if seen & !POLLED == asleep {
            let next = helped | seen & POLLED;
            if self.state.compare_exchange(seen, next, AcqRel, Relaxed).is_ok() {
                P::wake_all(&raw const self.state);
                return true;
            }
        }
        seen & !POLLED == helped
    }

    /// Moves from one of the states `from` to `to`, and keeps `POLLED`. Fails with the current state if that is another.
    fn move_on(&self, from: &[u32], to: u32, success: Ordering) -> Result<(), u32> {
        let mut seen = self.state.load(Acquire);
        while from.contains(&(seen & !POLLED)) {
            let next = to | seen & POLLED;
            match self.state.compare_exchange(seen, next, success, Acquire) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
        Err(seen)
    }

    /// Opens it and wakes the sleepers. Returns true if a waker was stored: the caller now owns it. A waiter may free the
    /// latch as soon as it is open. So it is passed by address, and only the address is used after that.
    ///
    /// # Safety
    /// `latch` is alive until it is open.
    #[allow(unsafe_code)]
    #[inline]
    pub(crate) unsafe fn open(latch: *const Self) -> bool {
        // SAFETY: alive by this function's contract. The field's address is computed before it opens.
        let state = unsafe { &raw const (*latch).state };
        // Release pairs with the Acquire of `is_open` and publishes everything before. Acquire pairs with the Release of
        // `set_polled`, for the stored waker.
        //
        // Not SeqCst: a waiter announces its sleep in this very word, by an exchange (`await_for`, `wait_for_more`). Its
        // partner is this exchange, and one of the two comes first in the word's own order. Either this one reads the
        // announcement and wakes the waiter, or the waiter reads `OPEN` and does not sleep. SeqCst would order this word with
        // others; only `nudge` needs that, and it does not open.
        // SAFETY: alive until this exchange.
        let before = unsafe { (*state).swap(OPEN, AcqRel) } & STATES;
        if before == CLOSED {
            return false;
        }
        if matches!(before & !POLLED, AWAITED | HELPER_SLEEPS) {
            P::wake_all(state);
        }
        before & POLLED != 0
    }
}
