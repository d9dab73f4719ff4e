//! A team's workers: they are its members, for as long as it lives, and nobody stands in for one.
//!
//! A member's index is its own, and what it runs keeps that index: so another thread cannot run in its place while it
//! waits. Who waits runs parts of what it waits for, and its mail, and more as time goes by; `README.md` tells what, and why.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use coreshard_platform::{AtomicInt, AtomicPointer, LocalKey, Lock, Platform, stack_pointer, user};

use super::context::{Context, Forks, OwnPool, SpawnPlace, context_here};
use super::forks::CurrentWorker;
use super::frame::Frame;
use super::jobs::{Closure, Fifo, JobBody, JobList, JobNumber, ListedJob, fifo};
use super::parts::{MAX_IN_A_ROW, Parts, Tickets};
use super::pool::{Pool, PoolGuard};
use super::slot::WorkerSlot;
use super::state::{Blocked, State, ThreadSlot};
use super::whole_name::WholeName;
use super::worker::Worker;
use crate::base::latch::Latch;
use crate::spec::team::TeamSpec;

/// How long nobody of a team runs before one of those who wait does whatever there is.
const NOBODY_RUNS: Duration = Duration::from_millis(40);

/// How long a member waits at first, and at most, before it does what nobody waits for.
const PATIENCE: Duration = Duration::from_millis(8);
const MAX_DOUBLINGS: u32 = 3;

/// After so many waits in vain.
pub(super) fn patience(waits: u32) -> Duration {
    PATIENCE * (1 << waits.min(MAX_DOUBLINGS))
}

/// What a member may run while it waits, besides parts of what it waits for.
#[derive(Clone, Copy)]
pub(crate) struct WaitKind {
    /// Of its own list, what came since.
    pub(crate) since: JobNumber,
    /// It waits for another team, whose members may wait for this one: it does what comes from outside.
    pub(crate) is_elsewhere: bool,
}

impl WaitKind {
    /// For a part of its own work.
    pub(crate) const OF_PART: Self = Self { since: JobNumber::NONE, is_elsewhere: false };
}

impl<P: Platform> Pool<P> {
    /// What the team is, if this is a team's pool.
    #[inline]
    pub(crate) fn team(&self) -> Option<&TeamSpec> {
        self.attributes.team.as_ref().map(|team| &*team.0)
    }

    #[inline]
    pub(crate) fn is_team(&self) -> bool {
        self.is_team
    }

    /// This thread is the member with index 0 from here on, until it ends.
    ///
    /// It counts as blocked for good: what it does outside of the team's work is its own.
    pub(super) fn adopt_this_thread(self: &Arc<Self>) {
        // It stays for good: who ends the process inside of its work leaves others there that look at it.
        let frame = Box::leak(Box::new(Frame::of_worker()));
        let context = Context {
            pool: Arc::clone(self),
            own_pool: OwnPool::new(self),
            index: 0,
            slot: NonNull::from(self.slot(0)),
            producer: Cell::new(None),
            frame: Cell::new(ptr::from_ref(frame)),
            base: stack_pointer(),
            forks: Forks::new(),
            in_order: fifo(),
        };
        let context = Box::into_raw(Box::new(context));
        P::set_local(LocalKey::Worker, context.cast());
        P::at_thread_end(Box::new(move || {
            // Else it is a member no more, or, in a forked process, never was.
            if ptr::eq(P::local(LocalKey::Worker), context.cast()) {
                // SAFETY: it is what this thread was given. Where that was taken away, and it was given another at the same place, it
                // was that one's turn first, and there is none any more.
                unsafe { Self::lose_maker(context) };
            }
        }));
        let mut state = self.lock();
        state.set_blocked(0, Blocked::Declared);
        state.put_handle(0, Some(ThreadSlot::Elsewhere));
        state.starting -= 1;
    }

    /// The team cannot be had: this thread is none of its members, if it was.
    pub(super) fn lose_this_thread(self: &Arc<Self>) {
        if !context_here::<P>().is_some_and(|here| Arc::ptr_eq(&here.pool, self)) {
            return;
        }
        {
            let mut state = self.lock();
            // As where the first worker of a pool cannot be had: it is not there.
            state.stopping |= state.alive == 1;
        }
        // SAFETY: it is a worker of a team that nobody has yet, so it was adopted, just now.
        unsafe { Self::lose_maker(P::local(LocalKey::Worker).cast()) };
    }

