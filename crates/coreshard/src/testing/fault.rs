//! Faults injected in a test.

use coreshard_sim::Faults;

/// A kind of fault in a [`Check`](super::Check), as on a machine under load. A program must not lose items because of
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Threads cannot be started, one or a few in a row, or all for a while. Threads whose absence would make a call of
    /// the program fail always start: those started by the test's thread, such as the first workers of a queue, and the
    /// timekeeper.
    ThreadStarts,
    /// A woken thread resumes up to 200 µs later.
    LateWakeups,
    /// A futex wait returns without a wake-up.
    SpuriousWakeups,
    /// CPUs go offline and come back.
    CpusOffline,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Self; 4] =
        [Self::ThreadStarts, Self::LateWakeups, Self::SpuriousWakeups, Self::CpusOffline];

    /// Copies its part of the faults drawn by a seed.
    pub(super) fn add(self, drawn: &Faults, faults: &mut Faults) {
        match self {
            Self::ThreadStarts => {
                faults.failed_spawns_per_million = drawn.failed_spawns_per_million;
                faults.failed_starts = drawn.failed_starts;
            }
            Self::LateWakeups => {
                faults.delayed_wakeups_per_million = drawn.delayed_wakeups_per_million;
                faults.longest_delay = drawn.longest_delay;
            }
            Self::SpuriousWakeups => {
                faults.spurious_wakeups_per_million = drawn.spurious_wakeups_per_million;
                faults.longest_delay = drawn.longest_delay;
            }
            Self::CpusOffline => {
                faults.offline_every = drawn.offline_every;
                faults.longest_offline = drawn.longest_offline;
            }
        }
    }
}
