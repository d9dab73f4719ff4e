//! Options of a simulation.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::faults::Faults;
use super::pulse::Pulse;
use crate::profile::Profile;

/// The places where virtual threads are switched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switching {
    /// At any access to memory when it is another CPU's turn, as on a machine with these CPUs.
    #[default]
    Anywhere,
    /// When a thread waits, sleeps, yields, spins or ends, when an item [begins or
    /// finishes](coreshard_platform::Platform::item_begins), and at
    /// [`Sim::preemption_point`](crate::Sim::preemption_point). Between these points, locks that the
    /// simulator does not know, such as the standard library's, can be held safely. Their holder must not
    /// wait by means of the platform: all virtual threads run on one host thread, which would wait for
    /// itself. A thread that only reads memory, some thousand times in a row, is treated as spinning.
    AtWaits,
}

/// The options of a run, apart from the machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(super) seed: u64,
    pub(super) profile: Profile,
    pub(super) record_lines: bool,
    pub(super) record_timeline: bool,
    pub(super) time_limit: Duration,
    pub(super) turn_limit: u64,
    pub(super) progress_limit: u64,
    pub(super) settle: Duration,
    pub(super) faults: Faults,
    pub(super) at_waits: bool,
    /// Whether each access costs the same, wherever the data is. The run then does not depend on addresses,
    /// and the program does not need the simulator's allocator.
    pub(super) uniform_memory: bool,
    /// Whether a waiting thread records the place in the source where it waits.
    pub(super) record_waits: bool,
    /// Selects starts that do not fail randomly, by the thread's name and whether the first thread starts it.
    pub(super) spares_start: Option<fn(&str, bool) -> bool>,
    /// Whether the first thread controls items and time; see `hand`.
    pub(super) by_hand: bool,
    pub(super) pulse: Option<Arc<Pulse>>,
    /// Set to true to end the run.
    pub(super) stop: Option<Arc<AtomicBool>>,
}
