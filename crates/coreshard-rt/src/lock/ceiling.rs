//! A mutex whose holder runs at the highest priority of all its takers.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use coreshard_platform::{LocalKey, Policy, RealTime, Time};

use super::error::{LockError, LockResult};
use super::inherit::{InheritGuard, InheritMutex};
use crate::level::Priority;

/// A mutual-exclusion lock over `T` with a *ceiling*. A thread that takes the lock is first raised to that
/// priority, and lowered again after release.
///
/// So no thread of a lower priority preempts a holder on its CPU, and if all takers run on one CPU, none ever
/// waits (the immediate ceiling protocol; PTHREAD_PRIO_PROTECT).
///
/// A thread that holds several locks runs at the highest of their ceilings, or at its own priority if that is
/// higher, and may release them in any order. Its own priority is the one it had before it took the first of
/// them. If its priority is changed meanwhile, it runs at the new priority until it next takes or releases
/// such a lock, when its ceilings are computed anew. The lock is therefore unsuitable for tasks of
/// [`Urgency::Deadline`](crate::Urgency::Deadline), whose priorities change as others start and end.
///
/// Raising and lowering take a few system calls for each lock, and a small record is allocated for a thread
/// that holds none yet. Takers on other CPUs wait with inheritance, as in [`InheritMutex`]. A thread that is
/// scheduled normally, on a machine that grants no priority, gets [`LockError::NotRaised`]. So does one that
/// is scheduled SCHED_DEADLINE.
pub struct CeilingMutex<P: RealTime, T> {
    ceiling: Priority,
    inner: InheritMutex<P, T>,
}

impl<P: RealTime, T> CeilingMutex<P, T> {
    /// Creates a free lock over `data`, for takers up to the priority `ceiling`.
    pub fn new(ceiling: Priority, data: T) -> Self {
        Self { ceiling, inner: InheritMutex::new(data) }
    }

    /// Returns the highest priority of a taker.
    pub const fn ceiling(&self) -> Priority {
        self.ceiling
    }

    /// Takes the lock. Sleeps until it is free.
    ///
    /// # Errors
    /// As [`InheritMutex::lock`], and if the caller's own priority is above the ceiling, or if the platform
    /// refuses to raise it.
    #[track_caller]
    pub fn lock(&self) -> LockResult<CeilingGuard<'_, P, T>> {
        self.raised(InheritMutex::lock)
    }

    /// Takes the lock. Sleeps until it is free, at most until `moment`.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and if the time runs out.
    #[track_caller]
    pub fn lock_until(&self, moment: Time) -> LockResult<CeilingGuard<'_, P, T>> {
        self.raised(|inner| inner.lock_until(moment))
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and if it is held.
    #[track_caller]
    pub fn try_lock(&self) -> LockResult<CeilingGuard<'_, P, T>> {
        self.raised(InheritMutex::try_lock)
    }

    /// Returns whether a holder has panicked.
    pub fn is_poisoned(&self) -> bool {
        self.inner.is_poisoned()
    }

    #[track_caller]
    fn raised<'lock>(
        &'lock self,
        lock: impl FnOnce(&'lock InheritMutex<P, T>) -> LockResult<InheritGuard<'lock, P, T>>,
    ) -> LockResult<CeilingGuard<'lock, P, T>> {
        let raise = Raise::<P>::to(self.ceiling)?;
        match lock(&self.inner) {
            Ok(guard) => Ok(CeilingGuard { guard, _raise: raise }),
            // Without a guard, the caller is lowered again here.
            Err(error) => Err(error.map(|guard| CeilingGuard { guard, _raise: raise })),
        }
    }
}

impl<P: RealTime, T> fmt::Debug for CeilingMutex<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CeilingMutex").field("ceiling", &self.ceiling).finish_non_exhaustive()
    }
}

/// Proof that its thread holds the lock and runs at its ceiling.
///
/// Dropping it releases the lock and then lowers the thread.
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

