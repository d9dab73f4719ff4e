//! The words that a pool's forking workers publish for thieves, and the injected jobs.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use coreshard_platform::{AtomicInt, Padded, Platform, fields};

use super::jobs::{Deque, Found, Header, JobList, ListedJob};
use super::slots::{Slots, WorkerSlot};

/// After a thief was moved to its caller's CPU: how many thieves are kept off theirs, which takes two system calls each.
const STEERED_AFTER_DRAWN: u32 = 64;

/// States of `uses_lists`.
const LISTS_UNUSED: u32 = 0;
const LISTS_USED: u32 = 1;
/// Also used by threads outside: it stays so, and the pool counts as forking.
const LISTS_USED_OUTSIDE: u32 = 2;

/// A pool's words about forked jobs. All are atomic, or behind their own lock.
pub(super) struct Thieves<P: Platform> {
    /// Of a team: injected jobs; one or more lists.
    injected: Box<[Padded<JobList<P>>]>,
    uses_lists: P::AtomicU32,
    /// Workers that have shared forked jobs since they last parked. Thieves read this first.
    forking: Padded<P::AtomicU32>,
    /// 1 while a thief is on its way to the lock, since an item may wait.
    lookouts: Padded<P::AtomicU32>,
    /// Thieves to be steered away from their wakers, since the kernel moved one there.
    drawn: Padded<P::AtomicU32>,
    /// 1 while the hogs and their stand-ins leave no CPU for another thief.
    refused: P::AtomicU32,
    /// 1 if workers may sleep besides the designated waiter: a hint for a worker that wakes several.
    has_more_sleepers: Padded<P::AtomicU32>,
}
fields!(Thieves<P: Platform> {
    injected, uses_lists, forking, lookouts, drawn, refused, has_more_sleepers,
});

impl<P: Platform> Thieves<P> {
    /// Makes the words, with `lists` lists for injected jobs.
    pub(super) fn new(lists: usize) -> Self {
        let word = || Padded::new(P::AtomicU32::new(0));
        Self {
            injected: (0..lists).map(|_| Padded::new(JobList::new())).collect(),
            uses_lists: P::AtomicU32::new(LISTS_UNUSED),
            forking: word(),
            lookouts: word(),
            drawn: word(),
            refused: P::AtomicU32::new(0),
            has_more_sleepers: word(),
        }
    }

    /// Makes thieves look at one more worker from here on. SeqCst: before the wake words are read, see `has_forks`.
    pub(super) fn begin_forking(&self) {
        self.forking.fetch_add(1, SeqCst);
    }

    pub(super) fn end_forking(&self) {
        self.forking.fetch_sub(1, Relaxed);
    }

    #[inline]
    pub(super) fn may_have_forks(&self) -> bool {
        self.forking.load(Relaxed) > 0
    }

    /// True if a worker has jobs that a thief could take, or a job was injected.
    ///
    /// SeqCst on both words: if a worker posts itself as the designated waiter and then finds nothing here, the worker that
    /// shares a job later finds it on the wake word.
    #[inline]
    pub(super) fn has_forks(&self, slots: &Slots<P>) -> bool {
        self.forking.load(SeqCst) > 0 && any_shares(slots) || self.has_injected()
    }

    /// The first result of `find` among the stacks of jobs, starting after this worker's. SeqCst: as in
    /// [`has_forks`](Self::has_forks), for a worker that sleeps if nothing is found.
    pub(super) fn find_fork<R>(
        &self,
        slots: &Slots<P>,
        after: Option<usize>,
        mut find: impl FnMut(&Deque<P, Header<P>>) -> Option<R>,
    ) -> Option<R> {
        if self.forking.load(SeqCst) == 0 {
            return None;
        }
        each_after(slots, after).find_map(|(_, slot)| find(&slot.deque))
    }

    /// Steals a job from a worker other than `but`, starting after that one; also returns whether the victim has more.
    pub(super) fn steal(
        &self,
        slots: &Slots<P>,
        but: Option<usize>,
        own: Option<&JobList<P>>,
    ) -> Option<(Found<P>, bool)> {
        if !self.may_have_forks() {
            return None;
        }
        each_after(slots, but).filter(|(index, _)| Some(*index) != but).find_map(|(_, slot)| {
            let forked = slot.deque.steal().map(Found::Forked);
            let listed = || match own {
                Some(own) => slot.listed.take_half(own),
                None => slot.listed.take_oldest(),
            };
            let job = forked.or_else(|| listed().map(Found::Listed))?;
            Some((job, slot.has_jobs_for_all()))
        })
    }

    /// True if a worker has ever had jobs in its list.
    #[inline]
    pub(super) fn uses_lists(&self) -> bool {
        self.uses_lists.load(Relaxed) != LISTS_UNUSED
    }

