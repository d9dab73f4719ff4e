//! Finds programs that run forever without getting anywhere: a livelock, a spin for a value that no thread writes,
//! a thread that only computes.
//!
//! Progress is a thread's start or end, the begin of an item, and what the program reports as such
//! ([`Sim::progress`](crate::Sim::progress)). Nothing else can be told from a retry. Accesses that a CPU sleeps
//! through cost the host nothing and do not count.
//!
//! Once a program has made as many accesses without progress as the limit allows, the last access of each thread
//! is recorded for [`OBSERVED`] more, and then reported.

use crate::memory::{Access, Place};
use crate::report::Site;

/// How many accesses are recorded before the report.
const OBSERVED: u64 = 100_000;
/// After how many accesses, at most, the limits are checked.
const CHECKED_EVERY: u64 = 1 << 16;
/// How often a thread may compute without an access, a wait or an end.
const MOST_COMPUTES: u64 = 20_000_000;
/// After how many computations the run's limits are checked.
const COMPUTES_CHECKED_EVERY: u64 = 1 << 10;

/// An access of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastAccess {
    pub(super) place: Place,
    pub(super) access: Access,
    pub(super) site: Site,
}

/// A program's accesses since it last made progress, and a thread's computations since its last access.
#[derive(Debug)]
pub(super) struct Progress {
    limit: u64,
    /// The number of accesses when it last made progress, and that of the next check.
    last: u64,
    check_at: u64,
    computes: u64,
    /// The number of accesses at the last computation.
    computed_at: u64,
}

/// What to do after a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Continue, unless the run's limits say otherwise.
    Limits,
    /// Record the access.
    Record,
    /// Report that there is no progress for this many accesses.
    Report(u64),
}

impl Progress {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, last: 0, check_at: CHECKED_EVERY.min(limit), computes: 0, computed_at: 0 }
    }

    pub(super) const fn note(&mut self, accesses: u64) {
        self.last = accesses;
    }

    #[inline]
    pub(super) const fn is_due(&self, accesses: u64) -> bool {
        accesses >= self.check_at
    }

    pub(super) fn check(&mut self, accesses: u64) -> Check {
        let without = accesses - self.last;
        if without < self.limit {
            self.check_at = accesses + CHECKED_EVERY.min(self.limit - without);
            Check::Limits
        } else if without < self.limit.saturating_add(OBSERVED) {
            Check::Record
        } else {
            Check::Report(without)
        }
    }

    /// Called when a thread computes. Returns whether the run's limits are to be checked, and the number of
    /// computations in a row if there are too many.
    #[inline]
    pub(super) const fn note_compute(&mut self, accesses: u64) -> (bool, Option<u64>) {
        if accesses != self.computed_at {
            self.computed_at = accesses;
            self.computes = 0;
        }
        self.computes += 1;
        let is_due = self.computes.is_multiple_of(COMPUTES_CHECKED_EVERY);
        (is_due, if self.computes > MOST_COMPUTES { Some(self.computes) } else { None })
    }
}
