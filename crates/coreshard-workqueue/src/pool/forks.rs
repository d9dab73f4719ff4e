//! Forked jobs between workers: who steals them, and who is woken to.
//!
//! A worker that has shared a job wakes a sleeper of its own pool, else one of the nearest pool
//! that has one. A worker that finds no item looks at the stacks of its own pool, and then at
//! those of the others, the nearest first.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use coreshard_platform::{AtomicInt, Platform, stack_pointer};

use super::context::{Context, OwnPool, context_here};
use super::deque::{Deque, Popped, Pushed};
use super::frame::Frame;
use super::header::Header;
use super::jobs::{JobList, ListedJob};
use super::placement::{BusyCpus, FreeCpus};
use super::pool::{Neighbours, Pool, PoolGuard};
use super::sizes::Injectors;
use super::slot::{STEALS, WorkerSlot};
use super::state::{Kick, State, Worklist};
use super::worker::Worker;
use crate::base::rungs::Wake;

/// Times that a job is shared without looking for a sleeper in other pools, at most, after nobody
/// slept there.
const MAX_UNCALLED: u32 = 7;

/// How much of its stack a worker uses, at most, when it begins a further item on top of those that it
/// is inside of; a quarter of a stack that is not four times as large. What items themselves need is
/// not known: they have the rest.
const ROOM_FOR_ITEMS: usize = 256 << 10;

/// Sleepers that a thief calls which was called itself, where there is more: so those who steal double.
const CALLED_BY_EACH: u32 = 2;

/// Thieves that are kept off their callers' CPUs, which takes two system calls, after one was drawn there.
const STEERED_AFTER_DRAWN: u32 = 64;

/// For how long a worker goes from job to job without the pool's lock.
const LOOK_EVERY_NS: u64 = 400_000;

/// A job that another worker offered.
pub(super) enum Found<P: Platform> {
    Forked(NonNull<Header<P>>),
    Listed(ListedJob<P>),
}

/// The worker of this thread, as forking code sees it.
pub(crate) struct CurrentWorker<'thread, P: Platform> {
    pub(super) context: &'thread Context<P>,
}

impl<P: Platform> Clone for CurrentWorker<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for CurrentWorker<'_, P> {}

impl<'thread, P: Platform> CurrentWorker<'thread, P> {
    /// `None` on a thread that is no worker.
    #[inline]
    pub(crate) fn here() -> Option<Self> {
        context_here().map(|context| Self { context })
    }

