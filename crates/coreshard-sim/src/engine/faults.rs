//! What goes wrong on purpose, to find what a program relies on without a right to.

use std::time::Duration;

use crate::machine::Ps;
use crate::random::{Random, mix};

/// How often what goes wrong, in parts per million of the chances for it. The seed decides which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A CPU stands still when it is its turn, as when a hypervisor takes it away: any thread may
    /// be overtaken between any two accesses.
    pub stalls_per_million: u32,
    /// How long a stall is at the most.
    pub longest_stall: Duration,
    /// A wait on a futex returns though nobody woke it.
    pub spurious_wakeups_per_million: u32,
    /// A thread cannot be started.
    pub failed_spawns_per_million: u32,
}

/// Faults, and the dice.
pub(super) struct Dice {
    faults: Faults,
    longest_stall: Ps,
    random: Random,
}

const MILLION: u64 = 1_000_000;

impl Dice {
    pub(super) fn new(faults: Faults, longest_stall: Ps, seed: u64) -> Self {
        // Another sequence than that which settles ties.
        Self { faults, longest_stall, random: Random::new(mix(!seed)) }
    }

    fn falls(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.random.below(MILLION) < u64::from(per_million)
    }

    /// How long a CPU stands still, if it does.
    pub(super) fn stall(&mut self) -> Option<Ps> {
        let stalls = self.falls(self.faults.stalls_per_million);
        stalls.then(|| self.random.below(self.longest_stall.max(1)) + 1)
    }

    pub(super) fn wakes_spuriously(&mut self) -> bool {
        self.falls(self.faults.spurious_wakeups_per_million)
    }

    pub(super) fn fails_to_spawn(&mut self) -> bool {
        self.falls(self.faults.failed_spawns_per_million)
    }
}
