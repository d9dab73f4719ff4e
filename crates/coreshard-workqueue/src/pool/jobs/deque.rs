//! A worker's own stack of forked jobs, whose older part is open to thieves.
//!
//! | part | places | who takes from it |
//! |---|---|---|
//! | stolen | below `top` | none: a thief runs them |
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

/// How long a waiter leaves a lone subtask to its forker, which takes it back sooner if it has nothing else to do. Otherwise a chain
/// of jobs, each of which forks the next, would go from CPU to CPU with each.
#[cfg(not(loom))]
const LONE_SPINS: u32 = 16;
#[cfg(loom)]
const LONE_SPINS: u32 = 0;

/// The shared word: `top` in the lowest bits, `split` above it, and above that how often places that were
/// shared became the owner's again. So the word is never the same for two jobs in one place.
const SPLIT: u32 = 16;
const REUSES: u32 = 26;
const MAX_SPLIT: u64 = (1 << (REUSES - SPLIT)) - 1;
const _: () = assert!(CAPACITY as u64 <= MAX_SPLIT);

fn top_of(shares: u64) -> u32 {
    u32::from(shares as u16)
}

fn split_of(shares: u64) -> u32 {
    (shares >> SPLIT & MAX_SPLIT) as u32
}

/// One job is there to be stolen.
fn is_lone(shares: u64) -> bool {
    split_of(shares).wrapping_sub(top_of(shares)) == 1
}

/// The word after `shares` once places were taken back.
fn reused(before: u64, top: u32, split: u32) -> u64 {
    let reuses = (before >> REUSES).wrapping_add(1) << REUSES;
    u64::from(top) | u64::from(split) << SPLIT | reuses
}

/// What thieves see of a worker's stack.
pub(crate) struct Deque<P: Platform, T> {
    shared: Padded<ThievesWords<P>>,
    /// See [`PartOf`]. On a line of its own: a waiter reads this of all workers, again and again, and the words
    /// above, which their owners write with every few forks, only if it may find a subtask there.
    part_of: Padded<P::AtomicU64>,
    places: [P::AtomicPtr<T>; CAPACITY],
}

struct ThievesWords<P: Platform> {
    word: P::AtomicU64,
    /// 1 where the jobs are left to who waits for what they are parts of: it has nothing else to do.
    is_reserved: P::AtomicU32,
}

/// The job of which the owner runs a subtask, and the place from which on its jobs are subtasks of that, where the word has `top`.
///
/// A subtask named here is one, though not each is named: a waiter may run those that are named, and nothing else.
#[derive(Clone, Copy)]
pub(crate) struct PartOf(u64);

impl PartOf {
    pub(crate) const NOTHING: Self = Self(0);
}

/// The owner's side.
///
/// It keeps jobs private as far as experience allows: each time it takes back what it shared, and
/// no thief came since the last time, it may keep twice as many. A theft, which means that a worker is idle, ends that: then
/// all is shared at once. So few and long jobs are open to all from the start, and many short ones cost no locked instruction.
#[derive(Debug, Default)]
pub(crate) struct Owner {
    /// The first free place.
    bottom: Cell<u32>,
    /// As in the shared word: only the owner moves it.
    split: Cell<u32>,
    /// How many jobs may be private.
    allowed: Cell<u32>,
    /// What `top` was when that was last changed.
    seen_top: Cell<u32>,
    /// Nothing is shared.
    is_serial: Cell<bool>,
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

/// Which thread has the youngest job. It is off the stack either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Popped {
    /// The owner.
    Own,
    /// A thief; and thieves have all that are older.
    Stolen,
}

impl<P: Platform, T> Deque<P, T> {
    pub(crate) fn new() -> Self {
        let shared = ThievesWords { word: P::AtomicU64::new(0), is_reserved: P::AtomicU32::new(0) };
        Self {
            shared: Padded::new(shared),
            part_of: Padded::new(P::AtomicU64::new(0)),
            places: std::array::from_fn(|_| P::AtomicPtr::new(std::ptr::null_mut())),
        }
    }

    /// True if any thief could take a job here. SeqCst pairs with that of `Owner::share`: a worker
    /// that said it sleeps and sees nothing here is seen by the owner that shares later.
    #[inline]
    pub(crate) fn has_shared(&self) -> bool {
        let word = self.shared.word.load(SeqCst);
        top_of(word) < split_of(word) && !self.is_reserved()
    }

    /// Changes with every job that is shared, stolen or taken back.
    pub(crate) fn activity(&self) -> u64 {
        self.shared.word.load(Relaxed)
    }

    fn is_reserved(&self) -> bool {
        self.shared.is_reserved.load(SeqCst) != 0
    }

