//! Fault injection: what goes wrong on purpose.

mod failing;
mod injector;
mod numbered;
mod pct;

use std::time::Duration;

pub use failing::{Call, Failing, Lasts, ParseFailingError};
pub(super) use injector::{FaultInjector, refusal};
pub use numbered::CallCounts;

/// In which order the CPUs go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// As the machine's costs have it.
    #[default]
    Timed,
    /// Probabilistic concurrency testing (Burckhardt and others, ASPLOS 2010): each thread has a
    /// random priority, and while one that could go on has a higher one, a thread stalls as
    /// if its CPU were taken away, for a third of a millisecond at the most; at `depth` − 1 random
    /// moments, the thread that runs falls below all others, as does one that spins. A bug that needs `depth` moments in a
    /// certain order is found with a probability that does not shrink with the length of the run.
    Pct {
        /// How many moments must come in a certain order.
        depth: u32,
        /// Turns of threads that a run is expected to have; the moments lie within.
        turns: u32,
    },
}

/// What becomes of the starts after one that failed. A limit that is reached stays for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailedStarts {
    /// How many more fail in a row, at the most.
    pub at_most: u32,
    /// For how long all fail, at the most.
    pub longest: Duration,
    /// How long it takes until a start has failed, at the most: memory is sought first.
    pub longest_try: Duration,
}

/// How often what goes wrong, in parts per million of the chances for it. The seed decides which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// In which order the CPUs go on.
    pub schedule: Schedule,
    /// A CPU stalls when it is its turn, as when a hypervisor takes it away: any thread may
    /// be overtaken between any two accesses.
    pub stalls_per_million: u32,
    /// As a stall, when a thread comes by a [point of preemption](crate::Sim::preemption_point), or an item begins or is over.
    pub stalls_at_points_per_million: u32,
    /// How long a stall is at the most.
    pub longest_stall: Duration,
    /// A store is held back in the CPU's store buffer: others see it later, as x86's memory order allows. A
    /// CPU with such stores stalls after one load in four, for as long as it may hold them.
    pub held_stores_per_million: u32,
    /// How long a store is held back at the most.
    pub longest_hold: Duration,
    /// A wait on a futex returns though no thread woke it: at once, or later.
    pub spurious_wakeups_per_million: u32,
    /// A thread that was woken becomes runnable later.
    pub delayed_wakeups_per_million: u32,
    /// How much later, at the most; and after how long a spurious wake-up comes.
    pub longest_delay: Duration,
    /// A thread cannot be started,
    pub failed_spawns_per_million: u32,
    /// nor can those after it, for so long.
    pub failed_starts: FailedStarts,
    /// These calls fail by their number.
    pub failing: Option<Failing>,
    /// How long it is, on average, until a CPU goes offline; never if zero. Its threads move to
    /// the CPUs they may still use, or to any if there is none, as on Linux. One stays online.
    pub offline_every: Duration,
    /// How long a CPU is offline at the most.
    pub longest_offline: Duration,
    /// The clock that the program reads jumps ahead, when it is read; timers do not.
    pub clock_jumps_per_million: u32,
    /// How far it jumps at the most.
    pub longest_jump: Duration,
}

impl Faults {
    /// Nothing goes wrong.
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
