//! Scopes: work that may borrow values that outlive the scope.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{Host, Lock, Platform};

use super::calls::Calls;
use super::job::{Reach, members, within};
use super::wait::wait_for;
use crate::base::latch::Latch;
use crate::pool::{
    Closure, CurrentWorker, JobBody, JobNumber, ListedJob, OwnPool, PartFifo, Parts, inject, mail,
    with_pool_of,
};

/// A scope whose spawned work may borrow from outside; see [`Team::scope`](crate::Team::scope).
pub struct TeamScope<'scope, P: Platform = Host> {
    pool: Arc<OwnPool<P>>,
    /// The spawned work.
    parts: Parts<P>,
    /// The first panic.
    thrown: Lock<P, Option<Thrown>>,
    /// Work that members have spawned in order, by the members' index.
    in_order: OnceLock<Box<[PartFifo<P>]>>,
    /// Invariant: spawned work lives exactly as long as the scope.
    marker: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

impl<'scope, P: Platform> TeamScope<'scope, P> {
    /// (Not inlined, so that it is constructed in place: a second copy in the frame would enlarge every nested scope.)
    #[inline(never)]
    fn new(pool: Arc<OwnPool<P>>) -> Self {
        Self {
            pool,
            parts: Parts::new(),
            thrown: Lock::new(None),
            in_order: OnceLock::new(),
            marker: PhantomData,
        }
    }

    /// Calls `op` with a scope, and waits for the work that is spawned in it.
    pub(super) fn run<R>(pool: Arc<OwnPool<P>>, op: impl FnOnce(&Self) -> R) -> R {
        let scope = Self::new(pool);
        let here = CurrentWorker::<P>::here();
        let since = here.map_or(JobNumber::NONE, CurrentWorker::next_job);
        let (value, is_pending) =
            scope.parts.open(here.map(CurrentWorker::tickets), || user::call(|| op(&scope)));
        let value = value.map_err(|thrown| scope.note(thrown));
        if is_pending {
            wait_for(&scope.pool, scope.parts.done(), since);
        }
        let thrown = scope.thrown.lock().take();
        match (value, thrown) {
            (Ok(value), None) => value,
            (value, Some(thrown)) => {
                let value = value.map_or(Ok(()), user::discard);
                // Only the first panic is reported.
                drop(value);
                thrown.resume()
            }
            (Err(()), None) => unreachable!("the panic was recorded"),
        }
    }

    /// Runs `op` on a member before the scope ends. Called on a member's thread, `op` is what this thread runs next, unless
    /// another member has taken it by then.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("tree").members(2).build()?;
    /// let mut leaves = [0; 2];
    /// let (left, right) = leaves.split_at_mut(1);
    /// team.scope(|scope| {
    ///     scope.spawn(|scope| {
    ///         left[0] = 1;
    ///         scope.spawn(|_| right[0] = 2);
    ///     });
    /// });
    /// assert_eq!(leaves, [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn(&self, op: impl FnOnce(&Self) + Send + 'scope) {
        let closure = self.part(op);
        self.send(|_| JobBody::Call(closure));
    }

    /// Spawns `op` like [`spawn`](Self::spawn), but work that one thread spawns in this way in this scope begins in the order
    /// of spawning.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("one").members(1).build()?;
    /// let seen = std::sync::Mutex::new(Vec::new());
    /// team.scope(|scope| {
    ///     for number in 0..3 {
    ///         let seen = &seen;
    ///         scope.spawn_fifo(move |_| seen.lock().unwrap().push(number));
    ///     }
    /// });
    /// assert_eq!(seen.into_inner()?, [0, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn_fifo(&self, op: impl FnOnce(&Self) + Send + 'scope) {
        let closure = self.part(op);
        self.send(|worker| match worker.filter(|_| self.pool.is_team()) {
            Some(worker) => self.in_turn(worker.index(), closure),
            None => JobBody::Call(closure),
        });
    }

    /// Calls `op` once on each member, with its index, before the scope ends; not on a member whose thread has exited, or exits
    /// before.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("all").members(2).build()?;
    /// let seen = std::sync::Mutex::new(Vec::new());
    /// team.scope(|scope| scope.spawn_broadcast(|_, index| seen.lock().unwrap().push(index)));
    /// assert_eq!(seen.into_inner()?.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn_broadcast(&self, op: impl Fn(&Self, usize) + Send + Sync + 'scope) {
        let (op, calls) = (Arc::new(op), Arc::new(Calls::new(self.members())));
        let send = |index| {
            let (op, of_part) = (Arc::clone(&op), Arc::clone(&calls));
            let part = move |scope: &Self| {
                of_part.help_here();
                op(scope, index);
            };
            if !self.pool.is_team() {
                self.spawn(part);
                return None;
            }
            // Counted only when it is taken.
            let job = || self.job(JobBody::Call(self.part(part)), within::<P>());
            with_pool_of(&self.pool, index, |pool| mail(pool, index, job))
        };
        calls.make(&self.pool, (0..self.members()).filter_map(send));
    }

    /// Returns the number of members of the team.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("all").members(2).build()?;
    /// assert_eq!(team.scope(|scope| scope.members()), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn members(&self) -> usize {
        members(&self.pool)
    }

    /// Returns a part of this scope, which is counted from here on.
    fn part(&self, op: impl FnOnce(&Self) + Send + 'scope) -> Closure {
        self.parts.begin(CurrentWorker::here().map(CurrentWorker::tickets));
        let reach = Reach(self);
        let part = move || {
            // Captures all of it, not its one field.
            let Reach(scope) = { reach };
            // SAFETY: the scope lives until all parts have ended.
            let this = unsafe { &*scope };
            if let Err(thrown) = user::call(|| op(this)) {
                this.note(thrown);
            }
        };
        let part: Box<dyn FnOnce() + Send + 'scope> = Box::new(part);
        // SAFETY: it is called, or dropped with the team's process, before the scope has ended; and its borrows outlive the
        // scope.
        unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + 'scope>, Closure>(part) }
    }

    fn job(&self, body: JobBody<P>, within: *const Latch<P>) -> ListedJob<P> {
        ListedJob { body, root: self.parts.done(), parts: &raw const self.parts, within }
    }

    /// Gives a part to the team: to this thread's list, if it is a member.
    fn send(&self, body: impl FnOnce(Option<CurrentWorker<'_, P>>) -> JobBody<P>) {
        let here = CurrentWorker::<P>::here();
        let member = here.filter(|worker| worker.set() == self.pool.set());
        let within = here.map_or(std::ptr::null(), CurrentWorker::root);
        let job = self.job(body(member), within);
        match member {
            Some(worker) => worker.list(job),
            None => inject(&self.pool, job),
        }
    }

    /// Queues a part that a member has spawned in order.
    fn in_turn(&self, index: usize, closure: Closure) -> JobBody<P> {
        let fifo = || PartFifo::new(Lock::new(VecDeque::new()));
        let lists = self.in_order.get_or_init(|| (0..self.members()).map(|_| fifo()).collect());
        lists[index].lock().push_back(closure);
        JobBody::NextPart(&raw const lists[index])
    }

    /// Keeps the first panic.
    fn note(&self, thrown: Thrown) {
        self.thrown.lock().get_or_insert(thrown);
    }
}

impl<P: Platform> fmt::Debug for TeamScope<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TeamScope").field("pending", &self.parts.pending()).finish_non_exhaustive()
    }
}
