//! What things cost on a machine. A machine's file says each in nanoseconds, with its source; see
//! `README.md` beside this file for the keys.

use std::time::Duration;

/// The most CPUs of a simulated machine.
pub const MAX_CPUS: usize = 1024;

/// A time in picoseconds: the simulator's unit, so that a fraction of a nanosecond adds up right.
pub(crate) type Ps = u64;

/// Picoseconds in a nanosecond.
pub(crate) const NS: Ps = 1_000;

/// A duration in picoseconds, far from overflow.
pub(crate) fn ps(duration: Duration) -> Ps {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / NS).saturating_mul(NS).min(Ps::MAX / 4)
}

macro_rules! costs {
    ($($(#[$doc:meta])* $field:ident = $need:ident),+ $(,)?) => {
        /// What things cost on a machine, in picoseconds.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Costs {
            $($(#[$doc])* pub(crate) $field: Ps,)+
            /// Idle states, shallow ones first.
            pub(crate) idle: Vec<IdleState>,
            /// How contended lines change hands; `None`: first come first served.
            pub(crate) arbitration: Option<Arbitration>,
            /// How threads are woken and switched, in detail; `None`: in outline.
            pub(crate) scheduler: Option<SchedulerCosts>,
            /// By how much costs vary, and what interrupts; `None`: each is what it is, each time.
            pub(crate) variation: Option<Variation>,
        }

        /// Each key of a file's `[costs]`, when it is needed, and its field.
        pub(super) const KEYS: &[(&str, Need, fn(&mut Costs) -> &mut Ps)] =
            &[$((stringify!($field), Need::$need, |costs| &mut costs.$field)),+];
    };
}

/// When a key must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Always,
    /// 0 if it is not given.
    Never,
    /// If cores have several CPUs.
    Smt,
    /// If a package has several LLCs.
    SeveralLlcs,
    /// If there are several packages.
    SeveralPackages,
    /// If there are several nodes.
    SeveralNodes,
}

costs! {
    /// A clock cycle, to tell latencies in cycles.
    cycle = Always,
    /// A load or store that hits the first cache.
    l1_hit = Always,
    /// A read-modify-write of a line that the CPU owns.
    atomic = Always,
    /// What a program computes between two accesses: added to each.
    compute = Never,
    /// How long the holder of a line is busy answering one of several readers at once.
    shared_read = Always,
    /// From a CPU's write to its SMT sibling's having the line: half a round trip of a
    /// compare-exchange ping-pong, as are the next three.
    latency_smt = Smt,
    /// The same within an LLC.
    latency_llc = Always,
    /// The same between LLCs of a package.
    latency_package = SeveralLlcs,
    /// The same between packages.
    latency_remote = SeveralPackages,
    /// What is added if the line's home is on neither end's package.
    home_far = Never,
    /// A line out of the CPU's own node's memory.
    memory_local = Always,
    /// A line out of another node's memory.
    memory_remote = SeveralNodes,
    /// One turn of a spinning thread, its look at the word aside.
    spin_hint = Always,
    /// Reading the clock.
    clock_read = Always,
    /// Into the kernel and back.
    syscall = Always,
    /// Finding a futex's waiters in the kernel.
    futex = Always,
    /// Setting and taking back the timer of a wait that has a timeout.
    timer = Never,
    /// Making a thread runnable: the target's run queue is locked for that time.
    wake = Always,
    /// What is added to that if the CPU is not the waker's.
    wake_remote = Never,
    /// Sending an interrupt to an idle CPU.
    ipi_send = Always,
    /// From sending an interrupt until its receiver begins to leave its idle state.
    ipi_latency = Always,
    /// From one thread to another.
    context_switch = Always,
    /// Making a thread.
    thread_create = Always,
    /// How long a thread runs while others wait for its CPU: from tick to tick.
    slice = Always,
}

/// How contended lines change hands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arbitration {
    /// How long a CPU keeps a line that it fetched, so that its next accesses hit.
    pub(crate) hold: Ps,
    /// How long a line's home is busy with a request that takes the line, beyond its way.
    pub(crate) locked: Ps,
    /// What of a latency the request is on its way: a CPU that has waited that long has spent it.
    pub(crate) request: Ps,
    /// What a request takes beyond the latency if it was not there before the line was.
    pub(crate) fresh_request: Ps,
    /// What it costs to leave a loop of loads, whose guesses the new value refutes.
    pub(crate) spin_exit: Ps,
    /// How far away a requester has half the weight of one at no distance; 0: first come first served.
    pub(crate) reach: Ps,
    /// How long a line's home is busy with an atomic that it does itself; 0: all are done in the CPU's cache.
    pub(crate) far_atomic: Ps,
    /// A load that finds a written line takes it.
    pub(crate) loads_take: bool,
    /// The other line of a pair comes along with one that a CPU asks for.
    pub(crate) pair_prefetch: bool,
    /// A read-modify-write is a load and a store that fails if the line was taken meanwhile.
    pub(crate) exclusives: bool,
    /// Lines that a CPU has on their way at once; 0: one, for which it waits, and one store's.
    pub(crate) misses_at_once: u64,
    /// Stores past which a CPU of a replay goes on while their line is elsewhere; 0: loads of the line wait for it at once.
    pub(crate) stores_ahead: u64,
}

/// What waking and switching cost in detail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchedulerCosts {
    /// Lines of the woken thread and of its run queue that the waker gets from the CPU where it goes.
    pub(crate) wake_lines: u64,
    /// A look at one CPU, in search of an idle one.
    pub(crate) scan: Ps,
    /// From one thread of a kernel to another: no address space changes.
    pub(crate) kernel_switch: Ps,
    /// What code of a kernel computes between two accesses to shared memory.
    pub(crate) kernel_compute: Ps,
    /// From a virtual machine to its host, or back; 0 on bare metal.
    pub(crate) interrupt_to_host: Ps,
}

