//! Where the caller is: on a member of a team, on a worker of an ordinary queue, or on a thread of its own; and what it
//! leaves to its team.

use coreshard_workqueue::Yielded;

use crate::global;
use crate::team::Team;

/// With the team that this thread is in, else with the global one.
#[inline]
pub(crate) fn with_current<R>(call: impl FnOnce(&Team) -> R) -> R {
    Team::with_here(|team| call(team.unwrap_or_else(|| global::team())))
}

/// As [`with_current`], for what a queue's workers cannot do, since their number is not fixed: with the global team there.
pub(crate) fn with_members<R>(call: impl FnOnce(&Team) -> R) -> R {
    Team::with_here(|team| {
        let team = team.filter(|team| team.index().is_some());
        call(team.unwrap_or_else(|| global::team()))
    })
}

/// How many threads the current pool has: that of this thread, else the global one.
///
/// On a worker of a Coreshard queue: how many of its workers may run at once.
pub fn current_num_threads() -> usize {
    with_current(Team::members)
}

/// This thread's index in its pool; `None` on a thread of no pool, and on a worker of a Coreshard queue.
#[inline]
pub fn current_thread_index() -> Option<usize> {
    Team::with_here(|team| team?.index())
}

/// Whether work waits on this thread's own list, from which others may take it meanwhile; `None` on a thread of no pool.
#[inline]
pub fn current_thread_has_pending_tasks() -> Option<bool> {
    Team::with_here(|team| team?.has_pending())
}

/// Has `func` run in the current pool, else in the global one, some time: the last that a thread spawned first, if no other
/// thread takes it.
///
/// A panic goes to the pool's [`panic_handler`](crate::ThreadPoolBuilder::panic_handler); without one the process aborts.
pub fn spawn<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    with_current(|team| team.spawn(func));
}

/// As [`spawn()`], in the order of such calls on this thread.
pub fn spawn_fifo<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    with_current(|team| team.spawn_fifo(func));
}

/// Whether [`yield_now()`] or [`yield_local()`] found something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yield {
    /// It ran something.
    Executed,
    /// There was nothing.
    Idle,
}

impl Yield {
    // No `From`, which users would see.
    pub(crate) fn of(yielded: Yielded) -> Self {
        match yielded {
            Yielded::Ran => Self::Executed,
            Yielded::Idle => Self::Idle,
        }
    }
}

/// Runs one thing that waits in this thread's pool, if there is one; `None` on a thread of no pool.
pub fn yield_now() -> Option<Yield> {
    Team::here()?.yield_now().map(Yield::of)
}

/// As [`yield_now()`], only of what waits on this thread's own list.
pub fn yield_local() -> Option<Yield> {
    Team::here()?.yield_local().map(Yield::of)
}
