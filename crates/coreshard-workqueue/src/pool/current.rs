//! The worker on this thread, as forking code sees it: its stack of jobs, the workers it wakes for them, and how it runs other
//! workers' jobs.
//!
//! A worker that has shared a job wakes a sleeper in its pool, or else in the nearest pool that has one. A worker that finds
//! no item looks at the stacks in its pool, and then in the other pools, the nearest first.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use coreshard_platform::{AtomicInt, Lock, Platform, stack_pointer};

use super::context::{Context, OwnPool, SpawnPlace, context_here};
use super::forked_jobs::any_shares;
use super::jobs::Frame;
use super::jobs::{
    Closure, Deque, Fifo, Found, Header, JobBody, JobId, JobList, JobNumber, ListedJob,
    MAX_IN_A_ROW, Parts, Popped, Pushed, Tickets,
};
use super::placement::BusyCpus;
use super::pool::Pool;
use super::slots::WorkerSlot;
use crate::base::latch::Latch;

/// How often a job is shared without looking for a sleeper in other pools, at most, after none slept there.
const MAX_UNCALLED: u32 = 7;

/// How much of its stack a worker uses, at most, before it begins a further item on top of the current ones; a quarter of a
/// stack that is less than four times as large. The stack use of items is not known: they get the rest.
const ROOM_FOR_ITEMS: usize = 256 << 10;

/// Jobs that a team member may run while it waits, besides subtasks of the job it waits for.
#[derive(Clone, Copy)]
pub(crate) struct WaitKind {
    /// Jobs in its list with this number or a later one.
    pub(crate) since: JobNumber,
    /// It waits for another team, whose members may wait for this one: it also runs injected jobs.
    pub(crate) is_elsewhere: bool,
}

impl WaitKind {
    /// For a subtask of the worker's work.
    pub(crate) const OF_PART: Self = Self { since: JobNumber::NONE, is_elsewhere: false };
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
    /// Returns `None` on a thread that is not a worker.
    #[inline]
    pub(crate) fn here() -> Option<Self> {
        context_here().map(|context| Self { context })
    }

