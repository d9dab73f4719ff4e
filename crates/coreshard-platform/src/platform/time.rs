//! Points in time of a platform's clock.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time of a platform's monotonic clock, in nanoseconds since a fixed but unknown start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Time {
    since_start_ns: u64,
}

impl Time {
    /// Creates the time `since_start_ns` nanoseconds after the clock's start.
    pub const fn from_ns(since_start_ns: u64) -> Self {
        Self { since_start_ns }
    }

    /// Returns the nanoseconds since the clock's start.
    pub const fn as_ns(self) -> u64 {
        self.since_start_ns
    }

    /// Returns the nanoseconds from `earlier` to this time; 0 if `earlier` is later.
    pub const fn ns_since(self, earlier: Self) -> u64 {
        self.since_start_ns.saturating_sub(earlier.since_start_ns)
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    /// Returns the time `duration` later, saturating at the clock's last.
    fn add(self, duration: Duration) -> Self {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self { since_start_ns: self.since_start_ns.saturating_add(ns) }
    }
}

impl Sub for Time {
    type Output = Duration;
    /// Returns the duration from `earlier` to this time; zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.ns_since(earlier))
    }
}
