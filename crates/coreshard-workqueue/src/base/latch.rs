//! A word that is set once, and that one or more threads wait for; a future, too, see `completion.rs`.

use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform, WaitOutcome};

/// States; the bits above tell in which process it was made, but for `OPEN`.
const CLOSED: u32 = 0;
/// As `CLOSED`, and somebody sleeps until it opens.
const AWAITED: u32 = 1;
const OPEN: u32 = 2;
/// As `CLOSED`, and who waits for it looks for something to do meanwhile.
const HELPED: u32 = 3;
/// As `HELPED`, but there was nothing: it sleeps.
const HELPER_SLEEPS: u32 = 4;
/// A bit beside any of them but `OPEN`: a waker was left for whoever opens it.
const POLLED: u32 = 8;
const STATES: u32 = 15;
const PROCESS_SHIFT: u32 = 4;

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
        let awaited = here::<P>(AWAITED);
        // Acquire, with the Release of `open`: it may be open already. Who helped waits plainly from here on.
        match self.move_on(&[here::<P>(CLOSED), here::<P>(HELPED)], awaited, Acquire) {
            Err(OPEN) => return Some(true),
            Err(seen) if seen & !POLLED != awaited => return None,
            _ => {}
        }
        while !self.is_open() {
            // Relaxed: where it is another word by then, the wait ends at once.
            P::wait(&self.state, awaited | self.state.load(Relaxed) & POLLED, timeout);
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

    /// Says that whoever waits for it, which is this thread alone, does something else meanwhile if there is
    /// something.
    pub(crate) fn begin_helping(&self) {
        let _ = self.move_on(&[here::<P>(CLOSED), here::<P>(AWAITED)], here::<P>(HELPED), Acquire);
    }

    /// Says that it has found something to do. SeqCst: see `nudge`.
    pub(crate) fn stop_helping(&self) {
        let _ = self.move_on(&[here::<P>(HELPED)], here::<P>(CLOSED), SeqCst);
    }

    /// After [`begin_helping`](Self::begin_helping): sleeps until it is open, or until [`nudge`](Self::nudge)
    /// tells of something to do; not at all if `has_more` by now.
    ///
    /// Not for longer than about `timeout`: true where that ran out.
    pub(crate) fn wait_for_more(
        &self,
        has_more: impl FnOnce() -> bool,
        timeout: Option<Duration>,
    ) -> bool {
        let (helped, asleep) = (here::<P>(HELPED), here::<P>(HELPER_SLEEPS));
        // SeqCst pairs with that of `nudge`: who says here that it sleeps, and then finds nothing to do, is seen
        // by who has something to do later.
        if self.move_on(&[helped], asleep, SeqCst).is_err() {
            return false;
        }
        if has_more() {
            let _ = self.move_on(&[asleep], helped, Relaxed);
            return false;
        }
        loop {
            // Relaxed: it is asked for by who wants to know whether it is open.
            let seen = self.state.load(Relaxed);
            if seen & !POLLED != asleep {
                return false;
            }
            if P::wait(&self.state, seen, timeout) == WaitOutcome::TimedOut {
                // Unless it is open by now, or somebody tells of something.
                return self.move_on(&[asleep], helped, Relaxed).is_ok();
            }
        }
    }

    /// Tells who waits for it that there is something to do. False if nobody is there who has nothing else to do.
    ///
    /// Where that one and this miss each other, it costs time alone. SeqCst: who says first that jobs are there,
    /// and then finds nobody here, is found by who looks for jobs after it has said that it is here.
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

    /// From one of the states `from` to `to`, beside `POLLED` as it is; what it is, if it is another.
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

    /// Opens it and wakes who sleeps. True if a waker was left: it is the caller's now. A waiter may free the
    /// latch as soon as it is open, so it is given by its address, which is all that is used after that.
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
        //
        // Not SeqCst: a waiter announces its sleep in this very word, by an exchange (`await_for`, `wait_for_more`). Its partner is
        // this exchange, and one of the two comes first in the word's own order. Either this one reads the announcement and
        // wakes the waiter, or the waiter reads `OPEN` and does not sleep. SeqCst would order this word with others; only `nudge`
        // needs that, and it does not open.
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