    /// Leaves what is shared here to who waits for the whole, or to all. SeqCst: see `help.rs`.
    pub(crate) fn reserve(&self, is_reserved: bool) {
        self.shared.is_reserved.store(u32::from(is_reserved), SeqCst);
    }

    /// True if it is said what the jobs are parts of. For the owner.
    #[inline]
    pub(crate) fn is_named(&self) -> bool {
        self.part_of.load(Relaxed) != 0
    }

    /// Nothing is shared any more. For the owner.
    pub(crate) fn end_reserve(&self) {
        // Relaxed: only the owner reserves.
        if self.shared.is_reserved.load(Relaxed) != 0 {
            self.reserve(false);
        }
    }

    /// True if the oldest job that thieves could take is a part of `whole`.
    pub(crate) fn has_part_of(&self, whole: u64) -> bool {
        let word = self.shared.word.load(SeqCst);
        top_of(word) < split_of(word) && self.begins_with_part_of(whole, word)
    }

    /// True if the oldest job in `word` is a part of `whole`, provided that `word` is still the current one.
    ///
    /// Relaxed, after the word, which was read by acquire: what was said before that job was shared is seen. What
    /// was said later was said when the job was off the stack, and then the word is another, for good.
    fn begins_with_part_of(&self, whole: u64, word: u64) -> bool {
        let part_of = self.part_of.load(Relaxed);
        part_of >> SPLIT == whole && top_of(word) >= top_of(part_of)
    }

    /// Thief: takes the oldest shared job, if that is left to all.
    pub(crate) fn steal(&self) -> Option<NonNull<T>> {
        self.steal_if(|_| !self.is_reserved())
    }

    /// Thief: takes the oldest shared job, if that is a part of `whole`.
    ///
    /// It may overlook what was shared just now: who goes to sleep asks [`has_part_of`](Self::has_part_of) before.
    pub(crate) fn steal_part_of(&self, whole: u64) -> Option<NonNull<T>> {
        if self.part_of.load(Relaxed) >> SPLIT != whole || self.is_fresh() {
            return None;
        }
        self.steal_if(|word| self.begins_with_part_of(whole, word))
    }

    /// True if there is one job alone, which was not there for as long as its owner takes to come back to it.
    fn is_fresh(&self) -> bool {
        let before = self.shared.word.load(Relaxed);
        is_lone(before) && {
            (0..LONE_SPINS).for_each(|_| P::spin_hint());
            let word = self.shared.word.load(Relaxed);
            is_lone(word) && word != before
        }
    }