    #[inline]
    pub(super) fn deque(self) -> &'thread Deque<P, Header<P>> {
        &self.slot().deque
    }

    #[inline]
    #[allow(unsafe_code)]
    pub(super) fn slot(self) -> &'thread WorkerSlot<P> {
        // SAFETY: the worker's own slot is freed with its pool, which the context keeps.
        unsafe { self.context.slot.as_ref() }
    }

    /// What this worker is inside of.
    #[inline]
    pub(crate) fn frame(self) -> *const Frame<P> {
        self.context.frame.get()
    }

    /// This worker's pool.
    pub(crate) fn pool(self) -> &'thread Arc<Pool<P>> {
        &self.context.pool
    }

    /// The same, which costs no line that other workers write.
    pub(crate) fn own_pool(self) -> Arc<OwnPool<P>> {
        Arc::clone(&self.context.own_pool)
    }

    /// Calls `ask` with [that](Self::own_pool), uncounted: it is not dropped.
    #[allow(unsafe_code)]
    pub(crate) fn with_own_pool<R>(
        self,
        ask: impl FnOnce(ManuallyDrop<Arc<OwnPool<P>>>) -> R,
    ) -> R {
        // SAFETY: the worker's own is there as long as this thread is inside its work; this one is not dropped.
        ask(ManuallyDrop::new(unsafe { Arc::from_raw(Arc::as_ptr(&self.context.own_pool)) }))
    }

    /// See [`Pool::crew`].
    pub(crate) fn crew(self) -> usize {
        self.context.pool.crew()
    }

    /// See [`Pool::set`].
    pub(crate) fn set(self) -> usize {
        self.context.pool.set()
    }

    /// True if other threads may run a part of what this one does: it is inside a join, or a scope.
    pub(crate) fn has_forked(self) -> bool {
        self.context.forks.owner.has_jobs() || self.context.forks.stolen.get() > 0
    }

    /// Says that this worker begins something else inside its item.
    pub(crate) fn begin_inside(self) {
        self.slot().begin_inside();
    }

    /// True if so much of the stack is free that another item may be run on top of what is there.
    pub(crate) fn has_room(self) -> bool {
        let used = self.context.base.abs_diff(stack_pointer());
        let stack = self.context.pool.attributes.stack_bytes;
        used < stack.map_or(ROOM_FOR_ITEMS, |bytes| ROOM_FOR_ITEMS.min(bytes / 4))
    }

    /// Offers a job to thieves, sooner or later.
    #[inline]
    pub(crate) fn push(self, job: NonNull<Header<P>>) -> Pushed {
        self.context.forks.owner.push(&self.slot().deque, job)
    }

    /// Offers a job to thieves, at once, with all that was kept from them.
    #[inline]
    pub(crate) fn push_shared(self, job: NonNull<Header<P>>) -> Pushed {
        self.context.forks.owner.push_shared(&self.slot().deque, job)
    }

    /// Takes back the job that was pushed last.
    #[inline]
    pub(crate) fn pop(self) -> Popped {
        self.context.forks.owner.pop(&self.slot().deque)
    }

    /// After a job was shared: wakes one who sleeps, to take it. Who waits for what this worker does a part of
    /// comes first: he can do little else.
    #[cold]
    pub(crate) fn call_thieves(self) {
        self.count_as_forking();
        if !self.offer_to_waiter() {
            self.call_one();
        }
    }

    /// As [`call_thieves`](Self::call_thieves), where what was shared is worth up to so many wake-ups: as many as there are who sleep are woken,
    /// though others may be on their way. Only one where this pool [calls no more](Pool::calls_several).
    #[cold]
    pub(crate) fn call_more_thieves(self, most: u32) {
        self.count_as_forking();
        if !self.offer_to_waiter() {
            if self.pool().calls_several() {
                self.call_up_to(most);
            } else {
                self.call_one();
            }
        }
    }

    #[cold]
    fn call_up_to(self, most: u32) {
        let _all = (0..most).all(|_| self.call_nearest(Pool::call_another));
    }

    /// Thieves look at this worker from here on, until it rests.
    pub(super) fn count_as_forking(self) {
        let Context { pool, forks, .. } = self.context;
        if !forks.counted.replace(true) {
            // SeqCst: before the wake words are read, see `Pool::has_forks`.
            pool.forking.fetch_add(1, SeqCst);
        }
    }

    /// Wakes one sleeper, the nearest, if none is on its way.
    pub(super) fn call_one(self) {
        self.call_nearest(Pool::call_thief);
    }

    /// Whether one was called, of this pool or of the nearest that has one. The other pools are not looked at each time where nobody
    /// slept there: whoever falls asleep looks at this worker's stack before.
    fn call_nearest(self, call: impl Fn(&Pool<P>, Option<BusyCpus>) -> bool) -> bool {
        let Context { pool, forks, .. } = self.context;
        if call(pool, Some(self.busy_cpus())) {
            return true;
        }
        let (skip, after) = forks.uncalled.get();
        if skip > 0 {
            forks.uncalled.set((skip - 1, after));
            return false;
        }
        let called = self.neighbours().iter().any(|pool| call(pool, None));
        let after = if called { 0 } else { (after * 2 + 1).min(MAX_UNCALLED) };
        forks.uncalled.set((after, after));
        called
    }

    fn busy_cpus(self) -> BusyCpus {
        let Context { pool, producer, .. } = self.context;
        BusyCpus { own: pool.place.injector_here::<P>(), producer: producer.get() }
    }

    /// Takes a job, from the nearest worker that has one. Where that one has more, it calls the next
    /// who sleeps; and of a list it takes some into its own, where it `takes_more`: outside of any work, since who waits
    /// inside runs what its list has come to have since.
    pub(super) fn steal(self, takes_more: bool) -> Option<Found<P>> {
        let Context { pool, index, forks, .. } = self.context;
        let own = takes_more.then(|| &*self.slot().listed);
        let neighbours = || self.neighbours().iter();
        let (job, has_more) = pool
            .steal_job(Some(*index), own)
            .or_else(|| neighbours().find_map(|neighbour| neighbour.steal_job(None, own)))?;
        if forks.has_just_come.take() && pool.calls_several() {
            self.call_for_the_rest(has_more);
        } else if has_more {
            self.call_one();
        }
        Some(job)
    }

    /// By who has just come, and taken a job: what was shared while it was on its way has called nobody, whoever has it. So
    /// it looks at all there are, and calls several, each of whom does the same: those who steal double.
    #[cold]
    fn call_for_the_rest(self, has_more: bool) {
        let has_shares = |pool: &Pool<P>| pool.forking.load(Relaxed) > 0 && pool.any_shares();
        if has_more
            || has_shares(self.pool())
            || self.neighbours().iter().any(|pool| has_shares(pool))
        {
            self.call_up_to(CALLED_BY_EACH);
        }
    }

    /// The other pools; none before the set is complete, then looked up once.
    pub(super) fn neighbours(self) -> &'thread [Arc<Pool<P>>] {
        let Context { pool, forks, .. } = self.context;
        if let Some(neighbours) = forks.neighbours.get() {
            return neighbours;
        }
        match pool.neighbours.lock().clone() {
            Some(known) => forks.neighbours.get_or_init(|| known),
            None => &[],
        }
    }
}

