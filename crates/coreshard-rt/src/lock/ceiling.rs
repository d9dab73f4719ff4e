//! A mutex whose holder runs at the highest priority of all who may take it.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use coreshard_platform::{LocalKey, Policy, RealTime, Time};

use super::error::{LockError, LockResult};
use super::inherit::{InheritGuard, InheritMutex};
use crate::level::Priority;

/// A mutual-exclusion lock over `T` with a *ceiling*: whoever takes it is raised to that priority
/// first, and lowered again afterwards. So nobody of a lower priority preempts a holder on its CPU,
/// and if all takers run on one CPU, none ever waits (the immediate ceiling protocol;
/// PTHREAD_PRIO_PROTECT).
///
/// A thread that holds several runs at the highest of their ceilings, or at its own priority if that is
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
    /// As [`InheritMutex::lock`], and if the caller's own priority is above the ceiling, or the
    /// platform refuses to raise it.
    #[track_caller]
    pub fn lock(&self) -> LockResult<CeilingGuard<'_, P, T>> {
        self.raised(InheritMutex::lock)
    }

    /// Takes the lock; sleeps until it is free, but not beyond `moment`.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and if the time is over.
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

    /// Whether a holder has panicked.
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
            // If there is no guard, the caller is lowered again here.
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

const CEILINGS: usize = Priority::MAX.get() as usize + 1;

struct Ceilings {
    base: Policy,
    /// The policy that was set here last, or found.
    set: Policy,
    /// By ceiling: how many guards of it there are.
    held: [u32; CEILINGS],
}

/// While it lives, its thread runs at a ceiling, or above.
pub(super) struct Raise<P: RealTime> {
    ceiling: Priority,
    /// It stays on the thread that it has raised.
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
        // To lower oneself is always allowed. To go back up to another ceiling, after somebody has lowered the
        // thread, may not be: then it stays what it is.
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
            let reason = format!("it is scheduled {}, which comes before every ceiling", self.base);
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

    /// Gives the thread the policy that it is to have.
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

/// The calling thread's record; it has none then.
#[allow(unsafe_code)]
fn take<P: RealTime>() -> Option<Box<Ceilings>> {
    let record = P::local(LocalKey::Ceilings).cast::<Ceilings>();
    P::set_local(LocalKey::Ceilings, std::ptr::null_mut());
    // SAFETY: under this key there is nothing but what `put` has left there, on this thread, and it was
    // taken from there just now.
    (!record.is_null()).then(|| unsafe { Box::from_raw(record) })
}

/// Keeps the calling thread's record until it holds nothing any more.
fn put<P: RealTime>(ceilings: Box<Ceilings>) {
    if ceilings.highest().is_some() {
        P::set_local(LocalKey::Ceilings, Box::into_raw(ceilings).cast());
    }
}
