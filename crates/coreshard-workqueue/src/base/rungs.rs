//! The ladders of the pools: when a chosen worker is woken, and how items enter.

use std::fmt;
use std::str::FromStr;

use crate::base::error::ParseRungError;

/// When a worker that was chosen under the pool's lock is woken, oldest first.
///
/// With the lock-free intake a producer that must wake somebody holds no lock on any rung; the
/// rungs then differ in how a worker wakes the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Wake {
    /// While the lock is held, as Linux' workqueue did until its lock was found to be held for
    /// the whole of a wake-up.
    UnderLock,
    /// The worker is chosen and claimed under the lock, and woken after it is free.
    AfterUnlock,
    /// As `AfterUnlock`; moreover the chosen worker stays at the head of the idle list until it
    /// runs, and kicks that find it chosen already do nothing: one wake-up a pool is on
    /// its way, and the woken worker wakes the next if there is work for it. With the lock-free intake, more are where so
    /// much waits that it is worth it.
    #[default]
    Coalesced,
}

impl Wake {
    /// All rungs, oldest first.
    pub const ALL: [Self; 3] = [Self::UnderLock, Self::AfterUnlock, Self::Coalesced];
}

impl fmt::Display for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::UnderLock => "under-lock",
            Self::AfterUnlock => "after-unlock",
            Self::Coalesced => "coalesced",
        })
    }
}

impl FromStr for Wake {
    type Err = ParseRungError;
    fn from_str(text: &str) -> Result<Self, ParseRungError> {
        ParseRungError::parse("wake", &Self::ALL, text)
    }
}

/// How items enter a pool, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Intake {
    /// A list under the pool's lock, as in the Linux kernel's workqueue: every producer and every
    /// worker takes the lock for every item.
    Locked,
    /// A queue of segments for each CPU of the pod, which producers enter with a fetch-and-add and
    /// an exchange, neither of which can fail, and without a lock but for a short one for every
    /// 128th item; workers take batches under the pool's lock.
    #[default]
    LockFree,
}

impl Intake {
    /// All rungs, oldest first.
    pub const ALL: [Self; 2] = [Self::Locked, Self::LockFree];
}

impl fmt::Display for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Locked => "locked",
            Self::LockFree => "lock-free",
        })
    }
}

impl FromStr for Intake {
    type Err = ParseRungError;
    fn from_str(text: &str) -> Result<Self, ParseRungError> {
        ParseRungError::parse("intake", &Self::ALL, text)
    }
}
