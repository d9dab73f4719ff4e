//! Virtual time.

use std::time::Duration;

/// A time in picoseconds: the simulator's unit, so that a fraction of a nanosecond adds up right.
pub(crate) type Ps = u64;

/// Picoseconds in a nanosecond.
pub(crate) const NS: Ps = 1_000;

/// A duration in picoseconds, far from overflow.
pub(crate) fn ps(duration: Duration) -> Ps {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / NS).saturating_mul(NS).min(Ps::MAX / 4)
}
