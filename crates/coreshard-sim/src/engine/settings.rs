//! How a simulation is to run.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::faults::Faults;
use super::pulse::Pulse;
use crate::profile::Profile;

/// Where virtual threads are switched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switching {
    /// At any access to memory that is another CPU's turn, as on a machine with these CPUs.
    #[default]
    Anywhere,
    /// Where a thread waits, sleeps, yields, spins or ends, where an item [begins or is
    /// over](coreshard_platform::Platform::item_begins), and at [`Sim::preemption_point`](crate::Sim::preemption_point).
    /// Locks that the simulator does not know, such as the standard library's, can be held safely between these places.
    /// Their holder must not wait by means of the platform: all virtual threads run on one host thread, which would
    /// wait for itself. A thread that only reads memory, some thousand times in a row, is treated as spinning.
    AtWaits,
}

/// What is asked of a run, beside the machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(super) seed: u64,
    pub(super) profile: Profile,
    pub(super) record_lines: bool,
    pub(super) record_timeline: bool,
    pub(super) time_limit: Duration,
    pub(super) turn_limit: u64,
    pub(super) settle: Duration,
    pub(super) faults: Faults,
    pub(super) at_waits: bool,
    /// Each access costs the same, wherever the data are: the run does not depend on addresses, and the program
    /// needs no allocator of the simulator's.
    pub(super) uniform_memory: bool,
    /// Whether a waiting thread keeps the place in the source where it waits.
    pub(super) record_waits: bool,
    /// Starts that do not fail by chance: by the thread's name, and whether the first thread makes it.
    pub(super) spares_start: Option<fn(&str, bool) -> bool>,
    /// Items begin and time passes as the first thread says; see `hand`.
    pub(super) by_hand: bool,
    pub(super) pulse: Option<Arc<Pulse>>,
    /// True once the run is to be ended.
    pub(super) stop: Option<Arc<AtomicBool>>,
}
