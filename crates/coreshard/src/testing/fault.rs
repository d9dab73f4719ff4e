//! What may go wrong in a test on purpose.

use coreshard_sim::Faults;

/// A kind of thing that goes wrong in a [`Check`](super::Check), as on a machine under load. No program may lose an item by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Threads cannot be started, one or some in a row, or all for a while. Left out are those without which a
    /// call of the program's would fail: what the test's own thread starts (such as the first workers of a queue),
    /// and the timekeeper.
    ThreadStarts,
    /// A thread that was woken goes on up to 200 µs later.
    LateWakeups,
    /// A wait on a futex returns though nobody woke it.
    SpuriousWakeups,
    /// CPUs go offline, and come back.
    CpusOffline,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Self; 4] =
        [Self::ThreadStarts, Self::LateWakeups, Self::SpuriousWakeups, Self::CpusOffline];

    /// Takes its part of what a seed has drawn.
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
