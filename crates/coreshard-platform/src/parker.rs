//! One permit for one thread: a thread parks until somebody unparks it.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

use crate::{AtomicInt, Platform, WaitOutcome, fields};

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const NOTIFIED: u32 = 2;
const ELSEWHERE: u32 = 3;

/// A place where one thread at a time may sleep, and any thread may wake it.
///
/// States of the word: `EMPTY` (awake, no permit), `PARKED` (asleep or about to be), `ELSEWHERE` (asleep where
/// another call wakes it), `NOTIFIED` (a permit waits). An unpark that comes before the park is kept: the park
/// then returns at once.
#[derive(Debug)]
pub struct Parker<P: Platform> {
    word: P::AtomicU32,
}

fields!(Parker<P: Platform> { word });

impl<P: Platform> Parker<P> {
    /// A parker without a permit.
    pub fn new() -> Self {
        Self { word: P::AtomicU32::new(EMPTY) }
    }

    /// Sleeps until a permit is there and takes it.
    pub fn park(&self) {
        self.park_until(None);
    }

    /// Sleeps until a permit is there and takes it, or for `timeout`. True if a permit was taken.
    pub fn park_timeout(&self, timeout: Duration) -> bool {
        self.park_until(Some(P::now() + timeout))
    }

    /// Takes a permit if one is there, without sleeping.
    pub fn try_take(&self) -> bool {
        // Acquire pairs with the swap in `unpark`: what was written before it is seen here.
        self.word.compare_exchange(NOTIFIED, EMPTY, Acquire, Relaxed).is_ok()
    }

    /// True if a permit is there. A hint, for a thread that would rather watch than sleep.
    pub fn has_permit(&self) -> bool {
        self.word.load(Relaxed) == NOTIFIED
    }

    fn park_until(&self, deadline: Option<crate::Time>) -> bool {
        if self.word.compare_exchange(EMPTY, PARKED, Relaxed, Relaxed).is_err() {
            // A swap, not a store: a second permit may have come since, and whoever takes it with this
            // one must see what was written before it. A store would wait in this CPU's buffer while
            // the caller looks for what it was woken for, and then wipe the second permit out, unseen.
            // Acquire as in `try_take`.
            self.word.swap(EMPTY, Acquire);
            return true;
        }
        loop {
            let timeout = deadline.map(|deadline| deadline - P::now());
            let outcome = P::wait(&self.word, PARKED, timeout);
            if self.try_take() {
                return true;
            }
            if outcome == WaitOutcome::TimedOut {
                // Leave the parked state; a permit that arrives in between is taken after all.
                return self.word.swap(EMPTY, Acquire) == NOTIFIED;
            }
        }
    }

    /// Gives the permit. True if a thread had to be woken (a system call was made).
    #[inline]
    pub fn unpark(&self) -> bool {
        self.unpark_or(|| ())
    }

    /// Gives the permit; a thread that waits elsewhere is woken there, by `wake_there`. True if a thread had to be
    /// woken.
    #[inline]
    pub fn unpark_or(&self, wake_there: impl FnOnce()) -> bool {
        let word = &raw const self.word;
        // Release pairs with the Acquire of the park that takes the permit.
        match self.word.swap(NOTIFIED, AcqRel) {
            PARKED => P::wake_one(word),
            ELSEWHERE => wake_there(),
            _ => return false,
        }
        true
    }

    /// Says that the caller is about to sleep elsewhere: from here on an unpark wakes it there. False, with the
    /// permit taken, if there was one.
    ///
    /// The wake-up there must also end a sleep that begins after it.
    pub fn begin_elsewhere(&self) -> bool {
        if self.word.compare_exchange(EMPTY, ELSEWHERE, Relaxed, Relaxed).is_ok() {
            return true;
        }
        // As in `park_until`.
        self.word.swap(EMPTY, Acquire);
        false
    }

    /// After [`begin_elsewhere`](Self::begin_elsewhere) said true: the caller is awake. True if a permit was taken.
    pub fn end_elsewhere(&self) -> bool {
        self.word.swap(EMPTY, Acquire) == NOTIFIED
    }
}

impl<P: Platform> Default for Parker<P> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;
    use std::sync::Arc;

    #[test]
    fn a_permit_given_before_the_park_is_kept() {
        let parker = Parker::<Host>::new();
        assert!(!parker.unpark(), "nobody slept");
        parker.park();
        assert!(!parker.park_timeout(Duration::from_millis(1)), "one permit serves one park");
    }

    #[test]
    fn threads_hand_a_turn_back_and_forth() {
        let pair = Arc::new((Parker::<Host>::new(), Parker::<Host>::new()));
        let other = Arc::clone(&pair);
        let thread = std::thread::spawn(move || {
            for _ in 0..10_000 {
                other.0.park();
                other.1.unpark();
            }
        });
        for _ in 0..10_000 {
            pair.0.unpark();
            pair.1.park();
        }
        thread.join().unwrap();
    }
}
