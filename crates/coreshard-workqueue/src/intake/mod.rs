//! How items enter a pool: the *intake* ladder. `README.md` beside this file tells the lock-free
//! rung's protocol.

mod injectors;
mod range;
mod segments;

#[cfg(all(test, loom))]
mod loom_tests;

pub(crate) use injectors::{Injectors, ItemWaits, MAX_INJECTORS, Takers, Watches};
pub(crate) use range::Range;
pub(crate) use segments::{Claim, Segment, SegmentQueue, TAIL_COUNTERS};

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use crate::error::ParseRungError;

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