const CEILINGS: usize = Priority::MAX.get() as usize + 1;

struct Ceilings {
    base: Policy,
    /// The policy that was set or found here last.
    set: Policy,
    /// By ceiling: the number of guards.
    held: [u32; CEILINGS],
}

/// Keeps its thread at a ceiling or above while it lives.
pub(super) struct Raise<P: RealTime> {
    ceiling: Priority,
    /// Not `Send`: it belongs to the thread that it has raised.
    _of_its_thread: PhantomData<*const P>,
}

impl<P: RealTime> Raise<P> {
    /// Raises the calling thread.
    pub(super) fn to<G>(ceiling: Priority) -> Result<Self, LockError<G>> {
        let found = P::policy();
        let new = || Box::new(Ceilings { base: found, set: found, held: [0; CEILINGS] });
        let mut ceilings = take::<P>().unwrap_or_else(new);
        ceilings.notice(found);
        let raised = ceilings.raise::<P, G>(ceiling);
        put::<P>(ceilings);
        raised.map(|()| Self { ceiling, _of_its_thread: PhantomData })
    }
}

impl<P: RealTime> Drop for Raise<P> {
    fn drop(&mut self) {
        let Some(mut ceilings) = take::<P>() else { return };
        ceilings.notice(P::policy());
        let held = &mut ceilings.held[usize::from(self.ceiling.get())];
        *held = held.saturating_sub(1);
        // A thread may always lower itself. If it was lowered by another thread, it may lack the permission
        // to return to another ceiling; then its priority stays unchanged.
        let _ = ceilings.apply::<P>();
        put::<P>(ceilings);
    }
}

impl Ceilings {
    fn notice(&mut self, found: Policy) {
        if found != self.set {
            (self.base, self.set) = (found, found);
        }
    }

    fn raise<P: RealTime, G>(&mut self, ceiling: Priority) -> Result<(), LockError<G>> {
        let ceiling = ceiling.get();
        if matches!(self.base, Policy::Deadline { .. }) {
            let reason =
                format!("the caller is scheduled {}, which precedes every ceiling", self.base);
            return Err(LockError::NotRaised(reason));
        }
        if let Some(priority) = self.base.priority().filter(|priority| *priority > ceiling) {
            return Err(LockError::AboveCeiling { priority, ceiling });
        }
        self.held[usize::from(ceiling)] += 1;
        self.apply::<P>().map_err(|error| {
            self.held[usize::from(ceiling)] -= 1;
            LockError::NotRaised(error.to_string())
        })
    }

    /// Gives the thread the policy that it should have.
    fn apply<P: RealTime>(&mut self) -> Result<(), coreshard_platform::PolicyError> {
        let wanted = match self.highest() {
            Some(ceiling) if self.base.priority().is_none_or(|base| base < ceiling) => {
                Policy::Fifo(ceiling)
            }
            _ => self.base,
        };
        if wanted != self.set {
            P::set_own_policy(wanted)?;
            self.set = wanted;
        }
        Ok(())
    }

    fn highest(&self) -> Option<u8> {
        self.held.iter().rposition(|held| *held > 0).map(|ceiling| ceiling as u8)
    }
}

/// Takes the calling thread's record; the thread has none afterwards.
#[allow(unsafe_code)]
fn take<P: RealTime>() -> Option<Box<Ceilings>> {
    let record = P::local(LocalKey::Ceilings).cast::<Ceilings>();
    P::set_local(LocalKey::Ceilings, std::ptr::null_mut());
    // SAFETY: only `put` stores under this key, on this thread, and the record was removed from there just
    // now.
    (!record.is_null()).then(|| unsafe { Box::from_raw(record) })
}

/// Stores the calling thread's record, or frees it once the thread holds no lock.
fn put<P: RealTime>(ceilings: Box<Ceilings>) {
    if ceilings.highest().is_some() {
        P::set_local(LocalKey::Ceilings, Box::into_raw(ceilings).cast());
    }
}