impl<P: Platform> Worker<'_, P> {
    /// Runs a job that another worker has forked, if there is one. As after a claim, somebody is
    /// told of what is left and of what comes, before.
    pub(super) fn run_fork(&mut self) -> bool {
        let (pool, worker) = (self.pool, CurrentWorker { context: self.context });
        if self.excess || !self.may_steal {
            return false;
        }
        if self.pool.is_team() {
            // Somebody is told already: see `run_team_jobs`.
            let ran = worker.run_any(true);
            self.pool.ran.fetch_add(ran.into(), Relaxed);
            return ran;
        }
        let job = worker.steal(false);
        if std::mem::take(&mut self.saw_forks) {
            self.watch_length.watched(job.is_some());
        }
        let Some(job) = job else { return false };
        // The job may take long, and somebody may wait for the items that this worker has run.
        self.settle_items();
        if self.looked_ns == 0 {
            let mut state = pool.lock();
            let spare = state.reserve_spare(pool);
            let left = state.can_kick(pool) && state.has_work_for(pool, 1);
            let kick = state.pass_on(pool, left);
            self.looked_ns = P::rough_ns();
            pool.unlock_and_kick(state, kick);
            if let Some(spare) = spare {
                pool.start_spare(spare);
            }
        }
        pool.monitor.notice_work();
        self.slot.link.store(self.slot.link.load(Relaxed) | STEALS, Relaxed);
        worker.run_found(job);
        true
    }

    /// True where it may go on from one job to the next without the pool's lock, which all who steal would take twice for each:
    /// no item waits, or another of them looks after it; and whoever is to be told of the next one is, or was seen to just now.
    #[inline]
    pub(super) fn only_steals(&mut self) -> bool {
        self.looked_ns != 0 && self.goes_on_stealing()
    }

    #[cold]
    #[inline(never)]
    fn goes_on_stealing(&mut self) -> bool {
        self.slot.is_called_back.load(Relaxed) == 0
            && P::rough_ns().wrapping_sub(self.looked_ns) < LOOK_EVERY_NS
            && !self.is_to_look()
    }

    /// True if an item may wait, and none of the others that steal is on its way to it.
    pub(super) fn is_to_look(&mut self) -> bool {
        let pool = self.pool;
        let is_marked = || pool.queue.as_ref().is_none_or(Injectors::is_marked);
        // Acquire pairs with the Release of whoever has looked: the marks that it took off are off.
        self.is_lookout |= is_marked() && pool.lookouts.swap(1, Acquire) == 0;
        self.is_lookout
    }

    /// Under the lock, where no item waits: somebody is told of the next one, and where nobody can be, it is seen on the wake word.
    #[cold]
    #[inline(never)]
    pub(super) fn begin_to_steal(&mut self, mut state: PoolGuard<'_, P>) {
        let pool = self.pool;
        let kick = state.pass_on(pool, false);
        let is_armed = state.arm_for_thieves(pool);
        // It may start another worker, for which it takes the lock again.
        let may_start = state.idle_count() == 0 && state.active() < pool.place.limit;
        self.looked_ns = if is_armed && !may_start { P::rough_ns() } else { 0 };
        self.slot.is_called_back.store(0, Relaxed);
        pool.unlock_and_kick(state, kick);
    }

    /// This worker rests: thieves need not look at its stack.
    pub(super) fn stop_forking(&self) {
        if self.context.forks.counted.replace(false) {
            self.pool.forking.fetch_sub(1, Relaxed);
        }
    }
}

