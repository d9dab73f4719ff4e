//! The platform services that real-time runtimes need in addition.

use std::time::Duration;

use crate::{
    ByteAtomics, MemoryLockError, Policy, PolicyError, SpawnError, ThreadId, ThreadSpec, Time,
};

/// A platform whose threads may have fixed priorities.
pub trait RealTime: ByteAtomics {
    /// Starts a thread as [`Platform::spawn`](crate::Platform::spawn) does.
    ///
    /// Returns once it runs with `policy`, read back, and its stack is in memory. Threads and processes that
    /// it starts are scheduled normally.
    ///
    /// # Errors
    /// As [`Platform::spawn`](crate::Platform::spawn), and if the policy cannot be set.
    fn spawn_as(
        spec: ThreadSpec,
        policy: Policy,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<Self::Thread, SpawnError>;

    /// Sets the policy of a thread of this process, and reads it back.
    ///
    /// # Errors
    /// If there is no such thread, or if the policy is refused.
    fn set_policy(thread: ThreadId, policy: Policy) -> Result<(), PolicyError>;

    /// Sets the policy of the calling thread for a while.
    ///
    /// The policy that its new threads and processes inherit is unchanged. In contrast,
    /// [`set_policy`](Self::set_policy) makes them begin at normal priority.
    ///
    /// # Errors
    /// If the policy is refused.
    fn set_own_policy(policy: Policy) -> Result<(), PolicyError> {
        Self::set_policy(Self::this_thread(), policy)
    }

    /// Returns the calling thread's policy, without any inherited priority.
    fn policy() -> Policy;

    /// Sleeps until a moment of the monotonic clock.
    fn sleep_to(moment: Time);

    /// Returns the number that names the calling thread as the holder of a priority-inheritance lock: not 0,
    /// and below 2³⁰. Cheap.
    fn holder_word() -> u32;

    /// Takes a priority-inheritance lock whose word was not 0.
    ///
    /// Sleeps until it is free, and lends the calling thread's priority to the holder meanwhile. The word
    /// then has the caller's [`holder_word`](Self::holder_word) in its low 30 bits.
    ///
    /// # Errors
    /// If the time runs out, or if the wait would never end.
    fn lock_inheriting(word: &Self::AtomicU32, until: Option<Time>) -> Result<(), InheritError>;

    /// Releases a priority-inheritance lock whose word held more than the holder's number.
    ///
    /// Hands it to the waiter with the highest priority, and drops the inherited priority.
    fn unlock_inheriting(word: &Self::AtomicU32);

    /// Returns the limits of this process.
    fn real_time_limits() -> RealTimeLimits;

    /// Locks all present and future memory of the process, so that it is not paged out, until the returned
    /// value is dropped.
    ///
    /// # Errors
    /// If the limit on locked memory is too low.
    fn lock_memory() -> Result<LockedMemory, MemoryLockError>;

    /// Returns the calling thread's page faults so far, minor and major.
    fn page_faults() -> u64;
}

/// A process's limits for real-time scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealTimeLimits {
    /// The highest fixed priority that is permitted; 0 for none.
    pub priority: u8,
    /// The amount of memory that may be locked, in bytes; `None` for no limit.
    pub locked_bytes: Option<u64>,
    /// The time in each period that all real-time threads of a CPU may run; `None` for no limit.
    pub throttle: Option<Throttle>,
}

/// The throttle of real-time threads on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// How long they may run in a period.
    pub runtime: Duration,
    /// The period.
    pub period: Duration,
}

impl Throttle {
    /// Returns the fraction of a CPU that real-time threads may use, 0 to 1.
    pub fn share(&self) -> f64 {
        self.runtime.as_secs_f64() / self.period.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// The error when a priority-inheritance lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InheritError {
    /// The time ran out.
    TimedOut,
    /// The caller holds the lock, or waits for itself through other locks.
    WouldDeadlock,
    /// The holder thread has ended, so the lock will never be released.
    HolderGone,
    /// The platform has no such locks.
    Unsupported,
}

/// Proof that memory is locked. Unlocks it when dropped, unless it was locked before.
#[derive(Debug)]
pub struct LockedMemory {
    unlock: Option<fn()>,
}

impl LockedMemory {
    /// Creates a value that calls `unlock` when it is dropped.
    pub fn new(unlock: Option<fn()>) -> Self {
        Self { unlock }
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        if let Some(unlock) = self.unlock {
            unlock();
        }
    }
}