    /// The thread that was adopted ends, or its team cannot be had: the team is without it from here on, and what it was sent and has
    /// not begun is dropped. It runs none of that: it may be that it ends the process, with a lock in its hands.
    ///
    /// # Safety
    /// It is what [`adopt_this_thread`](Self::adopt_this_thread) has given this thread.
    unsafe fn lose_maker(context: *mut Context<P>) {
        // SAFETY: by this function's contract.
        let here = unsafe { &*context };
        let pool = Arc::clone(&here.pool);
        if pool.is_forked() {
            // Whoever holds the pool's lock may not be here.
            return;
        }
        let worker = CurrentWorker { context: here };
        loop {
            while let Some(ListedJob { body, parts, .. }) = worker.take_mail() {
                drop(user::discard(body));
                if !parts.is_null() {
                    // SAFETY: it is one of them, and over with that.
                    unsafe { Parts::end(parts, 1) };
                }
            }
            let mut state = pool.lock();
            if !pool.slot(0).mail.has_jobs() {
                state.cold_mut().has_lost_maker = true;
                break;
            }
        }
        P::set_local(LocalKey::Worker, ptr::null_mut());
        pool.never_comes(0);
        // SAFETY: by this function's contract. This thread alone looks at it, and finds it no more; where it ends the process inside of
        // its work, it does not come back to that.
        drop(unsafe { Box::from_raw(context) });
    }

    /// True in the child of a fork: the workers are not here.
    pub(crate) fn is_forked(&self) -> bool {
        self.team().is_some_and(|team| team.process_generation != P::process_generation())
    }

    /// Takes the oldest job that came from outside, and whether there are more.
    fn take_injected(&self) -> Option<(ListedJob<P>, bool)> {
        let lists = &self.injected;
        let first = if lists.len() > 1 { self.place.injector_here::<P>() } else { 0 };
        (0..lists.len()).map(|at| &lists[(first + at) % lists.len()]).find_map(|list| {
            let job = list.take_oldest()?;
            Some((job, list.has_jobs()))
        })
    }

    /// Brings a job from a thread that is none of the pool's.
    pub(crate) fn inject(&self, job: ListedJob<P>) {
        if self.injected.is_empty() {
            // Of a queue's workers, which are given items from outside, and not jobs: in the list of the first.
            self.slot(0).listed.push(job);
            if self.uses_lists.swap(2, Relaxed) != 2 {
                // It stays: somebody may look in vain.
                self.forking.fetch_add(1, SeqCst);
            }
            self.call_beside_here();
            return;
        }
        let at = self.place.injector_here::<P>() % self.injected.len();
        self.injected[at].push(job);
        self.monitor.notice_work();
        self.call_beside_here();
        // SeqCst: whoever says that it waits so, and then finds no job here, is seen by who brings one later.
        if self.open_waits.load(SeqCst) > 0 {
            self.call_open_waiter();
        }
    }

    /// Wakes one who waits for another team.
    #[cold]
    fn call_open_waiter(&self) {
        self.lock().call_waiter(self, |slot| slot.waits_elsewhere.load(Relaxed) != 0);
    }

    /// Jobs that nobody has begun, without those that are forked.
    pub(crate) fn jobs_waiting(&self) -> u64 {
        let injected = self.injected.iter().map(|list| list.len()).sum::<u64>();
        injected
            + self.each_slot().map(|(_, slot)| slot.listed.len() + slot.mail.len()).sum::<u64>()
    }

    /// Nobody of this pool runs, for so long, though there is something to do: unless others of the team do, one of
    /// those who wait runs it, whatever it is. What they wait for may need it (a message of another half, say).
    pub(super) fn call_last_resort(&self, stood_still: Duration) {
        if stood_still < NOBODY_RUNS || self.runs_elsewhere() {
            return;
        }
        self.lock().call_waiter(self, |slot| {
            slot.is_last_resort.store(1, SeqCst);
            true
        });
    }

