//! Errors of taking a lock.

use std::fmt;

/// A guard, or the reason why there is none. The error of a poisoned lock contains the guard.
pub(super) type LockResult<G> = Result<G, LockError<G>>;

/// The error when a lock was not taken as requested.
pub enum LockError<G> {
    /// A holder panicked, so the data may be inconsistent. The lock is held now.
    Poisoned(G),
    /// The lock is held, and the caller did not want to wait.
    Held,
    /// The lock was still held at the given moment.
    TimedOut,
    /// The caller already holds the lock, or would wait for itself through other locks.
    WouldDeadlock,
    /// The holder thread has ended without releasing the lock, having forgotten its guard: the lock can never
    /// be taken again. (If the kernel has reused that thread's id since, a taker waits for the other thread
    /// instead.)
    HolderGone,
    /// The platform has no locks with priority inheritance.
    Unsupported,
    /// The caller's priority is above the lock's ceiling.
    AboveCeiling {
        /// The caller's priority.
        priority: u8,
        /// The lock's ceiling.
        ceiling: u8,
    },
    /// The platform refused to raise the caller to the lock's ceiling; the reason as a text.
    NotRaised(String),
}

impl<G> LockError<G> {
    /// Returns the guard of a poisoned lock, which is held.
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
            Self::TimedOut => f.write_str("the lock was still held at the timeout"),
            Self::WouldDeadlock => f.write_str("waiting for the lock would never end"),
            Self::HolderGone => {
                f.write_str("the thread that held the lock has ended without releasing it")
            }
            Self::Unsupported => f.write_str("the platform has no priority inheritance"),
            Self::AboveCeiling { priority, ceiling } => write!(
                f,
                "invalid priority {priority} for a lock with the ceiling {ceiling}: \
                 expected a priority up to the ceiling"
            ),
            Self::NotRaised(reason) => {
                write!(f, "the caller cannot be raised to the lock's ceiling: {reason}")
            }
        }
    }
}

coreshard_topology::readable_debug!(<G> LockError<G>);

impl<G> std::error::Error for LockError<G> {}
