//! Fixed-priority real time on many CPUs.
//!
//! [`PriorityIndex`] stores the level of each CPU, and finds the CPU that runs the least important work. It
//! has four layouts ([`Rung`]), from the Linux kernel's first to one without any hot byte that two CPUs write.
//!
//! [`Executor`] runs tasks of fixed priorities, and periodic tasks, on threads that the kernel schedules by
//! these priorities.
//!
//! [`InheritMutex`] and [`CeilingMutex`] are locks whose high-priority waiters do not wait for
//! medium-priority threads.
//!
//! All of it is generic over the platform: the same code runs on this machine's threads and on a simulated
//! machine.

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