    /// Records that a worker uses its list.
    pub(super) fn set_uses_lists(&self) {
        if !self.uses_lists() {
            let _ = self.uses_lists.compare_exchange(LISTS_UNUSED, LISTS_USED, Relaxed, Relaxed);
        }
    }

    /// Injects a job from a thread that is not a worker of the pool, at the CPU of this injector.
    pub(super) fn inject<'pool>(
        &self,
        job: ListedJob<P>,
        injector: usize,
        first: impl FnOnce() -> &'pool WorkerSlot<P>,
    ) {
        if !self.injected.is_empty() {
            return self.injected[injector % self.injected.len()].push(job);
        }
        // Threads outside give a queue's workers items, not jobs: this job goes into the first worker's list.
        first().listed.push(job);
        if self.uses_lists.swap(LISTS_USED_OUTSIDE, Relaxed) != LISTS_USED_OUTSIDE {
            self.begin_forking();
        }
    }

    pub(super) fn injected(&self) -> impl Iterator<Item = &JobList<P>> {
        self.injected.iter().map(|list| &**list)
    }

    pub(super) fn has_injected(&self) -> bool {
        self.injected().any(JobList::has_jobs)
    }

    /// Takes the oldest injected job, starting with the list of this injector; also returns whether that list has more.
    pub(super) fn take_injected(
        &self,
        injector: impl FnOnce() -> usize,
    ) -> Option<(ListedJob<P>, bool)> {
        let lists = &self.injected;
        let first = if lists.len() > 1 { injector() } else { 0 };
        (0..lists.len()).map(|at| &lists[(first + at) % lists.len()]).find_map(|list| {
            let job = list.take_oldest()?;
            Some((job, list.has_jobs()))
        })
    }

    /// Jobs that no worker has begun, not counting forked ones.
    pub(super) fn jobs_waiting(&self, slots: &Slots<P>) -> u64 {
        let injected = self.injected().map(JobList::len).sum::<u64>();
        injected + slots.each().map(|(_, slot)| slot.listed.len() + slot.mail.len()).sum::<u64>()
    }

    /// True if a job waits that no caller inside the pool waits for.
    pub(super) fn has_unawaited(&self, slots: &Slots<P>) -> bool {
        self.has_injected() || slots.each().any(|(_, slot)| slot.listed.has_unawaited())
    }

    /// True if the caller becomes the lookout for waiting items; one thief at a time is.
    ///
    /// Acquire pairs with the Release of [`end_lookout`](Self::end_lookout): the marks that the last lookout removed stay
    /// removed.
    pub(super) fn begin_lookout(&self) -> bool {
        self.lookouts.swap(1, Acquire) == 0
    }

    /// The lookout has the lock: a thief that sees a waiting item from here on takes the lock after it.
    pub(super) fn end_lookout(&self) {
        self.lookouts.store(0, Release);
    }

    pub(super) fn set_refused(&self, is_refused: bool) {
        if self.are_refused() != is_refused {
            self.refused.store(is_refused.into(), Relaxed);
        }
    }

    /// True if no CPU is left for another thief. Relaxed: a worker that shares writes the job first, and one that stops
    /// running looks for jobs after it has changed this.
    pub(super) fn are_refused(&self) -> bool {
        self.refused.load(Relaxed) != 0
    }

    pub(super) fn set_has_more_sleepers(&self, has_more: bool) {
        if self.has_more_sleepers() != has_more {
            self.has_more_sleepers.store(has_more.into(), Relaxed);
        }
    }

    pub(super) fn has_more_sleepers(&self) -> bool {
        self.has_more_sleepers.load(Relaxed) != 0
    }

    /// True if a thief must be kept off its caller's CPU wherever it slept, since another was recently moved there. Counts
    /// down.
    pub(super) fn were_drawn(&self) -> bool {
        let drawn = self.drawn.load(Relaxed);
        if drawn > 0 {
            self.drawn.store(drawn - 1, Relaxed);
        }
        drawn > 0
    }

    /// Records that a thief woke up on its caller's CPU.
    pub(super) fn set_drawn(&self) {
        self.drawn.store(STEERED_AFTER_DRAWN, Relaxed);
    }
}

/// The workers, starting after this one: so thieves do not all begin at the same victim.
fn each_after<P: Platform>(
    slots: &Slots<P>,
    first: Option<usize>,
) -> impl Iterator<Item = (usize, &WorkerSlot<P>)> {
    let first = first.unwrap_or(0);
    let later = slots.each().filter(move |(index, _)| *index > first);
    later.chain(slots.each().filter(move |(index, _)| *index <= first))
}

/// True if a worker has jobs that any other could take.
#[cold]
pub(super) fn any_shares<P: Platform>(slots: &Slots<P>) -> bool {
    slots.each().any(|(_, slot)| slot.has_jobs_for_all())
}
