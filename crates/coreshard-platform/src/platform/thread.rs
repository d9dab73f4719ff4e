//! Threads, as a platform has them.

use std::fmt;
use std::time::Duration;

use coreshard_topology::CpuSet;

/// A thread of this process, as the platform names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(pub u32);

/// How a thread has used its time so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadUsage {
    /// For how long it ran.
    pub cpu_time: Duration,
    /// How often it waited for something: sleep, lock, I/O. What it was kept from running for others to run does not count.
    pub waits: u64,
}

/// Whose per-thread pointer is meant: each runtime has one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalKey {
    /// The worker that runs on this thread.
    Worker,
    /// The real-time executor whose thread this is.
    Executor,
    /// The ceilings of the locks that this thread holds.
    Ceilings,
    /// How much the future that is polled on this thread may still do. No pointer, but a count.
    Budget,
}

impl LocalKey {
    /// How many there are; each is the index of its pointer, for a platform that keeps them in an array.
    pub const COUNT: usize = 4;
}

/// A thread that was started on a platform.
pub trait ThreadHandle: Send + fmt::Debug {
    /// Waits until the thread has ended.
    fn join(self);
}

/// Options of a thread. Of the rest it has what the process has (on the host: what the main thread
/// has), as far as that is allowed, and nothing of whoever happens to make it: scheduling policy, signal
/// mask and timer slack, too.
#[derive(Clone, Debug, Default)]
pub struct ThreadSpec {
    /// Its name; the kernel keeps the first 15 bytes, and bytes that are zero are left out.
    pub name: String,
    /// The CPUs it may run on; the process's if `None`.
    pub affinity: Option<CpuSet>,
    /// Its nice value, −20 (most) to 19 (least); the process's if `None`.
    pub nice: Option<i8>,
    /// The size of its stack; the platform's default if `None`.
    pub stack_bytes: Option<usize>,
}

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// With fairness, as all threads are by default.
    #[default]
    Normal,
    /// Before all threads of a lower priority, until it waits (SCHED_FIFO). 1 to 99.
    Fifo(u8),
    /// As `Fifo`, but threads of equal priority take turns (SCHED_RR). 1 to 99.
    RoundRobin(u8),
    /// Before all of the above: at most `runtime` in each `period` (SCHED_DEADLINE).
    Deadline {
        /// How long it may run in a period.
        runtime: Duration,
        /// The period, and the deadline in it.
        period: Duration,
    },
}

impl Policy {
    /// The fixed priority, if it has one.
    pub const fn priority(self) -> Option<u8> {
        match self {
            Self::Fifo(priority) | Self::RoundRobin(priority) => Some(priority),
            Self::Normal | Self::Deadline { .. } => None,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal => f.write_str("SCHED_OTHER"),
            Self::Fifo(priority) => write!(f, "SCHED_FIFO {priority}"),
            Self::RoundRobin(priority) => write!(f, "SCHED_RR {priority}"),
            Self::Deadline { runtime, period } => {
                write!(f, "SCHED_DEADLINE {} of {} µs", runtime.as_micros(), period.as_micros())
            }
        }
    }
}
