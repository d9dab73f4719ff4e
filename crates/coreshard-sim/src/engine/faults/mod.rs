//! Fault injection: deliberate failures and delays.

mod failing;
mod injector;
mod numbered;
mod pct;

use std::time::Duration;

pub use failing::{Call, Failing, Lasts, ParseFailingError};
pub(super) use injector::{FaultInjector, refusal};
pub use numbered::CallCounts;

/// How the next CPU to continue is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// Determined by the machine's costs.
    #[default]
    Timed,
    /// Probabilistic concurrency testing (Burckhardt and others, ASPLOS 2010). Each thread has a random
    /// priority. While another runnable thread has a higher one, a thread stalls as if its CPU were taken
    /// away, for at most a third of a millisecond. At `depth` − 1 random moments, the running thread's
    /// priority falls below all others; so does that of a spinning thread. A bug that needs `depth` moments
    /// in a certain order is found with a probability that does not decrease with the length of the run.
    Pct {
        /// The number of moments that must occur in a certain order.
        depth: u32,
        /// The expected number of thread turns in a run; the moments lie within them.
        turns: u32,
    },
}

/// The fate of starts after a failed one. A reached limit stays for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailedStarts {
    /// The most further starts that fail in a row.
    pub at_most: u32,
    /// The maximum time during which all starts fail.
    pub longest: Duration,
    /// The longest time until a start fails: the kernel first searches for memory.
    pub longest_try: Duration,
}

/// The rate of each fault, in parts per million of the opportunities for it.
///
/// The seed decides which of them fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// How the next CPU to continue is chosen.
    pub schedule: Schedule,
    /// A CPU stalls at its turn, as if a hypervisor had taken it away. So any thread may be overtaken between
    /// any two accesses.
    pub stalls_per_million: u32,
    /// A stall when a thread passes a [preemption point](crate::Sim::preemption_point), or when an item
    /// begins or finishes.
    pub stalls_at_points_per_million: u32,
    /// The longest stall.
    pub longest_stall: Duration,
    /// A store is delayed in the CPU's store buffer: other CPUs see it later, as x86's memory order permits.
    /// A CPU with such stores stalls after one load in four, for as long as it may delay them.
    pub held_stores_per_million: u32,
    /// The longest delay of a store.
    pub longest_hold: Duration,
    /// A wait on a futex returns without a wake-up: at once, or later.
    pub spurious_wakeups_per_million: u32,
    /// A woken thread becomes runnable later.
    pub delayed_wakeups_per_million: u32,
    /// The longest delay of a wake-up, and of a spurious wake-up.
    pub longest_delay: Duration,
    /// A thread cannot be started,
    pub failed_spawns_per_million: u32,
    /// nor can later ones, for this long.
    pub failed_starts: FailedStarts,
    /// Calls that fail by their number.
    pub failing: Option<Failing>,
    /// The average time until a CPU goes offline; zero means never. Its threads move to the other CPUs that
    /// they may use, or to any if there is none, as on Linux. One CPU stays online.
    pub offline_every: Duration,
    /// The maximum time that a CPU is offline.
    pub longest_offline: Duration,
    /// The clock that the program reads jumps ahead when it is read; timers do not.
    pub clock_jumps_per_million: u32,
    /// The longest jump.
    pub longest_jump: Duration,
}

impl Faults {
    /// No faults.
    pub const NONE: Self = Self {
        schedule: Schedule::Timed,
        stalls_per_million: 0,
        stalls_at_points_per_million: 0,
        longest_stall: Duration::ZERO,
        held_stores_per_million: 0,
        longest_hold: Duration::ZERO,
        spurious_wakeups_per_million: 0,
        delayed_wakeups_per_million: 0,
        longest_delay: Duration::ZERO,
        failed_spawns_per_million: 0,
        failed_starts: FailedStarts {
            at_most: 0,
            longest: Duration::ZERO,
            longest_try: Duration::ZERO,
        },
        failing: None,
        offline_every: Duration::ZERO,
        longest_offline: Duration::ZERO,
        clock_jumps_per_million: 0,
        longest_jump: Duration::ZERO,
    };
}
