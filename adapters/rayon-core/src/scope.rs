//! Work that may borrow: last in, first out, or first in, first out.

use std::fmt;
use std::ptr;

use coreshard_workqueue::TeamScope;

use crate::broadcast::BroadcastContext;
use crate::current;
use crate::team::Here;

/// In which work is spawned that may borrow what lives longer than `'scope`; see [`scope()`].
#[repr(transparent)]
pub struct Scope<'scope> {
    team: TeamScope<'scope, Here>,
}

impl<'scope> Scope<'scope> {
    /// The same scope, by this interface.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn of<'a>(team: &'a TeamScope<'scope, Here>) -> &'a Self {
        // SAFETY: `Self` is that type alone and lies as it does, and the lifetimes are the same.
        unsafe { &*ptr::from_ref(team).cast::<Self>() }
    }

    /// Has `body` run in the scope's pool, some time before the scope ends. It is given the scope, so that it may spawn more.
    ///
    /// ```
    /// # use rayon_core as rayon;
    /// let (mut first, mut second) = (0, 0);
    /// rayon::scope(|scope| {
    ///     scope.spawn(|scope| {
    ///         first = 1;
    ///         scope.spawn(|_| second = 2);
    ///     });
    /// });
    /// assert_eq!((first, second), (1, 2));
    /// ```
    pub fn spawn<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        self.team.spawn(|team| body(Self::of(team)));
    }

    /// Has `body` run on each thread of the scope's pool, some time before the scope ends.
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&Scope<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        let members = self.team.members();
        self.team.spawn_broadcast(move |team, index| {
            body(Self::of(team), BroadcastContext::new(index, members));
        });
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("num_threads", &self.team.members()).finish_non_exhaustive()
    }
}

/// Calls `op` in the current pool, else in the global one, and waits for it and for all that is spawned in the scope. Of what
/// one thread spawned there, the last runs first, if no other thread takes it.
///
/// # Panics
/// With what `op`, or one of what was spawned, throws, when all are over.
pub fn scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    current::with_current(|team| team.scope(|scope| op(Scope::of(scope))))
}

/// As [`scope()`], with `op` on this thread, whatever it is: it may hold what cannot be sent.
///
/// # Panics
/// As [`scope()`].
pub fn in_place_scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R,
{
    current::with_current(|team| team.in_place_scope(|scope| op(Scope::of(scope))))
}

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
