//! Real time on this machine: a fixed-priority executor, locks that respect priorities, and the priority index.
//! `docs/REALTIME.md` describes the required permissions.
//!
//! ```
//! use coreshard::Topology;
//! use coreshard::rt::{Executor, Periodic, Priority};
//! use std::time::Duration;
//!
//! let machine = Topology::host()?;
//! let (executor, degradations) = Executor::builder(&machine).build_degraded()?;
//! degradations.iter().for_each(|lacking| eprintln!("{lacking}"));
//! let every = Periodic::every(Duration::from_millis(1), Priority::new(70)?);
//! let mixer = executor.periodic(every, |_| { /* mix the next buffer */ })?;
//! let loaded = executor.spawn(Priority::new(20)?, || "a plug-in")?;
//! assert_eq!(loaded.join()?, "a plug-in");
//! assert_eq!(mixer.stop().panics, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use coreshard_platform::Host;
pub use coreshard_rt::{
    Activation, CpuMask, CpuSnapshot, CpuStats, DeadlineHeap, Degradation, Incident, Level,
    LockError, Overrun, Periodic, PeriodicStats, Priority, RtError, Rung, TaskPanic, Urgency,
};

/// An executor on this machine; see [`coreshard_rt::Executor`].
pub type Executor = coreshard_rt::Executor<Host>;
/// Builds an [`Executor`]; see [`coreshard_rt::ExecutorBuilder`].
pub type ExecutorBuilder = coreshard_rt::ExecutorBuilder<Host>;
/// The handle to a task's result; see [`coreshard_rt::TaskHandle`].
pub type TaskHandle<T> = coreshard_rt::TaskHandle<Host, T>;
/// A periodic task; see [`coreshard_rt::PeriodicHandle`].
pub type PeriodicHandle = coreshard_rt::PeriodicHandle<Host>;
/// The handle to a timer; see [`coreshard_rt::TimerHandle`].
pub type TimerHandle = coreshard_rt::TimerHandle<Host>;
/// A mutex with priority inheritance; see [`coreshard_rt::InheritMutex`].
pub type InheritMutex<T> = coreshard_rt::InheritMutex<Host, T>;
/// The guard of an [`InheritMutex`]; see [`coreshard_rt::InheritGuard`].
pub type InheritGuard<'mutex, T> = coreshard_rt::InheritGuard<'mutex, Host, T>;
/// A mutex with a priority ceiling; see [`coreshard_rt::CeilingMutex`].
pub type CeilingMutex<T> = coreshard_rt::CeilingMutex<Host, T>;
/// The priority index; see [`coreshard_rt::PriorityIndex`].
pub type PriorityIndex = coreshard_rt::PriorityIndex<Host>;
/// Permission to set the level of a CPU; see [`coreshard_rt::LevelWriter`].
pub type LevelWriter = coreshard_rt::LevelWriter<Host>;
