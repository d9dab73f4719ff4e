//! The variants of the pools: when a chosen worker is woken, and how items enter.

use std::fmt;
use std::str::FromStr;

use coreshard_topology::input::quoted;

/// When a worker that was chosen under the pool's lock is woken, oldest first.
///
/// With the lock-free intake, a producer that must wake a worker holds no lock in any variant. The
/// variants then differ in how a worker wakes the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Wake {
    /// While the lock is held, as in Linux' workqueue until its lock was found to be held for the whole wake-up.
    UnderLock,
    /// The worker is chosen and claimed under the lock, and woken after the unlock.
    AfterUnlock,
    /// As `AfterUnlock`, but the chosen worker stays at the head of the idle list until it runs, and kicks that find it
    /// already chosen do nothing. So one wake-up per pool is on its way, and the woken worker wakes the next if there is work
    /// for it. With the lock-free intake, more are on their way if enough work waits.
    #[default]
    Coalesced,
}

impl Wake {
    /// All variants, oldest first.
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
    type Err = ParseVariantError;
    fn from_str(text: &str) -> Result<Self, ParseVariantError> {
        parse("wake", &Self::ALL, text)
    }
}

/// How items enter a pool, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Intake {
    /// A list under the pool's lock, as in the Linux kernel's workqueue: every producer and every
    /// worker takes the lock for every item.
    Locked,
    /// A queue of segments for each CPU of the pod. A producer enters with a fetch-and-add and an exchange. Neither can fail,
    /// and only every 128th item takes a short lock. Workers take batches under the pool's lock.
    #[default]
    LockFree,
}

impl Intake {
    /// All variants, oldest first.
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
    type Err = ParseVariantError;
    fn from_str(text: &str) -> Result<Self, ParseVariantError> {
        parse("intake", &Self::ALL, text)
    }
}

/// The text is not the name of a variant.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseVariantError {
    /// The kind of variant.
    of: &'static str,
    given: String,
    accepted: String,
}

fn parse<V: fmt::Display + Copy>(
    of: &'static str,
    all: &[V],
    text: &str,
) -> Result<V, ParseVariantError> {
    all.iter().copied().find(|variant| variant.to_string() == text).ok_or_else(|| {
        let accepted = all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        ParseVariantError { of, given: quoted(text).to_string(), accepted }
    })
}

impl fmt::Display for ParseVariantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of, given, accepted } = self;
        write!(f, "invalid {of} variant {given}: expected one of {accepted}")
    }
}

coreshard_topology::readable_debug!(ParseVariantError);

impl std::error::Error for ParseVariantError {}
