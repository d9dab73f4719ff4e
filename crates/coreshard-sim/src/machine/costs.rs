//! The costs of operations on a machine. A machine's file gives each in nanoseconds, with its source; see
//! `README.md` beside this file for the keys.

use std::time::Duration;

/// The most CPUs of a simulated machine.
pub const MAX_CPUS: usize = 1024;

/// A time in picoseconds: the simulator's unit, so that fractions of a nanosecond add up exactly.
pub(crate) type Ps = u64;

/// Picoseconds in a nanosecond.
pub(crate) const NS: Ps = 1_000;

/// Converts a duration to picoseconds, far from overflow.
pub(crate) fn ps(duration: Duration) -> Ps {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / NS).saturating_mul(NS).min(Ps::MAX / 4)
}

macro_rules! costs {
    ($($(#[$doc:meta])* $field:ident = $need:ident),+ $(,)?) => {
        /// The costs of a machine, in picoseconds.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Costs {
            $($(#[$doc])* pub(crate) $field: Ps,)+
            /// Idle states, shallow ones first.
            pub(crate) idle: Vec<IdleState>,
            /// How contended lines change hands; `None`: first come, first served.
            pub(crate) arbitration: Option<Arbitration>,
            /// The details of Linux's wake-ups; `None`: `wake` is all of them.
            pub(crate) scheduler: Option<SchedulerCosts>,
            /// By how much costs vary, and how often CPUs are interrupted; `None`: costs are constant.
            pub(crate) variation: Option<Variation>,
            /// How fast a core computes while others do; `None`: as fast as alone.
            pub(crate) cores: Option<BusyCores>,
        }

        /// Each key of `[costs]` in a file, when it is required, and its field.
        pub(super) const KEYS: &[(&str, Need, fn(&mut Costs) -> &mut Ps)] =
            &[$((stringify!($field), Need::$need, |costs| &mut costs.$field)),+];
    };
}

/// When a key is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Always,
    /// Never. 0 if it is not given, or derived from other keys.
    Never,
    /// If cores have several CPUs.
    Smt,
    /// If a package has several LLCs.
    SeveralLlcs,
    /// If there are several packages.
    SeveralPackages,
}

costs! {
    /// A clock cycle, to express latencies in cycles.
    cycle = Always,
    /// A load or store that hits the first cache.
    l1_hit = Always,
    /// A read-modify-write of a line that the CPU owns.
    atomic = Never,
    /// The computation between two accesses, which is added to each.
    compute = Never,
    /// How long the holder of a line is busy answering one of several concurrent readers.
    shared_read = Never,
    /// From a CPU's write until its SMT sibling has the line: half a round trip of a compare-exchange
    /// ping-pong. The next three are measured likewise.
    latency_smt = Smt,
    /// The same within an LLC.
    latency_llc = Always,
    /// The same between LLCs of a package.
    latency_package = SeveralLlcs,
    /// The same between packages.
    latency_remote = SeveralPackages,
    /// The additional time if the line's home is on neither end's package.
    home_far = Never,
    /// A line from the memory of the CPU's own node.
    memory_local = Always,
    /// A line from the memory of another node.
    memory_remote = Never,
    /// One turn of a spinning thread, without its check of the word.
    spin_hint = Always,
    /// Reading the clock.
    clock_read = Never,
    /// Into the kernel and back.
    syscall = Always,
    /// Finding a futex's waiters in the kernel.
    futex = Never,
    /// Setting and cancelling the timer of a wait with a timeout.
    timer = Never,
    /// Making a thread runnable: the target's run queue is locked for this time.
    wake = Never,
    /// The additional time if the CPU is not the waker's.
    wake_remote = Never,
    /// Sending an interrupt to an idle CPU.
    ipi_send = Always,
    /// From one thread to another.
    context_switch = Always,
    /// Creating a thread.
    thread_create = Never,
    /// How long a thread runs while others wait for its CPU: from tick to tick.
    slice = Never,
}

/// How contended lines change hands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arbitration {
    /// How long a CPU keeps a line that it fetched, so that its next accesses hit.
    pub(crate) hold: Ps,
    /// How long a line's home is busy with a request that takes the line, in addition to the transfer.
    pub(crate) locked: Ps,
    /// The part of a latency that the request takes: a CPU that has waited this long has already spent it.
    pub(crate) request: Ps,
    /// The distance at which a requester has half the weight of one at distance zero; 0: first come, first
    /// served.
    pub(crate) reach: Ps,
    /// How long a line's home is busy with an atomic that it executes itself; 0: all are executed in the
    /// CPU's cache.
    pub(crate) far_atomic: Ps,
    /// Whether a load that finds a written line takes it.
    pub(crate) loads_take: bool,
    /// Whether a requested line brings the other line of its pair along.
    pub(crate) pair_prefetch: bool,
    /// Whether a read-modify-write is a load and a store that fails if the line was taken meanwhile.
    pub(crate) exclusives: bool,
    /// The number of lines that a CPU can have in transit; 0: one that it waits for, and one of a store.
    pub(crate) misses_at_once: u64,
    /// The work that a CPU does in a replay while a line is in transit; 0: it waits for each line.
    pub(crate) work_ahead: Ps,
}

/// The detailed costs of waking and switching, on a machine whose wake-ups were not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SchedulerCosts {
    /// The number of lines of the woken thread and of its run queue that the waker fetches from the target
    /// CPU.
    pub(crate) wake_lines: u64,
    /// Checking one CPU in search of an idle one.
    pub(crate) scan: Ps,
    /// A switch between two kernel threads: the address space does not change.
    pub(crate) kernel_switch: Ps,
    /// The computation of kernel code between two accesses to shared memory.
    pub(crate) kernel_compute: Ps,
}

/// The percentiles of the numbers in a [`Variation`].
pub(crate) const VARIATION_AT_PERCENT: [u64; 6] = [5, 25, 50, 75, 95, 99];

/// The variation of a CPU's costs: factors in thousandths, at each of [`VARIATION_AT_PERCENT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variation {
    /// Calls into the kernel, wake-ups and switches.
    pub(crate) calls: [u64; VARIATION_AT_PERCENT.len()],
    /// The exit from an idle state.
    pub(crate) exits: [u64; VARIATION_AT_PERCENT.len()],
    /// The average time between two interruptions of a running CPU; 0: never.
    pub(crate) interrupted_every: Ps,
    /// The duration of an interruption.
    pub(crate) interrupted_for: Ps,
}

/// How fast a core computes while others do, in thousandths of its speed alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BusyCores {
    /// The clock while all cores compute.
    pub(crate) all_core_clock: u64,
    /// The speed of a CPU while its core's other CPUs compute.
    pub(crate) smt_share: u64,
}

/// An idle state of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdleState {
    /// The idle time after which the CPU is in this state, and in no shallower one.
    pub(crate) after: Ps,
    /// From the sent interrupt, or from a polled write, to the first instruction of the scheduler.
    pub(crate) exit: Ps,
    /// Whether the CPU polls for work, so that it is sent no interrupt.
    pub(crate) polls: bool,
}

impl Costs {
    /// Returns the scheduler's cost of finding that no other thread wants the CPU. On a Xeon (family 6, model
    /// 207), a `sched_yield` takes 215 ns, 72 ns more than the system call alone, and a switch takes 373.
    pub(crate) const fn look_for_others(&self) -> Ps {
        self.context_switch / 5
    }

    /// Returns the idle state reached after `idle` of idleness.
    pub(crate) fn idle_state(&self, idle: Ps) -> Option<&IdleState> {
        self.idle.iter().rev().find(|state| state.after <= idle)
    }
}