/// Shares of all times, in percent, for which a [`Variation`] has a number each.
pub(crate) const VARIATION_AT_PERCENT: [u64; 6] = [5, 25, 50, 75, 95, 99];

/// By how much what a CPU does takes more, or less, than its cost; in thousandths of it, at each of [`VARIATION_AT_PERCENT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variation {
    /// Calls into the kernel, wake-ups and switches.
    pub(crate) calls: [u64; VARIATION_AT_PERCENT.len()],
    /// The exit from an idle state.
    pub(crate) exits: [u64; VARIATION_AT_PERCENT.len()],
    /// A CPU that runs is taken away from its thread so often, on average; 0: never.
    pub(crate) interrupted_every: Ps,
    /// For so long.
    pub(crate) interrupted_for: Ps,
}

/// An idle state of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdleState {
    /// The CPU is in this state, and no shallower one, after so much idleness.
    pub(crate) after: Ps,
    /// From an interrupt, or from what it polls, to the first instruction of the scheduler.
    pub(crate) exit: Ps,
    /// The CPU looks for work by itself, and is sent no interrupt.
    pub(crate) polls: bool,
}

impl Costs {
    /// What the scheduler takes to find that no other thread wants the CPU. Of the 215 ns of a `sched_yield` on a Xeon (family 6,
    /// model 207) 72 are no system call's, where a switch takes 373.
    pub(crate) const fn look_for_others(&self) -> Ps {
        self.context_switch / 5
    }

    /// The idle state reached after `idle` of idleness.
    pub(crate) fn idle_state(&self, idle: Ps) -> Option<&IdleState> {
        self.idle.iter().rev().find(|state| state.after <= idle)
    }

    /// What an interrupt to an idle CPU takes: of its sender, and from then on until its receiver begins to leave its idle
    /// state. In a virtual machine the sender leaves for the host, and the receiver, which had left, comes back.
    pub(crate) fn interrupt(&self) -> (Ps, Ps) {
        let to_host = self.scheduler.map_or(0, |scheduler| scheduler.interrupt_to_host);
        (self.ipi_send + to_host, self.ipi_latency + to_host)
    }
}
