//! The platform trait: the services that Coreshard's runtimes need from the machine below them.
//!
//! [`Platform`] covers atomics, futexes, threads, the current CPU, a clock and node-local memory. A platform
//! is a zero-sized type with associated functions, so on [`Host`] every call inlines to hand-written code:
//! `Host`'s atomics *are* the standard library's. The same runtime code runs unchanged on other platforms: a
//! model checker in tests, and a simulated machine.
//!
//! Parts, and their dependencies:
//!
//! 1. The folder `platform/`: [`Platform`] and the types of its signatures, such as the traits of its atomics
//!    ([`AtomicInt`], [`AtomicPointer`]). It depends on no implementation.
//! 2. Building blocks that every runtime needs, generic over the platform: [`Lock`] (spins briefly, then
//!    parks), [`Parker`] (one permit per thread), [`PerCpuCounter`] (no shared line on write, exact sum on
//!    read), [`Padded`] (a value on its own cache lines), [`Reading`] (a read-side section: memory read in it
//!    is not freed meanwhile), [`WatchLength`] (how long to spin before sleeping).
//! 3. [`user`]: calls to users' code that catch its panics.
//! 4. [`Host`]: this machine, on Linux. With the feature `faulty`, also `Faulty`: this machine, with thread
//!    starts that fail when a test says so.
//!
//! Unsafe code is allowed file by file, here as in the other crates. Each block says why it is sound.

#![warn(missing_debug_implementations)]
#![doc(html_root_url = "https://docs.rs/coreshard-platform/0.1.0")]

#[cfg(not(target_os = "linux"))]
compile_error!("Coreshard supports only Linux: it uses futexes, sched_setaffinity and /sys");

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
    ChildCommand, CpuClock, Host, HostCell, HostThread, affinity, ends_with_parent, is_privileged,
    set_affinity, stack_pointer, thread_cpu_time, thread_cpu_wait,
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
    ThreadId, ThreadSpec, Throttle, Time, WaitOutcome,
};
pub use reading::Reading;
pub use watch_length::WatchLength;

#[cfg(test)]
testing::watch!();
