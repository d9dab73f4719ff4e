//! How a run differs from a machine's: for programs that use more than the platform.

/// Where virtual threads are switched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switching {
    /// At any access to memory that is another CPU's turn, as on a machine with these CPUs.
    #[default]
    Anywhere,
    /// Where a thread waits, sleeps, yields, spins or ends, where an item [begins or is
    /// over](coreshard_platform::Platform::item_begins), and at [`Sim::preemption_point`](crate::Sim::preemption_point).
    /// What holds a lock that the simulator does not know (the standard library's, say) is safe between these, as
    /// long as it does not wait by means of the platform: all virtual threads are on one host thread, which would
    /// wait for itself. A thread that does nothing but look at memory, some thousand times, is taken for one that
    /// spins.
    AtWaits,
}

/// What is asked of a run beside machine, seed and faults.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mode {
    pub(super) at_waits: bool,
    /// Each access costs the same, wherever the data are: the run does not depend on addresses, and the program
    /// needs no allocator of the simulator's.
    pub(super) uniform_memory: bool,
    /// Where a thread waits is kept, to be told.
    pub(super) records_waits: bool,
    /// Starts that do not fail by chance: by the thread's name, and whether the first thread makes it.
    pub(super) spares_start: Option<fn(&str, bool) -> bool>,
    /// Items begin and time passes as the first thread says; see `hand`.
    pub(super) by_hand: bool,
}
