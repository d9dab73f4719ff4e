//! Threads of a platform, their options and policies.

use std::fmt;
use std::time::Duration;

use coreshard_topology::CpuSet;

/// The platform's id of a thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(pub u32);

/// The keys of per-thread pointers. Each runtime has its own key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalKey {
    /// The worker that runs on this thread.
    Worker,
    /// The real-time executor that this thread belongs to.
    Executor,
    /// The ceilings of the locks that this thread holds.
    Ceilings,
    /// The remaining budget of the future that is polled on this thread: a count, not a pointer.
    Budget,
}

impl LocalKey {
    /// The number of keys. Each key is an index, for a platform that keeps the pointers in an array.
    pub const COUNT: usize = 4;
}

/// A thread that was started on a platform.
pub trait ThreadHandle: Send + fmt::Debug {
    /// Waits until the thread has ended.
    fn join(self);
}

/// Options of a thread.
///
/// All other attributes (scheduling policy, signal mask, timer slack) are the process's, as far as permitted. On the
/// host these are the main thread's. None comes from the thread's creator.
#[derive(Clone, Debug, Default)]
pub struct ThreadSpec {
    /// The name. The kernel keeps the first 15 bytes, and zero bytes are left out.
    pub name: String,
    /// The CPUs that it may run on; the process's if `None`.
    pub affinity: Option<CpuSet>,
    /// The nice value, −20 (most CPU time) to 19 (least); the process's if `None`.
    pub nice: Option<i8>,
    /// The stack size in bytes; the platform's default if `None`.
    pub stack_bytes: Option<usize>,
}

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The default: time is shared fairly among threads.
    #[default]
    Normal,
    /// Runs before all threads of lower priority, until it waits (SCHED_FIFO). 1 to 99.
    Fifo(u8),
    /// Like `Fifo`, but threads of equal priority take turns (SCHED_RR). 1 to 99.
    RoundRobin(u8),
    /// Runs before all other policies, for at most `runtime` in each `period` (SCHED_DEADLINE).
    Deadline {
        /// How long it may run in a period.
        runtime: Duration,
        /// The period, which is also the deadline within it.
        period: Duration,
    },
}

impl Policy {
    /// Returns the fixed priority, if the policy has one.
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