    /// True if a member runs in another pool of the team.
    fn runs_elsewhere(&self) -> bool {
        let others = self.neighbours.lock().clone();
        others.iter().flat_map(|others| others.iter()).any(|pool| pool.lock().active() > 0)
    }

    /// True if there is a job that nobody waits for inside the team.
    fn has_unawaited(&self) -> bool {
        self.injected.iter().any(|list| list.has_jobs())
            || self.each_slot().any(|(_, slot)| slot.listed.has_unawaited())
    }

    /// True if there is a job that one member alone may run.
    #[inline]
    pub(super) fn has_mail(&self) -> bool {
        self.is_team() && self.mailed.load(SeqCst) > 0
    }

    /// Brings a job that one of the pool's members alone may run. False, and none is made, where that has ended with its thread.
    #[must_use]
    pub(crate) fn mail(&self, member: usize, job: impl FnOnce() -> ListedJob<P>) -> bool {
        let slot = self.slot(member - self.place.members.start);
        let mut state = self.lock();
        if member == 0 && state.cold().has_lost_maker {
            return false;
        }
        self.mailed.fetch_add(1, SeqCst);
        slot.mail.push(job());
        // SAFETY: who sleeps there takes it away under the lock, before it leaves the latch.
        if let Some(latch) = unsafe { slot.waits_at.load(Relaxed).as_ref() } {
            latch.nudge();
        }
        let kick = state.choose_for_mail(self);
        self.unlock_and_kick(state, kick);
        self.monitor.notice_work();
        true
    }

    /// Calls `with` with the pool of this member, of the same team.
    pub(crate) fn with_pool_of<R>(&self, member: usize, with: impl FnOnce(&Self) -> R) -> R {
        if self.place.members.contains(&member) {
            return with(self);
        }
        let others = self.neighbours.lock().clone();
        let pool = others.iter().flat_map(|pools| pools.iter());
        let pool = pool.into_iter().find(|pool| pool.place.members.contains(&member));
        with(pool.unwrap_or_else(|| unreachable!("the team has this member")))
    }
}

impl<P: Platform> State<P> {
    /// How many members count as blocked for good.
    fn outsiders(&self, pool: &Pool<P>) -> usize {
        let is_here = pool.place.members.start == 0 && !self.cold().has_lost_maker;
        pool.team().map_or(0, |team| usize::from(team.has_current_thread && is_here))
    }

    /// True if nothing is left to do in the pool of a team that is to end, and nobody looks for something.
    pub(super) fn is_over(&mut self, pool: &Pool<P>) -> bool {
        // It stops already where its first member could not be started.
        self.stopping
            || self.ending
                && self.active() == 0
                && self.starting == 0
                && self.blocked == self.outsiders(pool)
                && !self.has_work(pool)
                && !pool.has_mail()
    }

    /// Nothing is left to do: all go. Gives those who sleep, who are to be woken.
    pub(super) fn end_team(&mut self, pool: &Pool<P>) -> Vec<usize> {
        self.stopping = true;
        self.all_sleepers(pool)
    }

    /// Wakes one who sleeps in its work, of those that `is_meant` says.
    fn call_waiter(&mut self, pool: &Pool<P>, is_meant: impl Fn(&WorkerSlot<P>) -> bool) {
        for (_, slot) in pool.each_slot() {
            // SAFETY: who sleeps there takes it away under the lock, before it leaves the latch.
            if let Some(latch) = unsafe { slot.waits_at.load(Relaxed).as_ref() }
                && is_meant(slot)
            {
                latch.nudge();
                return;
            }
        }
    }
}

impl<P: Platform> Worker<'_, P> {
    /// Runs what the team has, one job after the other, as long as the pool's books need not be looked at.
    ///
    /// They do after a sleep: the next who sleeps is told of what comes, before this worker begins anything. And where
    /// it counts as blocked.
    pub(super) fn run_team_jobs(&mut self) {
        let worker = self.current();
        let mut ran = 0;
        while !self.just_woke
            && !self.excess
            && self.slot.is_called_back.load(Relaxed) == 0
            && worker.run_any(true)
        {
            ran += 1;
        }
        if ran > 0 {
            self.pool.ran.fetch_add(ran, Relaxed);
        }
        if std::mem::take(&mut self.saw_forks) {
            self.watch_length.watched(ran > 0);
        }
    }

    pub(super) fn current(&self) -> CurrentWorker<'_, P> {
        CurrentWorker { context: self.context }
    }

    /// Under the lock, about to look for jobs: somebody is told of what comes.
    pub(super) fn tell_team(&self, mut state: PoolGuard<'_, P>) {
        let pool = self.pool;
        self.slot.is_called_back.store(0, Relaxed);
        let left = state.can_kick(pool) && state.has_work_for(pool, 1);
        let kick = state.pass_on(pool, left);
        pool.unlock_and_kick(state, kick);
        pool.monitor.notice_work();
    }
}