impl<P: Platform> State<P> {
    /// Sees to it that the next item is seen on the wake word. False if one waits.
    #[cold]
    #[inline(never)]
    pub(super) fn arm_for_thieves(&mut self, pool: &Pool<P>) -> bool {
        match (&mut self.worklist, &pool.queue) {
            (Worklist::LockFree(takers), Some(queue)) => queue.arm_marked(takers).is_ok(),
            _ => false,
        }
    }
}

impl<P: Platform> Pool<P> {
    /// Tells the pool of the others of its set, or that there are none any more.
    pub(crate) fn set_neighbours(&self, neighbours: Option<Neighbours<P>>) {
        *self.neighbours.lock() = neighbours;
    }

    /// True if a worker has forked jobs that a thief could take.
    ///
    /// SeqCst on both words: a worker that posts itself as the designated waiter and then finds nothing
    /// here is found on the wake word by the worker that shares a job later.
    #[inline]
    pub(super) fn has_forks(&self) -> bool {
        self.forking.load(SeqCst) > 0 && self.any_shares()
            || self.injected.iter().any(|list| list.has_jobs())
    }

    #[cold]
    pub(super) fn any_shares(&self) -> bool {
        self.each_slot().any(|(_, slot)| slot.has_jobs_for_all())
    }

    /// Takes a job from a worker other than `but`, beginning behind that one; and whether that worker has more.
    pub(super) fn steal_job(
        &self,
        but: Option<usize>,
        own: Option<&JobList<P>>,
    ) -> Option<(Found<P>, bool)> {
        if self.forking.load(Relaxed) == 0 {
            return None;
        }
        let first = but.unwrap_or(0);
        self.each_slot()
            .filter(|(index, _)| *index > first)
            .chain(self.each_slot().filter(|(index, _)| *index <= first && Some(*index) != but))
            .find_map(|(_, slot)| {
                let forked = slot.deque.steal().map(Found::Forked);
                let listed = || match own {
                    Some(own) => slot.listed.take_half(own),
                    None => slot.listed.take_oldest(),
                };
                let job = forked.or_else(|| listed().map(Found::Listed))?;
                Some((job, slot.has_jobs_for_all()))
            })
    }

    /// The first that `find` finds in the stacks of jobs.
    ///
    /// SeqCst: as in [`has_forks`](Self::has_forks), for whoever sleeps where nothing is found.
    pub(super) fn find_fork<R>(
        &self,
        find: impl FnMut(&Deque<P, Header<P>>) -> Option<R>,
    ) -> Option<R> {
        if self.forking.load(SeqCst) == 0 {
            return None;
        }
        self.each_slot().map(|(_, slot)| &slot.deque).find_map(find)
    }

    /// As [`call_anybody`](Self::call_anybody), for what a thread outside has just brought: that one goes on, or watches
    /// for the end of it.
    pub(super) fn call_beside_here(&self) {
        let own = self.place.injector_here::<P>();
        self.call_beside(Some(BusyCpus { own, producer: None }));
    }

    /// Wakes a worker that sleeps, of this pool or of another.
    pub(super) fn call_anybody(&self) {
        self.call_beside(None);
    }

    fn call_beside(&self, busy: Option<BusyCpus>) {
        if !self.call_thief(busy)
            && let Some(neighbours) = self.neighbours.lock().clone()
        {
            neighbours.iter().any(|pool| pool.call_thief(None));
        }
    }

