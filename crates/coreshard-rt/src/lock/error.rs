//! Why a lock was not had.

use std::fmt;

/// A guard, or why there is none; the error of a poisoned lock has the guard.
pub(super) type LockResult<G> = Result<G, LockError<G>>;

/// Why a lock was not had as asked for.
pub enum LockError<G> {
    /// Somebody panicked while he held it, so the data may be half changed. It is held now.
    Poisoned(G),
    /// It is held, and the caller did not want to wait.
    Held,
    /// It was still held at the moment given.
    TimedOut,
    /// The caller holds it already, or would wait for itself over other locks.
    WouldDeadlock,
    /// The thread that held it has ended without letting go of it, its guard forgotten: nobody will ever have
    /// it. (If the kernel has given that thread's id to another one since, that one is waited for.)
    HolderGone,
    /// The platform has no locks with priority inheritance.
    Unsupported,
    /// The caller's priority is above the lock's ceiling.
    AboveCeiling {
        /// The caller's.
        priority: u8,
        /// The lock's.
        ceiling: u8,
    },
    /// The platform refused to raise the caller to the lock's ceiling; in words.
    NotRaised(String),
}

impl<G> LockError<G> {
    /// The guard of a lock that is held, but poisoned.
    pub fn into_guard(self) -> Option<G> {
        match self {
            Self::Poisoned(guard) => Some(guard),
            _ => None,
        }
    }

    pub(super) fn map<H>(self, map: impl FnOnce(G) -> H) -> LockError<H> {
        match self {
            Self::Poisoned(guard) => LockError::Poisoned(map(guard)),
            Self::Held => LockError::Held,
            Self::TimedOut => LockError::TimedOut,
            Self::WouldDeadlock => LockError::WouldDeadlock,
            Self::HolderGone => LockError::HolderGone,
            Self::Unsupported => LockError::Unsupported,
            Self::AboveCeiling { priority, ceiling } => {
                LockError::AboveCeiling { priority, ceiling }
            }
            Self::NotRaised(reason) => LockError::NotRaised(reason),
        }
    }
}

impl<G> fmt::Display for LockError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisoned(_) => f.write_str("the lock is poisoned: a holder panicked"),
            Self::Held => f.write_str("the lock is held"),
            Self::TimedOut => f.write_str("the lock was held until the time was over"),
            Self::WouldDeadlock => f.write_str("waiting for the lock would never end"),
            Self::HolderGone => f.write_str(
                "the thread that held the lock has ended and forgotten its guard: nobody can have it any more",
            ),
            Self::Unsupported => f.write_str("there is no priority inheritance on this platform"),
            Self::AboveCeiling { priority, ceiling } => write!(
                f,
                "a thread of priority {priority} may not take a lock whose ceiling is {ceiling}; \
                 allowed are priorities up to the ceiling"
            ),
            Self::NotRaised(reason) => {
                write!(f, "the caller cannot be raised to the lock's ceiling: {reason}")
            }
        }
    }
}

coreshard_topology::readable_debug!(<G> LockError<G>);

impl<G> std::error::Error for LockError<G> {}
