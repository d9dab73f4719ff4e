//! The worker on this thread, as forking code sees it: its stack of jobs, whom it wakes for them, and how it runs jobs of
//! others.
//!
//! A worker that has shared a job wakes a sleeper of its own pool, else one of the nearest pool
//! that has one. A worker that finds no item looks at the stacks of its own pool, and then at
//! those of the others, the nearest first.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use coreshard_platform::{AtomicInt, Lock, Platform, stack_pointer};

use super::context::{Context, OwnPool, SpawnPlace, context_here};
use super::fork_thieves::any_shares;
use super::frame::Frame;
use super::jobs::{
    Closure, Deque, Fifo, Found, Header, JobBody, JobId, JobList, JobNumber, ListedJob,
    MAX_IN_A_ROW, Parts, Popped, Pushed, Tickets,
};
use super::placement::BusyCpus;
use super::pool::Pool;
use super::slots::WorkerSlot;
use crate::base::latch::Latch;

/// Times that a job is shared without looking for a sleeper in other pools, at most, after none
/// slept there.
const MAX_UNCALLED: u32 = 7;

/// How much of its stack a worker uses, at most, when it begins a further item on top of those that it
/// is inside of; a quarter of a stack that is not four times as large. What items themselves need is
/// not known: they have the rest.
const ROOM_FOR_ITEMS: usize = 256 << 10;

/// What a member of a team may run while it waits, besides subtasks of what it waits for.
#[derive(Clone, Copy)]
pub(crate) struct WaitKind {
    /// Of its own list, what came since.
    pub(crate) since: JobNumber,
    /// It waits for another team, whose members may wait for this one: it does what comes from outside.
    pub(crate) is_elsewhere: bool,
}

impl WaitKind {
    /// For a subtask of its own work.
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

    /// This member's index in its team.
    pub(crate) fn index(self) -> usize {
        self.context.pool.place.members.start + self.context.index
    }

    /// Workers that may run at once, in this worker's pool and those beside it.
    pub(crate) fn worker_limit(self) -> usize {
        self.pools().map(|pool| pool.place.limit).sum()
    }

