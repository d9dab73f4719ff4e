//! One permit for one thread: the thread parks until another one unparks it.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

use crate::{AtomicInt, Platform, WaitOutcome, fields};

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const NOTIFIED: u32 = 2;
const ELSEWHERE: u32 = 3;

/// A place where one thread at a time may sleep, and any thread may wake it.
///
/// States of the word: `EMPTY` (awake, no permit), `PARKED` (asleep or about to be), `ELSEWHERE` (asleep in
/// another call, woken by other means), `NOTIFIED` (a permit is available). An unpark before the park is
/// kept, and the park then returns at once.
#[derive(Debug)]
pub struct Parker<P: Platform> {
    word: P::AtomicU32,
}

fields!(Parker<P: Platform> { word });

impl<P: Platform> Parker<P> {
    /// Creates a parker without a permit.
    pub fn new() -> Self {
        Self { word: P::AtomicU32::new(EMPTY) }
    }

    /// Sleeps until a permit is available, and takes it.
    pub fn park(&self) {
        self.park_until(None);
    }

    /// Sleeps until a permit is available and takes it, for at most `timeout`.
    ///
    /// Returns true if a permit was taken.
    pub fn park_timeout(&self, timeout: Duration) -> bool {
        self.park_until(Some(P::now() + timeout))
    }

    /// Takes a permit if one is available, without sleeping.
    pub fn try_take(&self) -> bool {
        // Acquire pairs with the swap in `unpark_or`: writes before the unpark are visible here.
        self.word.compare_exchange(NOTIFIED, EMPTY, Acquire, Relaxed).is_ok()
    }

    /// Returns true if a permit is available. A hint for a thread that prefers spinning to sleeping.
    pub fn has_permit(&self) -> bool {
        self.word.load(Relaxed) == NOTIFIED
    }

    fn park_until(&self, deadline: Option<crate::Time>) -> bool {
        if self.word.compare_exchange(EMPTY, PARKED, Relaxed, Relaxed).is_err() {
            // A swap, not a store: a second permit may have arrived since, and the thread that takes it
            // together with this one must see the writes before it. A store could wait in this CPU's buffer
            // while the caller looks for its work, and then overwrite the second permit unseen. Acquire as in
            // `try_take`.
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
                // Leave the parked state. A permit that arrives in between is taken.
                return self.word.swap(EMPTY, Acquire) == NOTIFIED;
            }
        }
    }

    /// Gives the permit. Returns true if a thread had to be woken (a system call was made).
    #[inline]
    pub fn unpark(&self) -> bool {
        self.unpark_or(|| ())
    }

    /// Gives the permit.
    ///
    /// A thread that waits elsewhere is woken by `wake_there`. Returns true if a thread had to be woken.
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

    /// Marks the caller as about to sleep elsewhere.
    ///
    /// From now on an unpark wakes it there. Returns false, with the permit taken, if there was one.
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

    /// Marks the caller as awake, after [`begin_elsewhere`](Self::begin_elsewhere) returned true.
    ///
    /// Returns true if a permit was taken.
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
        assert!(!parker.unpark(), "no thread slept");
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
