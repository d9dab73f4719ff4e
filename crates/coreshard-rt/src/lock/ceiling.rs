//! A mutex whose holder runs at the highest priority of all who may take it.

use std::fmt;
use std::ops::{Deref, DerefMut};

use coreshard_platform::{RealTime, Time};

use super::ceilings::Raise;
use super::error::LockError;
use super::inherit::{InheritGuard, InheritMutex};
use crate::level::Priority;

/// A mutual-exclusion lock over `T` with a *ceiling*: whoever takes it is raised to that priority
/// first, and lowered again afterwards. So nobody of a lower priority preempts a holder on its CPU,
/// and where all takers run on one CPU, none ever waits (the immediate ceiling protocol;
/// PTHREAD_PRIO_PROTECT).
///
/// A thread that holds several runs at the highest of their ceilings, or at its own priority where that is
/// higher, and may give them back in any order. Its own priority is the one it had before the first of
/// them; if it is set to another one meanwhile, by whomever, it runs at that until it next takes or gives
/// back such a lock, which then counts its ceilings anew. (So it is no lock for tasks of
/// [`Urgency::Deadline`](crate::Urgency::Deadline), whose priorities change as others come and go.)
///
/// Raising and lowering are a few system calls for each lock, and a small record is allocated for a thread
/// that holds none yet. Takers on other CPUs wait with inheritance, as in [`InheritMutex`]. A holder that is
/// scheduled normally, on a machine that grants no priority, gets [`LockError::NotRaised`], and so does one
/// that is scheduled SCHED_DEADLINE.
pub struct CeilingMutex<P: RealTime, T> {
    ceiling: Priority,
    inner: InheritMutex<P, T>,
}

impl<P: RealTime, T> CeilingMutex<P, T> {
    /// A free lock over `data`, for takers of at most `ceiling`.
    pub fn new(ceiling: Priority, data: T) -> Self {
        Self { ceiling, inner: InheritMutex::new(data) }
    }

    /// The highest priority of a taker.
    pub const fn ceiling(&self) -> Priority {
        self.ceiling
    }

    /// Takes the lock; sleeps until it is free.
    ///
    /// # Errors
    /// As [`InheritMutex::lock`], and where the caller's own priority is above the ceiling, or the
    /// platform refuses to raise it.
    #[track_caller]
    pub fn lock(&self) -> Result<CeilingGuard<'_, P, T>, LockError<CeilingGuard<'_, P, T>>> {
        self.raised(InheritMutex::lock)
    }

    /// Takes the lock; sleeps until it is free, but not beyond `moment`.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and where the time is over.
    #[track_caller]
    pub fn lock_until(
        &self,
        moment: Time,
    ) -> Result<CeilingGuard<'_, P, T>, LockError<CeilingGuard<'_, P, T>>> {
        self.raised(|inner| inner.lock_until(moment))
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and where it is held.
    #[track_caller]
    pub fn try_lock(&self) -> Result<CeilingGuard<'_, P, T>, LockError<CeilingGuard<'_, P, T>>> {
        self.raised(InheritMutex::try_lock)
    }

    /// Whether a holder has panicked.
    pub fn is_poisoned(&self) -> bool {
        self.inner.is_poisoned()
    }

    #[track_caller]
    fn raised<'lock>(
        &'lock self,
        lock: impl FnOnce(
            &'lock InheritMutex<P, T>,
        )
            -> Result<InheritGuard<'lock, P, T>, LockError<InheritGuard<'lock, P, T>>>,
    ) -> Result<CeilingGuard<'lock, P, T>, LockError<CeilingGuard<'lock, P, T>>> {
        let raise = Raise::<P>::to(self.ceiling)?;
        match lock(&self.inner) {
            Ok(guard) => Ok(CeilingGuard { guard, _raise: raise }),
            // Where there is no guard, the caller is lowered again here.
            Err(error) => Err(error.map(|guard| CeilingGuard { guard, _raise: raise })),
        }
    }
}

impl<P: RealTime, T> fmt::Debug for CeilingMutex<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CeilingMutex").field("ceiling", &self.ceiling).finish_non_exhaustive()
    }
}

/// Proof that its thread holds the lock, at its ceiling; gives both back when dropped, the lock
/// first.
pub struct CeilingGuard<'lock, P: RealTime, T> {
    guard: InheritGuard<'lock, P, T>,
    _raise: Raise<P>,
}

impl<P: RealTime, T> Deref for CeilingGuard<'_, P, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<P: RealTime, T> DerefMut for CeilingGuard<'_, P, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<P: RealTime, T: fmt::Debug> fmt::Debug for CeilingGuard<'_, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}