    /// The other pools; none before the set is complete, then looked up once.
    fn neighbours(self) -> &'thread [Arc<Pool<P>>] {
        let Context { pool, forks, .. } = self.context;
        if let Some(neighbours) = forks.neighbours.get() {
            return neighbours;
        }
        match pool.neighbours() {
            Some(known) => forks.neighbours.get_or_init(|| known),
            None => &[],
        }
    }

    /// This worker's pool, and the other ones, the nearest first.
    pub(super) fn pools(self) -> impl Iterator<Item = &'thread Arc<Pool<P>>> {
        let mut own = Some(self.pool());
        let mut others = None;
        // The others are looked up only if the first was not enough.
        std::iter::from_fn(move || {
            own.take().or_else(|| others.get_or_insert_with(|| self.neighbours().iter()).next())
        })
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

    /// Opens all jobs to others that this worker keeps to itself.
    pub(super) fn share_all(self) {
        if self.context.forks.owner.share_all(self.deque()) {
            self.call_thieves();
        }
    }

    /// Adds a job to this worker's list, open to all of the pool, and wakes a worker for it: the one that waits for its root
    /// job, if that one has nothing else to do.
    pub(crate) fn list(self, job: ListedJob<P>) {
        let root = job.root;
        self.slot().listed.push(job);
        self.context.pool.thieves.set_uses_lists();
        self.count_as_forking();
        // SAFETY: the caller spawns a subtask of it, so it is not finished.
        if !unsafe { root.as_ref() }.is_some_and(Latch::nudge) {
            self.call_one();
        }
    }

    /// The number of the next job that this worker adds to its list.
    pub(crate) fn next_job(self) -> JobNumber {
        self.slot().listed.next()
    }

    /// A job that says that this worker's next closure in order is to run.
    pub(crate) fn in_turn(self, closure: Closure) -> JobBody<P> {
        let Context { in_order, .. } = self.context;
        in_order.lock().push_back(closure);
        JobBody::Next(Fifo::clone(in_order))
    }

    /// What this worker has counted of the subtasks that it spawns.
    pub(crate) fn tickets(self) -> &'thread Tickets<P> {
        &self.context.forks.tickets
    }

    /// The job of which this worker runs a subtask; null for none.
    pub(crate) fn root(self) -> *const Latch<P> {
        self.context.forks.root.get()
    }

    /// True if jobs wait that this worker has spawned or forked.
    pub(crate) fn has_pending(self) -> bool {
        self.slot().listed.has_jobs() || self.context.forks.owner.has_jobs()
    }

    /// Thieves look at this worker from here on, until it rests.
    fn count_as_forking(self) {
        if !self.context.forks.counted.replace(true) {
            self.context.pool.thieves.begin_forking();
        }
    }

    /// This worker rests: thieves need not look at its stack.
    pub(super) fn stop_forking(self) {
        if self.context.forks.counted.replace(false) {
            self.context.pool.thieves.end_forking();
        }
    }

    /// After a job was shared: wakes a sleeper to take it. A worker that waits for what this one does a part of
    /// comes first: it can do little else.
    #[cold]
    pub(crate) fn call_thieves(self) {
        self.count_as_forking();
        if !self.offer_to_waiter() {
            self.call_one();
        }
    }

    /// As [`call_thieves`](Self::call_thieves), where what was shared is worth up to so many wake-ups: wakes as many sleepers,
    /// though others may be on their way. Only one in a pool that [calls no more](Pool::calls_several).
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

    /// Wakes one sleeper, the nearest, if none is on its way.
    pub(super) fn call_one(self) {
        self.call_nearest(Pool::call_thief);
    }

    /// Whether one was called, of this pool or of the nearest that has one. The other pools are not looked at each time after
    /// none slept there: a worker that falls asleep looks at this worker's stack before.
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

    /// Takes a job, from the nearest worker that has one. If that one has more, it calls the next
    /// sleeper. Of a list it takes some into its own if it `takes_more`: outside of any work, since a worker that waits
    /// inside runs what its list has come to have since.
    pub(super) fn steal(self, takes_more: bool) -> Option<Found<P>> {
        let Context { pool, index, forks, .. } = self.context;
        let own = takes_more.then(|| &*self.slot().listed);
        let (job, has_more) = self.pools().find_map(|from| {
            let but = Arc::ptr_eq(from, pool).then_some(*index);
            from.thieves.steal(&from.slots, but, own)
        })?;
        if forks.has_just_come.take() && pool.calls_several() {
            self.call_for_the_rest(has_more);
        } else if has_more {
            self.call_one();
        }
        Some(job)
    }

    /// By a worker that has just come, and taken a job: what was shared while it was on its way has called none, whoever has
    /// it. So it looks at all there are, and calls several, each of which does the same: those that steal double.
    #[cold]
    fn call_for_the_rest(self, has_more: bool) {
        if has_more
            || self.pools().any(|pool| pool.thieves.may_have_forks() && any_shares(&pool.slots))
        {
            self.call_up_to(self.pool().wake_cost().fan_out());
        }
    }

    /// Runs any job of the team: one of its own, a stolen one, one from outside. A worker that is inside of nothing begins
    /// what came from outside before it takes subtasks of what others do: so each does something of its own if there is
    /// enough.
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

    /// Runs a job that this worker has spawned, or that came by mail.
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

    /// Runs a job that no caller waits for, or that came from outside.
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

    /// Runs anything, also what this worker has forked itself, below what it waits for.
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

    /// Runs the oldest job of this member's mail. False if there is none.
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

    /// Runs a job, and if that is one of counted subtasks, the latest of this worker's list that are of the same, where
    /// `takes_more` says so.
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
        // SAFETY: these were run here, and those tickets were counted; the waiter keeps it until the last is finished.
        unsafe { Parts::end(parts, finished + left) };
    }

    fn run_body(self, body: JobBody<P>, root: *const Latch<P>) {
        let run = match body {
            JobBody::Awaited(job) => return self.run_stolen(job),
            JobBody::Call(run) => run,
            JobBody::Next(fifo) => first_of(&fifo),
            // SAFETY: this is one of those subtasks, and it is not finished.
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

    /// Runs a listed job for a worker that waits for the job with this id; or, of its own list, one that came since. False if
    /// there is none that it may run.
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
            // In a row as well, but only subtasks of what it waits for: of others it runs one, and then looks whether that is
            // finished.
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

    /// Of its own list or its mail, what [`run_awaited`](Self::run_awaited) may run; and whether it is one of many that may be
    /// run in a row. (Not inlined, as is what lies between two user's functions: its frame would be on the stack once for each
    /// scope inside another.)
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

/// Takes the oldest off.
fn first_of<P: Platform>(fifo: &Lock<P, VecDeque<Closure>>) -> Closure {
    fifo.lock().pop_front().unwrap_or_else(|| unreachable!("there is one for each turn"))
}
