//! Calls on each thread of a pool.

use std::fmt;
use std::marker::PhantomData;

use crate::current;
use crate::team::Team;

/// Tells a closure of a broadcast which thread of the pool it is on.
pub struct BroadcastContext<'a> {
    index: usize,
    members: usize,
    /// Neither `Send` nor `Sync`, and only valid while the closure runs.
    here: PhantomData<&'a mut dyn Fn()>,
}

impl BroadcastContext<'_> {
    #[inline]
    pub(crate) fn new(index: usize, members: usize) -> Self {
        Self { index, members, here: PhantomData }
    }

    /// This thread's index, below [`num_threads`](Self::num_threads).
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// How many threads the closure is called on.
    #[inline]
    pub fn num_threads(&self) -> usize {
        self.members
    }
}

impl fmt::Debug for BroadcastContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastContext")
            .field("index", &self.index)
            .field("num_threads", &self.members)
            .finish_non_exhaustive()
    }
}

/// [`ThreadPool::broadcast`](crate::ThreadPool::broadcast) in the current pool, else in the global one. On a worker of a
/// Coreshard queue: in the global one, since such a queue has no fixed threads.
pub fn broadcast<OP, R>(op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    current::with_members(|team| broadcast_in(team, op))
}

/// [`ThreadPool::spawn_broadcast`](crate::ThreadPool::spawn_broadcast) in the pool that [`broadcast()`] would use.
pub fn spawn_broadcast<OP>(op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    current::with_members(|team| spawn_broadcast_in(team, op));
}

pub(crate) fn broadcast_in<OP, R>(team: &Team, op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    let members = team.members();
    team.broadcast(|index| op(BroadcastContext::new(index, members)))
}

pub(crate) fn spawn_broadcast_in<OP>(team: &Team, op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    let members = team.members();
    team.spawn_broadcast(move |index| op(BroadcastContext::new(index, members)));
}
