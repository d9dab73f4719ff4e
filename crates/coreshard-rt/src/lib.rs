//! Fixed-priority real time on many CPUs.
//!
//! [`PriorityIndex`] knows at which level each CPU runs, and finds the one that runs the least
//! important work, in four layouts from the Linux kernel's first to one whose hot bytes no two CPUs
//! write ([`Rung`]).
//!
//! [`Executor`] runs tasks of fixed priorities, and periodic ones, on threads that the kernel
//! schedules by these priorities.
//!
//! [`InheritMutex`] and [`CeilingMutex`] are locks whose waiters of high priority do not wait for
//! threads of medium priority.
//!
//! All of it is generic over the platform below: the same code runs on this machine's threads and
//! on a simulated machine's.

#![warn(missing_debug_implementations)]
#![doc(html_root_url = "https://docs.rs/coreshard-rt/0.1.0")]

mod error;
mod executor;
mod index;
mod level;
mod lock;

pub use error::RtError;
pub use executor::{
    Activation, CpuSnapshot, CpuStats, DeadlineHeap, Degradation, Executor, ExecutorBuilder,
    Incident, MAX_ROUND_ROBIN, MIN_WATCHDOG_PERIOD, Overrun, Periodic, PeriodicHandle,
    PeriodicStats, TaskHandle, TaskPanic, TimerHandle, Urgency,
};
pub use index::{CpuMask, LevelWriter, MAX_INDEX_CPUS, PriorityIndex, Rung};
pub use level::{Level, Priority};
pub use lock::{CeilingGuard, CeilingMutex, InheritGuard, InheritMutex, LockError};

#[cfg(test)]
testing::watch!();
