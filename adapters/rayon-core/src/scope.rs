//! Work that may borrow: last in, first out, or first in, first out.

use std::fmt;
use std::ptr;

use coreshard_workqueue::TeamScope;

use crate::broadcast::BroadcastContext;
use crate::current;
use crate::team::Here;

/// Declares a scope of this interface, which is a team's scope by another name.
macro_rules! scope_type {
    ($(#[$documentation:meta])* $name:ident) => {
        $(#[$documentation])*
        #[repr(transparent)]
        pub struct $name<'scope> {
            team: TeamScope<'scope, Here>,
        }

        impl<'scope> $name<'scope> {
            /// The same scope, as this interface's type.
            #[inline]
            #[allow(unsafe_code)]
            pub(crate) fn of<'a>(team: &'a TeamScope<'scope, Here>) -> &'a Self {
                // SAFETY: `Self` is a transparent wrapper of that type, and the lifetimes are the same.
                unsafe { &*ptr::from_ref(team).cast::<Self>() }
            }

            /// Spawns `body` on each thread of the scope's pool. The scope waits for it.
            pub fn spawn_broadcast<BODY>(&self, body: BODY)
            where
                BODY: Fn(&$name<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
            {
                let members = self.team.members();
                self.team.spawn_broadcast(move |team, index| {
                    body(Self::of(team), BroadcastContext::new(index, members));
                });
            }
        }

        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("num_threads", &self.team.members())
                    .finish_non_exhaustive()
            }
        }
    };
}

scope_type! {
    /// A scope whose work may borrow values that outlive `'scope`; see [`scope()`].
    Scope
}

scope_type! {
    /// A scope whose work may borrow values that outlive `'scope`; see [`scope_fifo()`].
    ScopeFifo
}

impl<'scope> Scope<'scope> {
    /// Spawns `body` in the scope's pool. The scope waits for it. It is given the scope, so that it may spawn more.
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
}

impl<'scope> ScopeFifo<'scope> {
    /// As [`Scope::spawn`], in the order of such calls on this thread.
    pub fn spawn_fifo<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&ScopeFifo<'scope>) + Send + 'scope,
    {
        self.team.spawn_fifo(|team| body(Self::of(team)));
    }
}

/// Calls `op` in the current pool, or else in the global one, and waits for it and for all work spawned in the scope. A thread
/// runs the work that it spawned last first, unless another thread takes it.
///
/// # Panics
/// Panics with the panic of `op`, or of spawned work, when all have finished.
pub fn scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    current::with_current(|team| team.scope(|scope| op(Scope::of(scope))))
}

/// As [`scope()`], but with `op` on this thread, even outside of any pool: it may have captures that are not `Send`.
///
/// # Panics
/// As [`scope()`].
pub fn in_place_scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R,
{
    current::with_current(|team| team.in_place_scope(|scope| op(Scope::of(scope))))
}

/// As [`scope()`], but a thread runs the work that it spawned first first.
///
/// # Panics
/// As [`scope()`].
pub fn scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    current::with_current(|team| team.scope(|scope| op(ScopeFifo::of(scope))))
}

/// As [`scope_fifo()`], but with `op` on this thread, even outside of any pool.
///
/// # Panics
/// As [`scope_fifo()`].
pub fn in_place_scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R,
{
    current::with_current(|team| team.in_place_scope(|scope| op(ScopeFifo::of(scope))))
}
