//! The caller's thread: a member of a team, a worker of an ordinary queue, or another thread; and work that it spawns.

use coreshard_workqueue::Yielded;

use crate::global;
use crate::team::Team;

/// Calls `call` with the team that this thread is in, or else with the global one.
#[inline]
pub(crate) fn with_current<R>(call: impl FnOnce(&Team) -> R) -> R {
    Team::with_here(|team| call(team.unwrap_or_else(|| global::team())))
}

/// As [`with_current`], but with the global team on a queue's workers: for operations that need a fixed number of threads.
pub(crate) fn with_members<R>(call: impl FnOnce(&Team) -> R) -> R {
    Team::with_here(|team| {
        let team = team.filter(|team| team.index().is_some());
        call(team.unwrap_or_else(|| global::team()))
    })
}

/// Returns how many threads the current pool has: this thread's pool, or else the global one.
///
/// On a worker of a Coreshard queue: how many of its workers may run at once.
pub fn current_num_threads() -> usize {
    with_current(Team::members)
}

/// Returns this thread's index in its pool; `None` on a thread without a pool, and on a worker of a Coreshard queue.
#[inline]
pub fn current_thread_index() -> Option<usize> {
    Team::with_here(|team| team?.index())
}

/// Returns whether work waits in this thread's own list. Other threads may take it meanwhile. `None` on a thread without a pool.
#[inline]
pub fn current_thread_has_pending_tasks() -> Option<bool> {
    Team::with_here(|team| team?.has_pending())
}

/// Spawns `func` in the current pool, or else in the global one. A thread runs the work that it spawned last first, unless
/// another thread takes it.
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

/// Whether [`yield_now()`] or [`yield_local()`] found a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yield {
    /// It ran a job.
    Executed,
    /// No job was waiting.
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

/// Runs one job that waits in this thread's pool, if any; `None` on a thread without a pool.
pub fn yield_now() -> Option<Yield> {
    Team::here()?.yield_now().map(Yield::of)
}

/// As [`yield_now()`], but only takes a job from this thread's own list.
pub fn yield_local() -> Option<Yield> {
    Team::here()?.yield_local().map(Yield::of)
}
