//! Where the caller is: on a member of a team, on a worker of an ordinary queue, or on a thread of its own.

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