    fn steal_if(&self, may: impl Fn(u64) -> bool) -> Option<NonNull<T>> {
        // Acquire, here and below, pairs with the Release of `Owner::share`: the place is written, and
        // what it is a part of is said.
        let mut word = self.shared.word.load(Acquire);
        loop {
            let top = top_of(word);
            if top >= split_of(word) || !may(word) {
                return None;
            }
            // It may be another job's by now: then the exchange fails.
            let job = self.places[top as usize].load(Relaxed);
            match self.shared.word.compare_exchange(word, word + 1, AcqRel, Acquire) {
                Ok(_) => return NonNull::new(job),
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

    /// How many jobs are on the stack, stolen ones among them.
    #[inline]
    pub(crate) fn depth(&self) -> u32 {
        self.bottom.get()
    }

    /// Puts a job on the stack, and shares old ones where thieves have none or many are private.
    #[inline]
    pub(crate) fn push<P: Platform, T>(&self, deque: &Deque<P, T>, job: NonNull<T>) -> Pushed {
        let bottom = self.bottom.get();
        let Some(place) = deque.places.get(bottom as usize) else { return Pushed::Full };
        place.store(job.as_ptr(), Relaxed);
        self.bottom.set(bottom + 1);
        let split = self.split.get();
        let top = top_of(deque.shared.word.load(Relaxed));
        if top == split || bottom + 1 - split > self.allowed.get() {
            self.learn(top, self.allowed.get());
            let (private, allowed) = (bottom + 1 - split, self.allowed.get());
            let more = (private.saturating_sub(allowed / 2)).max(private.div_ceil(2));
            return self.share(deque, more);
        }
        Pushed::Private
    }

    /// Puts a job on the stack, where all is open to thieves from now on.
    #[inline]
    pub(crate) fn push_shared<P: Platform, T>(
        &self,
        deque: &Deque<P, T>,
        job: NonNull<T>,
    ) -> Pushed {
        let bottom = self.bottom.get();
        let Some(place) = deque.places.get(bottom as usize) else { return Pushed::Full };
        place.store(job.as_ptr(), Relaxed);
        self.bottom.set(bottom + 1);
        self.share(deque, bottom + 1 - self.split.get())
    }

    /// Shares nothing from here on, or shares again. Returns what was so before.
    pub(crate) fn set_serial(&self, is_serial: bool) -> bool {
        self.is_serial.replace(is_serial)
    }

    #[cold]
    fn share<P: Platform, T>(&self, deque: &Deque<P, T>, more: u32) -> Pushed {
        if self.is_serial.get() {
            return Pushed::Private;
        }
        self.split.set(self.split.get() + more);
        // Release publishes the places. SeqCst: see `Deque::has_shared`.
        deque.shared.word.fetch_add(u64::from(more) << SPLIT, SeqCst);
        Pushed::Shared
    }

    /// Opens all jobs to thieves. False if they were.
    pub(crate) fn share_all<P: Platform, T>(&self, deque: &Deque<P, T>) -> bool {
        let private = self.bottom.get() - self.split.get();
        private > 0 && self.share(deque, private) == Pushed::Shared
    }

    /// Allows so many private jobs; none if there was a theft since.
    fn learn(&self, top: u32, allowed: u32) {
        let theft = self.seen_top.replace(top) != top;
        self.allowed.set(if theft { 0 } else { allowed.min(MAX_PRIVATE) });
    }

    /// Takes the youngest job off.
    #[inline]
    pub(crate) fn pop<P: Platform, T>(&self, deque: &Deque<P, T>) -> Popped {
        let place = self.bottom.get() - 1;
        if place < self.split.get() && !self.take_back(deque) {
            self.forget_stolen(deque, place);
            return Popped::Stolen;
        }
        self.bottom.set(place);
        Popped::Own
    }

    /// Takes the youngest job off, if there are more than `floor`, and gives it: `None` if a thief has it. Then
    /// all down to `floor` are taken off: they are stolen as well.
    pub(crate) fn pop_above<P: Platform, T>(
        &self,
        deque: &Deque<P, T>,
        floor: u32,
    ) -> Option<Option<NonNull<T>>> {
        let place = self.bottom.get().checked_sub(1).filter(|place| *place >= floor)?;
        if place < self.split.get() && !self.take_back(deque) {
            self.forget_stolen(deque, floor);
            return Some(None);
        }
        self.bottom.set(place);
        Some(NonNull::new(deque.places[place as usize].load(Relaxed)))
    }

    /// Makes the youngest shared jobs private. False if there are none.
    #[cold]
    fn take_back<P: Platform, T>(&self, deque: &Deque<P, T>) -> bool {
        let mut word = deque.shared.word.load(Relaxed);
        loop {
            let (top, split) = (top_of(word), split_of(word));
            if top == split {
                return false;
            }
            let taken = self.allowed.get().div_ceil(2).max(1);
            let kept = top.max(split.saturating_sub(taken));
            // Acquire: a thief's change of `top` comes before anything is put into these places.
            let after = reused(word, top, kept);
            match deque.shared.word.compare_exchange(word, after, AcqRel, Relaxed) {
                Ok(_) => {
                    self.split.set(kept);
                    self.learn(top, self.allowed.get() * 2 + 1);
                    return true;
                }
                Err(now) => word = now,
            }
        }
    }

    #[cold]
    fn forget_stolen<P: Platform, T>(&self, deque: &Deque<P, T>, floor: u32) {
        self.bottom.set(floor);
        self.split.set(floor);
        self.seen_top.set(floor);
        self.allowed.set(0);
        // A store: nothing is shared, so no thief's exchange can succeed at this moment. Relaxed: no other
        // thread changes the word then.
        let word = deque.shared.word.load(Relaxed);
        deque.shared.word.store(reused(word, floor, floor), Release);
    }

    /// Says what the jobs are parts of that are pushed from here on. The latest that were pushed before stay
    /// there until that is [taken back](Self::end_whole).
    pub(crate) fn begin_whole<P: Platform, T>(&self, deque: &Deque<P, T>, whole: u64) -> PartOf {
        let bottom = u64::from(self.bottom.get());
        let part_of = &*deque.part_of;
        let before = part_of.load(Relaxed);
        // Relaxed: a thief sees it with the jobs that are shared after it, see `begins_with_part_of`.
        part_of.store(whole << SPLIT | bottom, Relaxed);
        PartOf(before)
    }

    /// Says what all jobs are parts of that are on the stack, some of which may be shared.
    pub(crate) fn name_whole<P: Platform, T>(&self, deque: &Deque<P, T>, whole: u64) {
        deque.part_of.store(whole << SPLIT, Relaxed);
    }

    /// The jobs that were pushed since [`begin_whole`](Self::begin_whole) are off the stack.
    pub(crate) fn end_whole<P: Platform, T>(&self, deque: &Deque<P, T>, before: PartOf) {
        deque.part_of.store(before.0, Relaxed);
    }
}