impl<'thread, P: Platform> CurrentWorker<'thread, P> {
    /// This member's index in its team.
    pub(crate) fn index(self) -> usize {
        self.context.pool.place.members.start + self.context.index
    }

    /// Adds a job to this worker's list, open to all of the pool, and tells somebody of it: who waits for `whole`, if
    /// that one has nothing else to do.
    pub(crate) fn list(self, job: ListedJob<P>) {
        let whole = job.whole;
        self.slot().listed.push(job);
        let uses_lists = &self.context.pool.uses_lists;
        if uses_lists.load(Relaxed) == 0 {
            // Only from nothing: 2 stays.
            let _ = uses_lists.compare_exchange(0, 1, Relaxed, Relaxed);
        }
        self.count_as_forking();
        // SAFETY: the caller spawns a part of it, so it is not over.
        if unsafe { whole.as_ref() }.is_some_and(Latch::nudge) {
            return;
        }
        self.call_one();
    }

    /// The number of the next job that this worker adds to its list.
    pub(crate) fn next_job(self) -> JobNumber {
        self.slot().listed.next()
    }

    /// What this worker has counted of the parts that it spawns.
    pub(crate) fn tickets(self) -> &'thread Tickets<P> {
        &self.context.forks.tickets
    }

    /// What this worker does a part of; null for nothing.
    pub(crate) fn whole(self) -> *const Latch<P> {
        self.context.forks.whole.get()
    }

    /// True if jobs wait that this worker has spawned or forked.
    pub(crate) fn has_pending(self) -> bool {
        self.slot().listed.has_jobs() || self.context.forks.owner.has_jobs()
    }

    /// Runs a job that this worker has spawned, or that came by mail.
    pub(crate) fn run_own(self) -> bool {
        let slot = self.slot();
        let is_fifo = self.context.pool.team().is_some_and(|team| team.breadth_first);
        let own = if is_fifo { slot.listed.take_oldest() } else { slot.listed.take_latest() };
        let Some(job) = own.or_else(|| self.take_mail()) else { return false };
        self.run_in_a_row(job, |parts| {
            (!is_fifo).then(|| slot.listed.take_latest_of(parts)).flatten()
        });
        true
    }

    /// Runs any job of the team: one of its own, a stolen one, one from outside. Who is inside of nothing begins
    /// what came from outside before it takes parts of what others do: so each does something of its own where there is
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

    fn run_injected(self) -> bool {
        let injected = self.pool().take_injected();
        let injected =
            injected.or_else(|| self.neighbours().iter().find_map(|pool| pool.take_injected()));
        let Some((job, has_more)) = injected else { return false };
        if has_more {
            self.call_one();
        }
        self.run_listed(job);
        true
    }

    /// Runs a job that nobody waits for, or that came from outside.
    #[inline(never)]
    pub(super) fn run_unawaited(self) -> bool {
        let take =
            |pool: &Pool<P>| pool.each_slot().find_map(|(_, slot)| slot.listed.take_unawaited());
        let job =
            take(self.pool()).or_else(|| self.neighbours().iter().find_map(|pool| take(pool)));
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
        let own = self.pool().steal_job(None, None);
        match own {
            Some((job, _)) => {
                self.run_found(job);
                true
            }
            None => self.run_any(false),
        }
    }

    /// Opens all jobs to others that this worker keeps to itself.
    pub(super) fn share_all(self) {
        if self.context.forks.owner.share_all(self.deque()) {
            self.call_thieves();
        }
    }

    /// Runs the oldest job of this member's mail. False if there is none.
    pub(super) fn run_mail(self) -> bool {
        let Some(job) = self.take_mail() else { return false };
        self.run_listed(job);
        true
    }

    fn take_mail(self) -> Option<ListedJob<P>> {
        let job = self.slot().mail.take_oldest()?;
        self.context.pool.mailed.fetch_sub(1, SeqCst);
        Some(job)
    }

    pub(super) fn run_listed(self, job: ListedJob<P>) {
        self.run_in_a_row(job, |_| None);
    }

    /// Runs a job, and where that is one of counted parts, those that `next` finds of them.
    #[inline(never)]
    fn run_in_a_row(
        self,
        job: ListedJob<P>,
        next: impl Fn(*const Parts<P>) -> Option<ListedJob<P>>,
    ) {
        let ListedJob { body, whole, parts, .. } = job;
        if parts.is_null() {
            return self.run_body(body, whole);
        }
        let slot = self.slot();
        let outer = self.tickets().replace(parts);
        self.run_body(body, whole);
        let mut over = 1;
        while over < MAX_IN_A_ROW
            && slot.is_called_back.load(Relaxed) == 0
            && let Some(job) = next(parts)
        {
            self.run_body(job.body, whole);
            over += 1;
        }
        if over > 1 {
            self.context.pool.ran.fetch_add(over - 1, Relaxed);
        }
        let left = self.tickets().put_back(outer);
        // SAFETY: these were run here, and those tickets were counted; who waits keeps it until the last is over.
        unsafe { Parts::end(parts, over + left) };
    }

    fn run_body(self, body: JobBody<P>, whole: *const Latch<P>) {
        let run = match body {
            JobBody::Awaited(job) => return self.run_stolen(job),
            JobBody::Call(run) => run,
            JobBody::Next(fifo) => first_of(&fifo),
            // SAFETY: this is one of those parts, and it is not over.
            JobBody::NextPart(fifo) => first_of(unsafe { &*fifo }),
        };
        self.begin_inside();
        if self.pool().is_team() {
            // SAFETY: it is a part of that.
            unsafe { self.run_named(whole, run) };
        } else {
            // SAFETY: as above.
            unsafe { self.run_part(whole, SpawnPlace::NONE, run) };
        }
    }

    /// Runs a listed job for who waits for what has this name; or, of its own list, one that came since. False if there is none that it may run.
    pub(super) fn run_awaited(self, name: WholeName, kind: WaitKind) -> bool {
        let Context { pool, .. } = self.context;
        if pool.uses_lists.load(Relaxed) == 0 && !pool.is_team() {
            return false;
        }
        let slot = self.slot();
        if slot.is_last_resort.load(Relaxed) != 0 {
            slot.is_last_resort.store(0, Relaxed);
            return self.run_last_resort();
        }
        if let Some((job, is_in_a_row)) = self.take_own(name, kind) {
            // In a row as well, but only parts of what it waits for: of others it runs one, and then looks whether that is over.
            self.run_in_a_row(job, |parts| {
                is_in_a_row.then(|| slot.listed.take_latest_of(parts)).flatten()
            });
            return true;
        }
        let Some((job, has_more)) = self.take_part_of_others(name) else {
            return kind.is_elsewhere && self.run_unawaited();
        };
        if has_more {
            self.call_one();
        }
        self.run_listed(job);
        true
    }

    /// Of its own list or its mail, what [`run_awaited`](Self::run_awaited) may run; and whether it is one of many that may be
    /// run in a row. (Not inlined, as is what lies between two user's functions: its frame would be on the stack once for each
    /// scope inside another.)
    #[inline(never)]
    fn take_own(self, name: WholeName, kind: WaitKind) -> Option<(ListedJob<P>, bool)> {
        let slot = self.slot();
        let is_fifo = self.context.pool.team().is_some_and(|team| team.breadth_first);
        let part = if is_fifo {
            slot.listed.take_oldest_part_of(name, kind.since)
        } else {
            slot.listed.take_part_of(name, kind.since)
        };
        let job = part.or_else(|| self.take_mail())?;
        let is_in_a_row = WholeName::at(job.whole) == name && !is_fifo;
        Some((job, is_in_a_row))
    }

    #[inline(never)]
    fn take_part_of_others(self, name: WholeName) -> Option<(ListedJob<P>, bool)> {
        let take = |pool: &Pool<P>| {
            let injected =
                pool.injected.iter().find_map(|list| list.take_part_of(name, JobNumber::NONE));
            if let Some(job) = injected {
                return Some((job, false));
            }
            pool.each_slot().find_map(|(_, slot)| {
                let job = slot.listed.take_part_of(name, JobNumber::NONE)?;
                Some((job, slot.listed.has_jobs()))
            })
        };
        take(self.pool()).or_else(|| self.neighbours().iter().find_map(|pool| take(pool)))
    }

    /// True if [`run_awaited`](Self::run_awaited) would find something.
    pub(super) fn has_awaited(self, name: WholeName, kind: WaitKind) -> bool {
        let Context { pool, .. } = self.context;
        if pool.uses_lists.load(Relaxed) == 0 && !pool.is_team() {
            return false;
        }
        let slot = self.slot();
        let has = |pool: &Pool<P>| {
            let has = |list: &JobList<P>| list.has_part_of(name, JobNumber::NONE);
            pool.injected.iter().any(|list| has(list))
                || pool.each_slot().any(|(_, slot)| has(&slot.listed))
        };
        slot.mail.has_jobs()
            || slot.listed.has_part_of(name, kind.since)
            || kind.is_elsewhere && pool.has_unawaited()
            || slot.is_last_resort.load(SeqCst) != 0
            || has(pool)
            || self.neighbours().iter().any(|pool| has(pool))
    }

    /// Workers that may run at once, in this worker's pool and those beside it.
    pub(crate) fn worker_limit(self) -> usize {
        let beside = self.neighbours().iter().map(|pool| pool.place.limit).sum::<usize>();
        self.pool().place.limit + beside
    }

    /// A job that says that this worker's next closure in order is to run.
    pub(crate) fn in_turn(self, closure: Closure) -> JobBody<P> {
        let Context { in_order, .. } = self.context;
        in_order.lock().push_back(closure);
        JobBody::Next(Fifo::clone(in_order))
    }
}

