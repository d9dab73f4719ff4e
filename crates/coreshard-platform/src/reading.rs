//! Reading what others may take away: read-side sections and their grace periods, as in RCU.
//!
//! A thread reads a pointer and follows it inside a [`Reading`]. A thread that replaces that pointer may
//! free what it led to once a *grace period* is over: every section that may have seen the old pointer has
//! ended. A reader writes one word that is its thread's own, and waits for nobody; all the cost is with
//! whoever frees.
//!
//! A reader writes its word and then loads the pointer, a reclaimer writes the pointer and then loads the
//! word: one of the two must see the other. That takes a barrier on both sides. The reader's is one for
//! the compiler alone, since the reclaimer has every CPU that runs the process's threads pass one
//! (membarrier(2)).

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::{AtomicInt, Platform};

/// The sections that a thread is inside of, one within the other.
#[derive(Debug)]
pub(crate) struct Sections<A>(A);

impl<A: AtomicInt<u32>> Sections<A> {
    pub(crate) const fn of(word: A) -> Self {
        Self(word)
    }

    /// On the thread itself. `barrier` keeps what is read in the section from being read before it,
    /// together with the reclaimer's.
    #[inline(always)]
    pub(crate) fn enter(&self, barrier: impl FnOnce()) {
        // Nobody else writes it.
        self.0.store(self.0.load(Relaxed) + 1, Relaxed);
        barrier();
    }

    /// On the thread itself.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        // Release pairs with the Acquire in `is_outside`: what was read is not freed before it was read.
        self.0.store(self.0.load(Relaxed) - 1, Release);
    }

    /// On any thread, behind its barrier: true if the thread is in none at this moment.
    pub(crate) fn is_outside(&self) -> bool {
        self.0.load(Acquire) == 0
    }
}

/// A read-side section of the calling thread; it ends when this is dropped.
///
/// A value that was published through a pointer and is reached from here stays until then, if the thread that removes it
/// frees it after [`Platform::try_grace_period`] alone. Sections may lie within one another, and may be
/// long: nobody waits for them.
///
/// ```
/// use coreshard_platform::{Host, Platform, Reading};
///
/// let reading = Reading::<Host>::begin();
/// // Not while this thread is reading: what it looks at may be just what is to be freed.
/// assert!(!Host::try_grace_period());
/// drop(reading);
/// ```
#[must_use = "the section ends when this is dropped"]
pub struct Reading<P: Platform> {
    thread: *const (),
    _platform: PhantomData<P>,
}

impl<P: Platform> Reading<P> {
    /// Begins one.
    #[inline(always)]
    pub fn begin() -> Self {
        Self { thread: P::begin_reading(), _platform: PhantomData }
    }
}

impl<P: Platform> Drop for Reading<P> {
    #[inline(always)]
    fn drop(&mut self) {
        P::end_reading(self.thread);
    }
}

impl<P: Platform> fmt::Debug for Reading<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").finish_non_exhaustive()
    }
}
