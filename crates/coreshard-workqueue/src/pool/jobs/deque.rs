//! A worker's own stack of forked jobs. Its older part is open to thieves.
//!
//! | part | places | consumers |
//! |---|---|---|
//! | stolen | below `top` | none: a thief runs them |
//! | shared | `top` to `split` | thieves take the oldest, by moving `top`; the owner takes the youngest, by moving `split`
//! back |
//! | private | `split` to `bottom` | only the owner, with plain loads and stores |
//!
//! `README.md` beside this file explains why that is enough.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use coreshard_platform::{AtomicInt, AtomicPointer, Padded, Platform};

/// Jobs that a stack holds. If it is full, a fork runs both halves in turn.
#[cfg(not(loom))]
pub(crate) const CAPACITY: usize = 256;
#[cfg(loom)]
pub(crate) const CAPACITY: usize = 3;

/// Private jobs that an owner may have, at most.
const MAX_PRIVATE: u32 = 16;

/// How long a waiter leaves a lone subtask to its forker, which pops it sooner if it has nothing else to do. Otherwise a chain
/// of jobs that each fork the next would move from CPU to CPU with each job.
#[cfg(not(loom))]
const LONE_SPINS: u32 = 16;
#[cfg(loom)]
const LONE_SPINS: u32 = 0;

/// The shared word: `top` in the lowest bits, `split` above it, and above that a count of how often the owner took back shared
/// places. So the word is never the same for two jobs in one place.
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

/// Exactly one job can be stolen.
fn is_lone(shares: u64) -> bool {
    split_of(shares).wrapping_sub(top_of(shares)) == 1
}

/// The word that follows `shares` after places were taken back.
fn reused(before: u64, top: u32, split: u32) -> u64 {
    let reuses = (before >> REUSES).wrapping_add(1) << REUSES;
    u64::from(top) | u64::from(split) << SPLIT | reuses
}

/// The part of a worker's stack that thieves see.
pub(crate) struct Deque<P: Platform, T> {
    shared: Padded<ThievesWords<P>>,
    /// See [`PartOf`]. It has its own cache line: a waiter polls this word of all workers. It reads the words above, which
    /// their owners write every few forks, only if it may find a subtask there.
    part_of: Padded<P::AtomicU64>,
    places: [P::AtomicPtr<T>; CAPACITY],
}

struct ThievesWords<P: Platform> {
    word: P::AtomicU64,
    /// 1 if the jobs are reserved for the worker that waits for their root job: it has nothing else to do.
    is_reserved: P::AtomicU32,
}

/// The root job of the owner's current subtask, and the first place whose job is a subtask of it. The place has the bits of
/// `top` in the shared word.
///
/// Every job named here is a subtask of that root, though not every such subtask is named. A waiter may run only named ones.
#[derive(Clone, Copy)]
pub(crate) struct PartOf(u64);

impl PartOf {
    pub(crate) const NOTHING: Self = Self(0);
}

/// The owner's side.
///
/// It keeps jobs private as far as experience allows. Each time it takes back shared jobs, and no thief has stolen since the
/// previous time, it may keep twice as many. A theft means that a worker is idle and ends that: all jobs are shared at once.
/// So few and long jobs are open to all from the start, and many short ones cost no locked instruction.
#[derive(Debug, Default)]
pub(crate) struct Owner {
    /// The first free place.
    bottom: Cell<u32>,
    /// As in the shared word: only the owner moves it.
    split: Cell<u32>,
    /// How many jobs may be private.
    allowed: Cell<u32>,
    /// Value of `top` when `allowed` was last changed.
    seen_top: Cell<u32>,
    /// No job is shared.
    is_serial: Cell<bool>,
}

/// The outcome of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// The stack is full, and the job was not pushed.
    Full,
    /// Nothing changed for thieves.
    Private,
    /// Thieves see more jobs than before.
    Shared,
}