/// Takes the oldest off.
fn first_of<P: Platform>(fifo: &Lock<P, VecDeque<Closure>>) -> Closure {
    fifo.lock().pop_front().unwrap_or_else(|| unreachable!("there is one for each turn"))
}

/// While it lives, a member does what comes from outside, in its wait.
pub(super) struct OpenWait<'thread, P: Platform> {
    worker: CurrentWorker<'thread, P>,
    before: u32,
}

impl<'thread, P: Platform> OpenWait<'thread, P> {
    /// `None` where it does not.
    pub(super) fn begin(worker: CurrentWorker<'thread, P>, kind: WaitKind) -> Option<Self> {
        if !kind.is_elsewhere || !worker.pool().is_team() {
            return None;
        }
        let before = worker.slot().waits_elsewhere.swap(1, Relaxed);
        worker.pool().open_waits.fetch_add(1, SeqCst);
        Some(Self { worker, before })
    }
}

impl<P: Platform> Drop for OpenWait<'_, P> {
    fn drop(&mut self) {
        self.worker.slot().waits_elsewhere.store(self.before, Relaxed);
        self.worker.pool().open_waits.fetch_sub(1, SeqCst);
    }
}

/// While it lives, a member that sleeps in its work is told of its mail.
pub(super) struct Told<'thread, P: Platform> {
    worker: CurrentWorker<'thread, P>,
}

impl<'thread, P: Platform> Told<'thread, P> {
    /// `None` where the worker is of no team.
    pub(super) fn begin(worker: CurrentWorker<'thread, P>, latch: &Latch<P>) -> Option<Self> {
        if !worker.pool().is_team() {
            return None;
        }
        let _state = worker.pool().lock();
        worker.slot().waits_at.store(ptr::from_ref(latch).cast_mut(), Relaxed);
        Some(Self { worker })
    }
}

impl<P: Platform> Drop for Told<'_, P> {
    fn drop(&mut self) {
        let _state = self.worker.pool().lock();
        self.worker.slot().waits_at.store(ptr::null_mut(), Relaxed);
    }
}

/// True on a thread that is a worker already.
pub(crate) fn is_taken<P: Platform>() -> bool {
    context_here::<P>().is_some()
}
