//! A worker's own stack of forked jobs, whose older part is open to thieves.
//!
//! | part | places | who takes from it |
//! |---|---|---|
//! | stolen | below `top` | nobody: a thief runs them |
//! | shared | `top` to `split` | thieves the oldest, by moving `top`; the owner the youngest, by moving `split` back |
//! | private | `split` to `bottom` | the owner alone, with plain loads and stores |
//!
//! `FORKS.md` beside this file tells why that is enough.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use coreshard_platform::{AtomicInt, AtomicPointer, Padded, Platform};

/// Jobs a stack holds. A fork that finds it full is no fork: both halves are run in turn.
#[cfg(not(loom))]
pub(crate) const CAPACITY: usize = 256;
#[cfg(loom)]
pub(crate) const CAPACITY: usize = 3;

/// Private jobs that an owner may keep, at most.
const MAX_PRIVATE: u32 = 16;

const SPLIT: u32 = 32;

fn top_of(shares: u64) -> u32 {
    shares as u32
}

fn split_of(shares: u64) -> u32 {
    (shares >> SPLIT) as u32
}

fn shares(top: u32, split: u32) -> u64 {
    u64::from(top) | u64::from(split) << SPLIT
}

/// What thieves see of a worker's stack.
pub(crate) struct Deque<P: Platform, T> {
    /// `top` in the lower half, `split` in the upper one.
    shares: Padded<P::AtomicU64>,
    places: [P::AtomicPtr<T>; CAPACITY],
}

/// The owner's side.
///
/// It keeps jobs private as far as experience allows: each time it takes back what it shared, and
/// nobody has stolen since the last time, it may keep twice as many. A theft, which says that
/// somebody has nothing to do, ends that: then all is shared at once. So few and long jobs are
/// open to all from the start, and many short ones cost no locked instruction.
#[derive(Debug, Default)]
pub(crate) struct Owner {
    /// The first free place.
    bottom: Cell<u32>,
    /// What the shared word says: nobody else moves it.
    split: Cell<u32>,
    /// How many jobs may be private.
    allowed: Cell<u32>,
    /// What `top` was when that was last changed.
    seen_top: Cell<u32>,
}

/// What became of a pushed job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It was not taken: the stack is full.
    Full,
    /// Nothing changed for thieves.
    Private,
    /// There is more for thieves than before.
    Shared,
}

/// Who has the youngest job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Popped {
    /// The owner: it is off the stack.
    Own,
    /// A thief. It stays on the stack until [`Owner::forget_stolen`].
    Stolen,
}

impl<P: Platform, T> Deque<P, T> {
    pub(crate) fn new() -> Self {
        Self {
            shares: Padded::new(P::AtomicU64::new(0)),
            places: std::array::from_fn(|_| P::AtomicPtr::new(std::ptr::null_mut())),
        }
    }

    /// True if a thief could take a job here. SeqCst pairs with that of `Owner::share`: a worker
    /// that said it sleeps and sees nothing here is seen by the owner that shares later.
    #[inline]
    pub(crate) fn has_shared(&self) -> bool {
        let word = self.shares.load(SeqCst);
        top_of(word) < split_of(word)
    }

    /// Thief: takes the oldest shared job.
    pub(crate) fn steal(&self) -> Option<NonNull<T>> {
        let mut word = self.shares.load(Acquire);
        loop {
            let (top, split) = (top_of(word), split_of(word));
            if top >= split {
                return None;
            }
            // Acquire pairs with the Release of `Owner::share`: the place is written.
            match self.shares.compare_exchange(word, shares(top + 1, split), AcqRel, Acquire) {
                // Read after the exchange, never before: the same word may have stood for
                // another job in between. Now it stays until the owner has seen the job done.
                Ok(_) => return NonNull::new(self.places[top as usize].load(Relaxed)),
                Err(now) => word = now,
            }
        }
    }
}

impl Owner {
    /// True if a job was pushed and is not off the stack.
    pub(crate) fn has_jobs(&self) -> bool {
        self.bottom.get() > 0
    }

    /// Puts a job on the stack, and shares old ones where thieves have none or many are private.
    #[inline]
    pub(crate) fn push<P: Platform, T>(&self, deque: &Deque<P, T>, job: NonNull<T>) -> Pushed {
        let bottom = self.bottom.get();
        let Some(place) = deque.places.get(bottom as usize) else { return Pushed::Full };
        place.store(job.as_ptr(), Relaxed);
        self.bottom.set(bottom + 1);
        let split = self.split.get();
        let top = top_of(deque.shares.load(Relaxed));
        if top == split || bottom + 1 - split > self.allowed.get() {
            return self.share(deque, top);
        }
        Pushed::Private
    }

    #[cold]
    fn share<P: Platform, T>(&self, deque: &Deque<P, T>, top: u32) -> Pushed {
        self.learn(top, self.allowed.get());
        let (split, allowed) = (self.split.get(), self.allowed.get());
        let private = self.bottom.get() - split;
        let more = (private.saturating_sub(allowed / 2)).max(private.div_ceil(2));
        self.split.set(split + more);
        // Release publishes the places. SeqCst: see `Deque::has_shared`.
        deque.shares.fetch_add(u64::from(more) << SPLIT, SeqCst);
        Pushed::Shared
    }

    /// Allows so many private jobs; none if there was a theft since.
    fn learn(&self, top: u32, allowed: u32) {
        let theft = self.seen_top.replace(top) != top;
        self.allowed.set(if theft { 0 } else { allowed.min(MAX_PRIVATE) });
    }

    /// Takes the youngest job off, if no thief has it.
    #[inline]
    pub(crate) fn pop<P: Platform, T>(&self, deque: &Deque<P, T>) -> Popped {
        let place = self.bottom.get() - 1;
        if place < self.split.get() && !self.take_back(deque) {
            return Popped::Stolen;
        }
        self.bottom.set(place);
        Popped::Own
    }

    /// Makes the youngest shared jobs private. False if there are none.
    #[cold]
    fn take_back<P: Platform, T>(&self, deque: &Deque<P, T>) -> bool {
        let mut word = deque.shares.load(Relaxed);
        loop {
            let (top, split) = (top_of(word), split_of(word));
            if top == split {
                return false;
            }
            let taken = self.allowed.get().div_ceil(2).max(1);
            let kept = top.max(split.saturating_sub(taken));
            // Acquire: what a thief did to `top` comes before what is put into these places.
            match deque.shares.compare_exchange(word, shares(top, kept), AcqRel, Relaxed) {
                Ok(_) => {
                    self.split.set(kept);
                    self.learn(top, self.allowed.get() * 2 + 1);
                    return true;
                }
                Err(now) => word = now,
            }
        }
    }

    /// Takes the youngest job off, which was stolen and is done.
    pub(crate) fn forget_stolen<P: Platform, T>(&self, deque: &Deque<P, T>) {
        let bottom = self.bottom.get() - 1;
        self.bottom.set(bottom);
        self.split.set(bottom);
        self.seen_top.set(bottom);
        self.allowed.set(0);
        // A store: nothing is shared, so no thief's exchange can succeed at this moment.
        deque.shares.store(shares(bottom, bottom), Release);
    }
}
