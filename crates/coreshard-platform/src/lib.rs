//! The platform trait: what Coreshard's runtimes need from the machine below them.
//!
//! [`Platform`] names everything a runtime needs from a machine: atomics, futexes, threads, the
//! current CPU, a clock and node-local memory. A platform is a zero-sized type with associated
//! functions, so that on [`Host`] every call inlines to what one would have written by hand:
//! `Host`'s atomics *are* the standard library's. The same runtime code runs, unchanged, on other
//! platforms: a model checker's in tests, a simulated machine's in the lab.
//!
//! Parts, and what they rely on:
//!
//! 1. [`Platform`] and what its signatures are made of, such as the two traits of its atomics
//!    ([`AtomicInt`], [`AtomicPointer`]): the folder `platform/`, which knows no implementation.
//! 2. Protocol parts that every runtime needs, generic over the platform: [`Lock`] (spins briefly,
//!    then parks), [`Parker`] (one permit per thread), [`PerCpuCounter`] (no shared line on write,
//!    exact sum on read), [`Padded`] (a value on lines of its own), [`Reading`] (what is read is not freed
//!    meanwhile), [`WatchLength`] (how long to watch before one sleeps).
//! 3. [`user`]: how users' code is called, so that its panics are caught.
//! 4. [`Host`]: this machine, on Linux. With the feature `faulty`, `Faulty`: this machine, where starts of
//!    threads fail as a test says.
//!
//! Unsafe code is allowed file by file, here as in the other crates, and each block says why it is sound.

#![warn(missing_debug_implementations)]
#![doc(html_root_url = "https://docs.rs/coreshard-platform/0.1.0")]

#[cfg(not(target_os = "linux"))]
compile_error!("Coreshard runs on Linux alone: it is built on futexes, sched_setaffinity and /sys");

mod fields;
mod host;
mod lock;
#[cfg(loom)]
mod loom_platform;
#[cfg(all(test, loom))]
mod loom_tests;
mod padded;
mod parker;
mod per_process;
mod platform;
mod reading;
pub mod user;
mod watch_length;

pub use fields::Fields;
pub use host::{
    ChildCommand, CpuClock, Host, HostCell, HostThread, affinity, is_privileged, set_affinity,
    stack_pointer, thread_cpu_time,
};
#[cfg(feature = "faulty")]
pub use host::{Faults, Faulty, Start};
pub use lock::{Lock, LockGuard, SleepingLock};
#[cfg(loom)]
pub use loom_platform::{Loom, LoomAtomic, LoomCell, LoomThread};
pub use padded::{LINE_PAIR_BYTES, Padded, PerCpuCounter};
pub use parker::Parker;
pub use per_process::PerProcess;
pub use platform::{
    AffinityError, AtomicInt, AtomicPointer, ByteAtomics, DataCell, ForkHook, InheritError,
    LocalKey, LockedMemory, MemoryLockError, NodeMemory, NodeMemoryError, Placement, Platform,
    Policy, PolicyError, RealTime, RealTimeLimits, ReleaseMemory, SpawnError, ThreadHandle,
    ThreadId, ThreadSpec, ThreadUsage, Throttle, Time, WaitOutcome,
};
pub use reading::Reading;
pub use watch_length::WatchLength;

#[cfg(test)]
testing::watch!();
