//! Work that may borrow, first in, first out.

use std::fmt;
use std::ptr;

use coreshard_workqueue::TeamScope;

use crate::broadcast::BroadcastContext;
use crate::current::{self, Here};

/// In which work is spawned that may borrow what lives longer than `'scope`; see [`scope_fifo()`].
#[repr(transparent)]
pub struct ScopeFifo<'scope> {
    team: TeamScope<'scope, Here>,
}

impl<'scope> ScopeFifo<'scope> {
    /// The same scope, by this interface.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn of<'a>(team: &'a TeamScope<'scope, Here>) -> &'a Self {
        // SAFETY: `Self` is that type alone and lies as it does, and the lifetimes are the same.
        unsafe { &*ptr::from_ref(team).cast::<Self>() }
    }

    /// As [`Scope::spawn`](crate::Scope::spawn), in the order of such calls on this thread.
    pub fn spawn_fifo<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&ScopeFifo<'scope>) + Send + 'scope,
    {
        self.team.spawn_fifo(|team| body(Self::of(team)));
    }

    /// Has `body` run on each thread of the scope's pool, some time before the scope ends.
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&ScopeFifo<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        let members = self.team.members();
        self.team.spawn_broadcast(move |team, index| {
            body(Self::of(team), BroadcastContext::new(index, members));
        });
    }
}

impl fmt::Debug for ScopeFifo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopeFifo")
            .field("num_threads", &self.team.members())
            .finish_non_exhaustive()
    }
}

/// As [`scope()`](crate::scope()), but of what one thread spawned there, the first runs first.
///
/// # Panics
/// As [`scope()`](crate::scope()).
pub fn scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    current::with_current(|team| team.scope(|scope| op(ScopeFifo::of(scope))))
}

/// As [`scope_fifo()`], with `op` on this thread, whatever it is.
///
/// # Panics
/// As [`scope_fifo()`].
pub fn in_place_scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R,
{
    current::with_current(|team| team.in_place_scope(|scope| op(ScopeFifo::of(scope))))
}
