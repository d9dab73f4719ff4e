//! The ceilings that a thread holds, and the policy that it has without them.
//!
//! 1. A thread runs at the higher of its *base* and the highest ceiling that it holds. So its guards may go
//!    in any order, also by a panic.
//! 2. The record is there from a thread's first guard to its last, behind the platform's thread-local
//!    pointer. Guards do not leave their thread, so nobody else ever touches it.
//! 3. The base is what the thread was before its first guard. Where the thread is found at another policy
//!    than was set here last, somebody has changed it meanwhile: then that is its base from now on. (A change
//!    to exactly what was set here cannot be told from none.)

use std::marker::PhantomData;

use coreshard_platform::{LocalKey, Policy, RealTime};

use super::error::LockError;
use crate::level::Priority;

const CEILINGS: usize = Priority::MAX.get() as usize + 1;

struct Ceilings {
    base: Policy,
    /// What was set here last, or found.
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
