//! Work that is done while the caller waits for something of its own.

use coreshard_workqueue::Yielded;

use crate::team::Team;

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
