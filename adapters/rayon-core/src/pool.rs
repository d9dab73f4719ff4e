//! Pools that the program builds.

use std::fmt;

use crate::broadcast::{self, BroadcastContext};
use crate::current::Yield;
use crate::join;
use crate::scope::{Scope, ScopeFifo};
use crate::team::Team;

/// A fixed number of threads; made by [`ThreadPoolBuilder::build`](crate::ThreadPoolBuilder::build).
///
/// Calls inside [`install`](Self::install) run in this pool. When the pool is dropped, its threads finish the spawned work and
/// exit; the drop does not wait for that.
///
/// ```
/// # use rayon_core as rayon;
/// let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build()?;
/// let (left, right) = pool.install(|| rayon::join(|| 6, || 7));
/// assert_eq!(left * right, 42);
/// assert_eq!(pool.broadcast(|thread| thread.index()), [0, 1, 2]);
/// # Ok::<(), rayon::ThreadPoolBuildError>(())
/// ```
pub struct ThreadPool {
    team: Team,
}

impl ThreadPool {
    pub(crate) fn of(team: Team) -> Self {
        Self { team }
    }

    /// Calls `op` on a thread of this pool and waits for it. A thread of this pool calls it directly. A thread of another pool
    /// runs that pool's work while it waits.
    ///
    /// # Panics
    /// If `op` panics, with the same payload.
    pub fn install<OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce() -> R + Send,
        R: Send,
    {
        self.team.install(op)
    }

    /// Calls `op` once on each thread of this pool, after what waits on that thread's own list, and waits for all. The
    /// results are by index.
    ///
    /// # Panics
    /// If a call panics, with its payload, when all have finished.
    pub fn broadcast<OP, R>(&self, op: OP) -> Vec<R>
    where
        OP: Fn(BroadcastContext<'_>) -> R + Sync,
        R: Send,
    {
        broadcast::broadcast_in(&self.team, op)
    }

    /// Returns how many threads this pool has.
    #[inline]
    pub fn current_num_threads(&self) -> usize {
        self.team.members()
    }

    /// Returns this thread's index, if it belongs to this pool.
    #[inline]
    pub fn current_thread_index(&self) -> Option<usize> {
        self.team.index()
    }

    /// Returns whether work waits in this thread's own list. Other threads may take it meanwhile. `None` if the thread does not
    /// belong to this pool.
    #[inline]
    pub fn current_thread_has_pending_tasks(&self) -> Option<bool> {
        self.team.has_pending()
    }

    /// [`join`](crate::join()) in this pool.
    pub fn join<A, B, RA, RB>(&self, oper_a: A, oper_b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.install(|| join::join(oper_a, oper_b))
    }

    /// [`scope`](crate::scope()) in this pool.
    pub fn scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        self.team.scope(|scope| op(Scope::of(scope)))
    }

    /// [`scope_fifo`](crate::scope_fifo()) in this pool.
    pub fn scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        self.team.scope(|scope| op(ScopeFifo::of(scope)))
    }

    /// Calls `op` on this thread. Work that it spawns runs in this pool. See [`in_place_scope`](crate::in_place_scope()).
    pub fn in_place_scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R,
    {
        self.team.in_place_scope(|scope| op(Scope::of(scope)))
    }

    /// As [`in_place_scope`](Self::in_place_scope), first in, first out.
    pub fn in_place_scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        self.team.in_place_scope(|scope| op(ScopeFifo::of(scope)))
    }

    /// [`spawn`](crate::spawn()) in this pool.
    pub fn spawn<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        self.team.spawn(op);
    }

    /// [`spawn_fifo`](crate::spawn_fifo()) in this pool.
    pub fn spawn_fifo<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        self.team.spawn_fifo(op);
    }

    /// Calls `op` once on each thread of this pool, without waiting.
    pub fn spawn_broadcast<OP>(&self, op: OP)
    where
        OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
    {
        broadcast::spawn_broadcast_in(&self.team, op);
    }

    /// As [`yield_now`](crate::yield_now()); `None` if this thread does not belong to this pool.
    pub fn yield_now(&self) -> Option<Yield> {
        self.team.yield_now().map(Yield::of)
    }

    /// As [`yield_local`](crate::yield_local()); `None` if this thread does not belong to this pool.
    pub fn yield_local(&self) -> Option<Yield> {
        self.team.yield_local().map(Yield::of)
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool")
            .field("num_threads", &self.current_num_threads())
            .finish_non_exhaustive()
    }
}