/// Which thread has the youngest job. The job is off the stack in both cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Popped {
    /// The owner.
    Own,
    /// A thief; all older jobs were stolen as well.
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

    /// True if any thief could take a job here. SeqCst pairs with the SeqCst of `Owner::share`: if a worker
    /// announces that it sleeps and then sees nothing here, the owner that shares later sees the announcement.
    #[inline]
    pub(crate) fn has_shared(&self) -> bool {
        let word = self.shared.word.load(SeqCst);
        top_of(word) < split_of(word) && !self.is_reserved()
    }

    /// A value that changes with every job that is shared, stolen or taken back.
    pub(crate) fn activity(&self) -> u64 {
        self.shared.word.load(Relaxed)
    }

    fn is_reserved(&self) -> bool {
        self.shared.is_reserved.load(SeqCst) != 0
    }

    /// Reserves the shared jobs for the worker that waits for their root job, or opens them to all. SeqCst: see `help_while_waiting.rs`.
    pub(crate) fn reserve(&self, is_reserved: bool) {
        self.shared.is_reserved.store(u32::from(is_reserved), SeqCst);
    }

    /// True if the root job of these jobs is named. Called by the owner.
    #[inline]
    pub(crate) fn is_named(&self) -> bool {
        self.part_of.load(Relaxed) != 0
    }

    /// Ends a reservation when no job is shared any more. Called by the owner.
    pub(crate) fn end_reserve(&self) {
        // Relaxed: only the owner writes it.
        if self.shared.is_reserved.load(Relaxed) != 0 {
            self.reserve(false);
        }
    }

    /// True if the oldest job that thieves could take is a subtask of `whole`.
    pub(crate) fn has_part_of(&self, whole: u64) -> bool {
        let word = self.shared.word.load(SeqCst);
        top_of(word) < split_of(word) && self.begins_with_part_of(whole, word)
    }

    /// True if the oldest job in `word` is a subtask of `whole`, provided that `word` is still the current one.
    ///
    /// Relaxed, after the Acquire load of the word: any name that was stored before that job was shared is visible. A name
    /// stored later was stored when the job was off the stack, and then the word has changed for good.
    fn begins_with_part_of(&self, whole: u64, word: u64) -> bool {
        let part_of = self.part_of.load(Relaxed);
        part_of >> SPLIT == whole && top_of(word) >= top_of(part_of)
    }

    /// Thief: takes the oldest shared job, if it is not reserved.
    pub(crate) fn steal(&self) -> Option<NonNull<T>> {
        self.steal_if(|_| !self.is_reserved())
    }

    /// Thief: takes the oldest shared job, if it is a subtask of `whole`.
    ///
    /// It may miss a job that was shared just now: a worker checks [`has_part_of`](Self::has_part_of) before it sleeps.
    pub(crate) fn steal_part_of(&self, whole: u64) -> Option<NonNull<T>> {
        if self.part_of.load(Relaxed) >> SPLIT != whole || self.is_fresh() {
            return None;
        }
        self.steal_if(|word| self.begins_with_part_of(whole, word))
    }

    /// True if there is exactly one job, and its owner is about to pop it.
    fn is_fresh(&self) -> bool {
        let before = self.shared.word.load(Relaxed);
        is_lone(before) && {
            (0..LONE_SPINS).for_each(|_| P::spin_hint());
            let word = self.shared.word.load(Relaxed);
            is_lone(word) && word != before
        }
    }

    fn steal_if(&self, may: impl Fn(u64) -> bool) -> Option<NonNull<T>> {
        // Acquire, here and below, pairs with the Release of `Owner::share`: the place is written, and the job's root is
        // named.
        let mut word = self.shared.word.load(Acquire);
        loop {
            let top = top_of(word);
            if top >= split_of(word) || !may(word) {
                return None;
            }
            // The place may hold another job by now: then the exchange fails.
            let job = self.places[top as usize].load(Relaxed);
            match self.shared.word.compare_exchange(word, word + 1, AcqRel, Acquire) {
                Ok(_) => return NonNull::new(job),
                Err(now) => word = now,
            }
        }
    }
}

impl Owner {
    /// True if a job was pushed and is still on the stack.
    pub(crate) fn has_jobs(&self) -> bool {
        self.bottom.get() > 0
    }

    /// How many jobs are on the stack, including stolen ones.
    #[inline]
    pub(crate) fn depth(&self) -> u32 {
        self.bottom.get()
    }

    /// Pushes a job, and shares older ones if thieves see none or many are private.
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

    /// Pushes a job, and opens all jobs to thieves.
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

    /// Stops sharing, or starts it again. Returns the previous setting.
    pub(crate) fn set_serial(&self, is_serial: bool) -> bool {
        self.is_serial.replace(is_serial)
    }

    #[cold]
    fn share<P: Platform, T>(&self, deque: &Deque<P, T>, more: u32) -> Pushed {
        if self.is_serial.get() {
            return Pushed::Private;
        }
        self.split.set(self.split.get() + more);
        // Release publishes the places to the Acquire in `steal`. SeqCst: see `Deque::has_shared`.
        deque.shared.word.fetch_add(u64::from(more) << SPLIT, SeqCst);
        Pushed::Shared
    }

    /// Opens all jobs to thieves. Returns false if they already were.
    pub(crate) fn share_all<P: Platform, T>(&self, deque: &Deque<P, T>) -> bool {
        let private = self.bottom.get() - self.split.get();
        private > 0 && self.share(deque, private) == Pushed::Shared
    }

    /// Allows this many private jobs; none if there was a theft since.
    fn learn(&self, top: u32, allowed: u32) {
        let theft = self.seen_top.replace(top) != top;
        self.allowed.set(if theft { 0 } else { allowed.min(MAX_PRIVATE) });
    }

    /// Pops the youngest job.
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

    /// Pops the youngest job if the stack holds more than `floor`, and returns it. Returns `None` if a thief has it. Then all
    /// jobs down to `floor` are popped: they were stolen as well.
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

    /// Makes the youngest shared jobs private. Returns false if there are none.
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
            // Acquire pairs with the thieves' Release exchange: a thief's change of `top` happens before new jobs are written
            // into these places.
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
        // A plain store: no job is shared, so no thief's exchange can succeed now. Relaxed: no other thread changes the word
        // meanwhile.
        let word = deque.shared.word.load(Relaxed);
        deque.shared.word.store(reused(word, floor, floor), Release);
    }

    /// Names the root job of the jobs that are pushed from here on. The jobs pushed before stay below them until that is
    /// [undone](Self::end_whole).
    pub(crate) fn begin_whole<P: Platform, T>(&self, deque: &Deque<P, T>, whole: u64) -> PartOf {
        let bottom = u64::from(self.bottom.get());
        let part_of = &*deque.part_of;
        let before = part_of.load(Relaxed);
        // Relaxed: a thief sees it with the jobs that are shared after it, see `begins_with_part_of`.
        part_of.store(whole << SPLIT | bottom, Relaxed);
        PartOf(before)
    }

    /// Names the root job of the jobs that are pushed from here on. The jobs pushed before stay below them until they are
    /// [taken back](Self::end_whole).
    pub(crate) fn name_whole<P: Platform, T>(&self, deque: &Deque<P, T>, whole: u64) {
        deque.part_of.store(whole << SPLIT, Relaxed);
    }

    /// Called once the jobs pushed since [`begin_whole`](Self::begin_whole) are off the stack.
    pub(crate) fn end_whole<P: Platform, T>(&self, deque: &Deque<P, T>, before: PartOf) {
        deque.part_of.store(before.0, Relaxed);
    }
}
