//! Read-side sections and grace periods, as in RCU: reading memory that other threads may free.
//!
//! A thread loads a pointer and follows it inside a [`Reading`]. A thread that replaces that pointer may free
//! the old target after a *grace period*: once every section that may have seen the old pointer has ended. A
//! reader writes one word that belongs to its thread and never waits. The whole cost is on the reclaimer.
//!
//! A reader writes its word and then loads the pointer. A reclaimer writes the pointer and then loads the
//! word. One of the two must see the other's write, which takes a barrier on both sides. The reader's is a
//! compiler barrier only, since the reclaimer makes every CPU that runs the process's threads execute one
//! (membarrier(2)).

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::{AtomicInt, Platform};

/// The number of nested sections that a thread is inside.
#[derive(Debug)]
pub(crate) struct Sections<A>(A);

impl<A: AtomicInt<u32>> Sections<A> {
    pub(crate) const fn of(word: A) -> Self {
        Self(word)
    }

    /// Enters a section, on the thread itself. `barrier`, together with the reclaimer's, keeps the section's
    /// reads from moving before the store.
    #[inline(always)]
    pub(crate) fn enter(&self, barrier: impl FnOnce()) {
        // No other thread writes it.
        self.0.store(self.0.load(Relaxed) + 1, Relaxed);
        barrier();
    }

    /// Leaves a section, on the thread itself.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        // Release pairs with the Acquire in `is_outside`: memory is not freed before it was read.
        self.0.store(self.0.load(Relaxed) - 1, Release);
    }

    /// Returns true if the thread is outside all sections. Called on any thread, after its barrier.
    pub(crate) fn is_outside(&self) -> bool {
        self.0.load(Acquire) == 0
    }
}

/// A read-side section of the calling thread, which ends when this value is dropped.
///
/// A value that was published through a pointer and is reached inside the section stays valid until its end,
/// provided that the removing thread frees it only after [`Platform::try_grace_period`]. Sections may be
/// nested and may be long: no thread waits for them.
///
/// ```
/// use coreshard_platform::{Host, Platform, Reading};
///
/// let reading = Reading::<Host>::begin();
/// // Not while this thread is reading: it may be looking at the memory to be freed.
/// assert!(!Host::try_grace_period());
/// drop(reading);
/// ```
#[must_use = "the section ends when this is dropped"]
pub struct Reading<P: Platform> {
    thread: *const (),
    _platform: PhantomData<P>,
}

impl<P: Platform> Reading<P> {
    /// Begins a section.
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