    /// Wakes a worker of this pool that sleeps, if one more may run, beside those `busy` CPUs.
    pub(super) fn call_thief(&self, busy: Option<BusyCpus>) -> bool {
        // Who shares writes the job first, and who stops running looks for jobs after it has told of itself.
        if self.refuses_thieves.load(Relaxed) != 0 {
            return false;
        }
        match &self.queue {
            Some(queue) => {
                let sleeper = queue.designated().and_then(|_| queue.recall());
                if let Some(worker) = sleeper {
                    let steer_to = self.keep_off(busy, worker);
                    self.wake_kicked(Kick { worker, steer_to });
                    return true;
                }
                queue.has_unposted() && self.choose_thief(busy)
            }
            None => self.choose_thief(busy),
        }
    }

    /// Whether workers are called though others are on their way, where that is worth it: on the newest rungs. The others are what they were.
    pub(crate) fn calls_several(&self) -> bool {
        self.attributes.wake == Wake::Coalesced && self.queue.is_some()
    }

    /// As [`Self::call_thief`], though another one may be on its way: those who come double with each wake-up then, where they are one more else.
    fn call_another(&self, busy: Option<BusyCpus>) -> bool {
        self.call_thief(busy)
            || self.has_more_sleepers.load(Relaxed) != 0 && self.choose_another_thief(busy)
    }

    #[cold]
    fn choose_another_thief(&self, busy: Option<BusyCpus>) -> bool {
        self.choose_under_lock(busy, |state| {
            let may_run = state.active_soon() < self.place.limit && state.may_steal(self, 1);
            let kick = if may_run { state.choose_unnamed(self) } else { None };
            if kick.is_none() {
                self.has_more_sleepers.store(0, Relaxed);
            }
            kick
        })
    }

    /// Where a thief, which is to be woken next, should wake up, if that is not left to the kernel.
    ///
    /// That leaves it where it slept, if nobody runs there. Else it may draw it to its caller's CPU, where it waits for the end
    /// of a time slice: in a virtual machine even where it has slept on an idle CPU, see `placement`. So it is kept off
    /// where that is to be expected: the CPU is taken, or others were drawn of late.
    fn keep_off(&self, busy: Option<BusyCpus>, worker: usize) -> Option<FreeCpus> {
        let busy = busy?;
        let slot = self.slot(worker);
        // Relaxed, all of it: it is about where the thief runs, not what.
        let slept_at = slot.slept_at.load(Relaxed) as usize;
        let drawn = self.drawn.load(Relaxed);
        if drawn > 0 {
            self.drawn.store(drawn - 1, Relaxed);
        } else if slept_at != busy.own && Some(slept_at) != busy.producer {
            slot.called_from.store(busy.own as u32 + 1, Relaxed);
            return None;
        }
        FreeCpus::beside(busy, self.place.cpus.len())
    }

    /// A worker woke up: it may have been drawn to where it was called from.
    pub(super) fn notice_drawn(&self, worker: usize) {
        let called_from = &self.slot(worker).called_from;
        let from = called_from.load(Relaxed) as usize;
        if from > 0 {
            called_from.store(0, Relaxed);
            if from - 1 == self.place.injector_here::<P>() {
                self.drawn.store(STEERED_AFTER_DRAWN, Relaxed);
            }
        }
    }

    /// As [`Self::call_thief`], under the lock: somebody may sleep whose name is on no word.
    #[cold]
    fn choose_thief(&self, busy: Option<BusyCpus>) -> bool {
        self.choose_under_lock(busy, |state| {
            let kick = if state.may_steal(self, 1) { state.choose_kick(self) } else { None };
            if kick.is_none() || state.idle.is_empty() {
                // Nobody sleeps so, or nobody more may run: whoever is next to lie down posts itself.
                self.queue.iter().for_each(|queue| queue.set_unposted(false));
            }
            kick
        })
    }

    /// Wakes whom `choose` chooses, off the busy CPUs. False where that is nobody.
    fn choose_under_lock(
        &self,
        busy: Option<BusyCpus>,
        choose: impl FnOnce(&mut State<P>) -> Option<Kick>,
    ) -> bool {
        let mut state = self.lock();
        let mut kick = choose(&mut state);
        if let Some(kick) = &mut kick {
            kick.steer_to = self.keep_off(busy, kick.worker);
        }
        let called = kick.is_some();
        self.unlock_and_kick(state, kick);
        called
    }
}