    #[inline]
    pub(super) fn deque(self) -> &'thread Deque<P, Header<P>> {
        &self.slot().deque
    }

    #[inline]
    pub(super) fn slot(self) -> &'thread WorkerSlot<P> {
        // SAFETY: the worker's own slot is freed with its pool, which the context keeps.
        unsafe { self.context.slot.as_ref() }
    }

    /// The innermost frame of this worker.
    #[inline]
    pub(crate) fn frame(self) -> *const Frame<P> {
        self.context.frame.get()
    }

    /// This worker's pool.
    pub(crate) fn pool(self) -> &'thread Arc<Pool<P>> {
        &self.context.pool
    }

    /// The same, without touching a cache line that other workers write.
    pub(crate) fn own_pool(self) -> Arc<OwnPool<P>> {
        Arc::clone(&self.context.own_pool)
    }

    /// Calls `ask` with [that](Self::own_pool), without counting a reference.
    pub(crate) fn with_own_pool<R>(
        self,
        ask: impl FnOnce(ManuallyDrop<Arc<OwnPool<P>>>) -> R,
    ) -> R {
        // SAFETY: the worker's own reference lives while this thread is inside its work; this copy is not dropped.
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

    /// This member's index in its team.
    pub(crate) fn index(self) -> usize {
        self.context.pool.place.members.start + self.context.index
    }

    /// Workers that may run at once, in this worker's pool and its neighbours together.
    pub(crate) fn worker_limit(self) -> usize {
        self.pools().map(|pool| pool.place.limit).sum()
    }

    /// The other pools. Empty before the set is complete; then looked up once.
    pub(super) fn neighbours(self) -> &'thread [Arc<Pool<P>>] {
        let Context { pool, forks, .. } = self.context;
        if let Some(neighbours) = forks.neighbours.get() {
            return neighbours;
        }
        match pool.neighbours() {
            Some(known) => forks.neighbours.get_or_init(|| known),
            None => &[],
        }
    }

    /// This worker's pool, followed by the others, the nearest first.
    pub(super) fn pools(self) -> impl Iterator<Item = &'thread Arc<Pool<P>>> {
        let mut own = Some(self.pool());
        let mut others = None;
        // The others are looked up only if the first was not enough.
        std::iter::from_fn(move || {
            own.take().or_else(|| others.get_or_insert_with(|| self.neighbours().iter()).next())
        })
    }

    /// True if other threads may run subtasks of this worker's job: it is inside a join or a scope.
    pub(crate) fn has_forked(self) -> bool {
        self.context.forks.owner.has_jobs() || self.context.forks.stolen.get() > 0
    }

    /// Records that this worker begins something else inside its item.
    pub(crate) fn begin_inside(self) {
        self.slot().begin_inside();
    }

    /// True if enough of the stack is free to run another item on top of the current one.
    pub(crate) fn has_room(self) -> bool {
        let used = self.context.base.abs_diff(stack_pointer());
        let stack = self.context.pool.attributes.stack_bytes;
        used < stack.map_or(ROOM_FOR_ITEMS, |bytes| ROOM_FOR_ITEMS.min(bytes / 4))
    }

    /// Pushes a job, which thieves may see now or later.
    #[inline]
    pub(crate) fn push(self, job: NonNull<Header<P>>) -> Pushed {
        self.context.forks.owner.push(&self.slot().deque, job)
    }

    /// Pushes a job and shares it at once, with all jobs that were private.
    #[inline]
    pub(crate) fn push_shared(self, job: NonNull<Header<P>>) -> Pushed {
        self.context.forks.owner.push_shared(&self.slot().deque, job)
    }

    /// Pops the job that was pushed last.
    #[inline]
    pub(crate) fn pop(self) -> Popped {
        self.context.forks.owner.pop(&self.slot().deque)
    }

    /// Opens all private jobs of this worker to thieves.
    pub(super) fn share_all(self) {
        if self.context.forks.owner.share_all(self.deque()) {
            self.call_thieves();
        }
    }

    /// Adds a job to this worker's list, open to the whole pool, and wakes a worker for it: the one that waits for its root
    /// job, if that one is idle.
    pub(crate) fn list(self, job: ListedJob<P>) {
        let root = job.root;
        self.slot().listed.push(job);
        self.context.pool.thieves.set_uses_lists();
        self.count_as_forking();
        // SAFETY: the caller spawns a subtask of it, so it has not finished.
        if !unsafe { root.as_ref() }.is_some_and(Latch::nudge) {
            self.call_one();
        }
    }

    /// The number of the next job that this worker adds to its list.
    pub(crate) fn next_job(self) -> JobNumber {
        self.slot().listed.next()
    }

    /// Makes a job that runs this worker's next closure in order.
    pub(crate) fn in_turn(self, closure: Closure) -> JobBody<P> {
        let Context { in_order, .. } = self.context;
        in_order.lock().push_back(closure);
        JobBody::Next(Fifo::clone(in_order))
    }

    /// This worker's counters of the subtasks that it spawns.
    pub(crate) fn tickets(self) -> &'thread Tickets<P> {
        &self.context.forks.tickets
    }

    /// The root job of this worker's current subtask; null for none.
    pub(crate) fn root(self) -> *const Latch<P> {
        self.context.forks.root.get()
    }

    /// True if jobs that this worker has spawned or forked still wait.
    pub(crate) fn has_pending(self) -> bool {
        self.slot().listed.has_jobs() || self.context.forks.owner.has_jobs()
    }

    /// From here on thieves look at this worker, until it parks.
    fn count_as_forking(self) {
        if !self.context.forks.counted.replace(true) {
            self.context.pool.thieves.begin_forking();
        }
    }

    /// This worker parks: thieves need not look at its stack.
    pub(super) fn stop_forking(self) {
        if self.context.forks.counted.replace(false) {
            self.context.pool.thieves.end_forking();
        }
    }

    /// Wakes a sleeper for a job that was shared. A worker that waits for this worker's current subtask comes first, since it
    /// can run little else.
    #[cold]
    pub(crate) fn call_thieves(self) {
        self.count_as_forking();
        if !self.offer_to_waiter() {
            self.call_one();
        }
    }

    /// Like [`call_thieves`](Self::call_thieves), when the shared jobs are worth up to `most` wake-ups: wakes that many
    /// sleepers, even if others are on their way. Wakes only one in a pool that [calls no more](Pool::calls_several).
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

    /// Wakes the nearest sleeper, if no woken worker is on its way.
    pub(super) fn call_one(self) {
        self.call_nearest(Pool::call_thief);
    }

    /// Returns whether a sleeper was woken, in this pool or in the nearest one that has any. Once no worker slept in the other
    /// pools, they are not checked each time: a worker that falls asleep there looks at this worker's stack first.
    fn call_nearest(self, call: impl Fn(&Pool<P>, Option<BusyCpus>) -> bool) -> bool {
        let Context { pool, forks, producer, .. } = self.context;
        let busy = BusyCpus { own: pool.place.injector_here::<P>(), producer: producer.get() };
        if call(pool, Some(busy)) {
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

    /// Steals a job from the nearest worker that has one. If the victim has more, wakes the next sleeper. If `takes_more`,
    /// moves several jobs of a list into its own. That is only for a worker outside any work: a worker that waits inside runs
    /// the jobs that its list has received since.
    pub(super) fn steal(self, takes_more: bool) -> Option<Found<P>> {
        let Context { pool, forks, .. } = self.context;
        let own = takes_more.then(|| &*self.slot().listed);
        let (job, has_more) = self
            .pools()
            .find_map(|from| from.thieves.steal(&from.slots, self.index_in(from), own))?;
        if forks.has_just_come.take() && pool.calls_several() {
            self.call_for_the_rest(has_more);
        } else if has_more {
            self.call_one();
        }
        Some(job)
    }

    /// This worker's index, if the pool is its own.
    pub(super) fn index_in(self, pool: &Arc<Pool<P>>) -> Option<usize> {
        Arc::ptr_eq(pool, self.pool()).then_some(self.context.index)
    }

    /// Called by a worker that was just woken and has stolen a job. Jobs that any worker shared while it was on its way have
    /// woken no other sleeper. So it checks all of them and wakes several sleepers. Each of these does the same: the number of
    /// thieves doubles.
    #[cold]
    fn call_for_the_rest(self, has_more: bool) {
        if has_more
            || self.pools().any(|pool| pool.thieves.may_have_forks() && any_shares(&pool.slots))
        {
            self.call_up_to(self.pool().wake_cost().fan_out());
        }
    }

    /// Runs any job of the team: its own, a stolen one, or an injected one. A worker outside any work begins injected jobs
    /// before it steals subtasks. So each worker runs its own root job, if there are enough.
    pub(crate) fn run_any(self, is_outermost: bool) -> bool {
        if self.run_own() || is_outermost && self.run_injected() {
            return true;
        }
        if let Some(job) = self.steal(is_outermost) {
            self.run_found(job);
            return true;
        }
        !is_outermost && self.run_injected()
    }

    /// Runs a job that this worker has spawned, or one from its mail.
    pub(crate) fn run_own(self) -> bool {
        let slot = self.slot();
        let is_fifo = self.is_breadth_first();
        let own = if is_fifo { slot.listed.take_oldest() } else { slot.listed.take_latest() };
        let Some(job) = own.or_else(|| self.take_mail()) else { return false };
        self.run_in_a_row(job, !is_fifo);
        true
    }

    fn is_breadth_first(self) -> bool {
        self.context.pool.team().is_some_and(|team| team.breadth_first)
    }

    fn run_injected(self) -> bool {
        let place = &self.pool().place;
        let injected =
            self.pools().find_map(|pool| pool.thieves.take_injected(|| place.injector_here::<P>()));
        let Some((job, has_more)) = injected else { return false };
        if has_more {
            self.call_one();
        }
        self.run_listed(job);
        true
    }

    /// Runs a job that no caller waits for, or an injected one.
    #[inline(never)]
    pub(super) fn run_unawaited(self) -> bool {
        let job = self
            .pools()
            .find_map(|pool| pool.slots.each().find_map(|(_, slot)| slot.listed.take_unawaited()));
        match job {
            Some(job) => {
                self.run_listed(job);
                true
            }
            None => self.run_injected(),
        }
    }

    /// Runs any job, even this worker's own forks below the job it waits for.
    #[cold]
    fn run_last_resort(self) -> bool {
        let pool = self.pool();
        match pool.thieves.steal(&pool.slots, None, None) {
            Some((job, _)) => {
                self.run_found(job);
                true
            }
            None => self.run_any(false),
        }
    }

    /// Runs the oldest job of this member's mail. Returns false if there is none.
    pub(super) fn run_mail(self) -> bool {
        let Some(job) = self.take_mail() else { return false };
        self.run_listed(job);
        true
    }

    pub(super) fn take_mail(self) -> Option<ListedJob<P>> {
        let job = self.slot().mail.take_oldest()?;
        if let Some(board) = &self.context.pool.board {
            board.mailed.fetch_sub(1, SeqCst);
        }
        Some(job)
    }

    pub(super) fn run_found(self, job: Found<P>) {
        match job {
            Found::Forked(job) => self.run_stolen(job),
            Found::Listed(job) => self.run_listed(job),
        }
    }

    fn run_listed(self, job: ListedJob<P>) {
        self.run_in_a_row(job, false);
    }

    /// Runs a job. If it is one of counted subtasks and `takes_more`, also runs the latest jobs of this worker's list that
    /// belong to the same counter.
    #[inline(never)]
    fn run_in_a_row(self, job: ListedJob<P>, takes_more: bool) {
        let ListedJob { body, root, parts, .. } = job;
        if parts.is_null() {
            return self.run_body(body, root);
        }
        let slot = self.slot();
        let outer = self.tickets().replace(parts);
        self.run_body(body, root);
        let mut finished = 1;
        while takes_more
            && finished < MAX_IN_A_ROW
            && slot.is_called_back.load(Relaxed) == 0
            && let Some(job) = slot.listed.take_latest_of(parts)
        {
            self.run_body(job.body, root);
            finished += 1;
        }
        if finished > 1 {
            self.context.pool.count_ran(finished - 1);
        }
        let left = self.tickets().put_back(outer);
        // SAFETY: these subtasks were run here, and those tickets were counted; the waiter keeps the counter alive until the
        // last one has finished.
        unsafe { Parts::end(parts, finished + left) };
    }

    fn run_body(self, body: JobBody<P>, root: *const Latch<P>) {
        let run = match body {
            JobBody::Awaited(job) => return self.run_stolen(job),
            JobBody::Call(run) => run,
            JobBody::Next(fifo) => first_of(&fifo),
            // SAFETY: this is one of those subtasks, and it has not finished.
            JobBody::NextPart(fifo) => first_of(unsafe { &*fifo }),
        };
        self.begin_inside();
        if self.pool().is_team() {
            // SAFETY: it is a subtask of that.
            unsafe { self.run_named(root, run) };
        } else {
            // SAFETY: as above.
            unsafe { self.run_part(root, SpawnPlace::NONE, run) };
        }
    }

    /// Runs a listed job for a worker that waits for the job with this id: a subtask of that job, or a job that its own list
    /// has received since. Returns false if it may run none.
    pub(super) fn run_awaited(self, id: JobId, kind: WaitKind) -> bool {
        if !self.has_lists() {
            return false;
        }
        let slot = self.slot();
        if slot.is_last_resort.load(Relaxed) != 0 {
            slot.is_last_resort.store(0, Relaxed);
            return self.run_last_resort();
        }
        if let Some((job, is_in_a_row)) = self.take_own(id, kind) {
            // Subtasks of the awaited job are run in a row as well. After any other job, the worker checks first whether the
            // awaited job has finished.
            self.run_in_a_row(job, is_in_a_row);
            return true;
        }
        let Some((job, has_more)) = self.take_part_of_others(id) else {
            return kind.is_elsewhere && self.run_unawaited();
        };
        if has_more {
            self.call_one();
        }
        self.run_listed(job);
        true
    }

    fn has_lists(self) -> bool {
        let pool = self.pool();
        pool.is_team() || pool.thieves.uses_lists()
    }

    /// Takes a job that [`run_awaited`](Self::run_awaited) may run from this worker's list or mail, and returns whether it is
    /// one of many that may be run in a row. (Not inlined, like everything between two user functions: its frame would be on
    /// the stack once for each nested scope.)
    #[inline(never)]
    fn take_own(self, id: JobId, kind: WaitKind) -> Option<(ListedJob<P>, bool)> {
        let slot = self.slot();
        let is_fifo = self.is_breadth_first();
        let part = slot.listed.take_part_of(id, kind.since, is_fifo);
        let job = part.or_else(|| self.take_mail())?;
        let is_in_a_row = JobId::at(job.root) == id && !is_fifo;
        Some((job, is_in_a_row))
    }

    #[inline(never)]
    fn take_part_of_others(self, id: JobId) -> Option<(ListedJob<P>, bool)> {
        let take = |list: &JobList<P>| list.take_part_of(id, JobNumber::NONE, false);
        self.pools().find_map(|pool| {
            if let Some(job) = pool.thieves.injected().find_map(take) {
                return Some((job, false));
            }
            pool.slots.each().find_map(|(_, slot)| {
                let job = take(&slot.listed)?;
                Some((job, slot.listed.has_jobs()))
            })
        })
    }

    /// True if [`run_awaited`](Self::run_awaited) would find something.
    pub(super) fn has_awaited(self, id: JobId, kind: WaitKind) -> bool {
        if !self.has_lists() {
            return false;
        }
        let (pool, slot) = (self.pool(), self.slot());
        let has = |list: &JobList<P>| list.has_part_of(id, JobNumber::NONE);
        slot.mail.has_jobs()
            || slot.listed.has_part_of(id, kind.since)
            || kind.is_elsewhere && pool.thieves.has_unawaited(&pool.slots)
            || slot.is_last_resort.load(SeqCst) != 0
            || self.pools().any(|pool| {
                pool.thieves.injected().any(has)
                    || pool.slots.each().any(|(_, slot)| has(&slot.listed))
            })
    }
}

/// Takes the oldest closure.
fn first_of<P: Platform>(fifo: &Lock<P, VecDeque<Closure>>) -> Closure {
    fifo.lock().pop_front().unwrap_or_else(|| unreachable!("there is one for each turn"))
}
