//! The interface of real-time runtimes to a platform, beyond that of every runtime.

use std::time::Duration;

use crate::{
    ByteAtomics, MemoryLockError, Policy, PolicyError, SpawnError, ThreadId, ThreadSpec, Time,
};

/// A platform whose threads may have fixed priorities.
pub trait RealTime: ByteAtomics {
    /// Starts a thread as [`Platform::spawn`](crate::Platform::spawn) does, and returns when it runs
    /// with `policy`, read back, and its stack is in memory. Threads and processes that it starts are
    /// scheduled normally.
    ///
    /// # Errors
    /// As [`Platform::spawn`](crate::Platform::spawn), and if the policy cannot be had.
    fn spawn_as(
        spec: ThreadSpec,
        policy: Policy,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<Self::Thread, SpawnError>;

    /// Gives a thread of this process another policy, and reads it back.
    ///
    /// # Errors
    /// If there is no such thread, or the policy is refused.
    fn set_policy(thread: ThreadId, policy: Policy) -> Result<(), PolicyError>;

    /// Gives the calling thread another policy for a while. What its threads and processes inherit from it
    /// stays as it is, where [`set_policy`](Self::set_policy) has them begin at normal priority.
    ///
    /// # Errors
    /// If the policy is refused.
    fn set_own_policy(policy: Policy) -> Result<(), PolicyError> {
        Self::set_policy(Self::this_thread(), policy)
    }

    /// How the calling thread is scheduled, without what it was lent.
    fn policy() -> Policy;

    /// Sleeps until a moment of the monotonic clock.
    fn sleep_to(moment: Time);

    /// The number by which a lock with priority inheritance names the calling thread as its holder:
    /// not 0, and below 2³⁰. Cheap.
    fn holder_word() -> u32;

    /// Takes a lock with priority inheritance whose word was not 0: sleeps until it is free, and
    /// lends the calling thread's priority to its holder meanwhile. The word then has the caller's
    /// [`holder_word`](Self::holder_word) in its low 30 bits.
    ///
    /// # Errors
    /// If the time is over, or the wait would never end.
    fn lock_inheriting(word: &Self::AtomicU32, until: Option<Time>) -> Result<(), InheritError>;

    /// Frees a lock with priority inheritance whose word was not the holder's alone: hands it to the
    /// waiter of the highest priority, and returns what was borrowed.
    fn unlock_inheriting(word: &Self::AtomicU32);

    /// The limits of this process.
    fn real_time_limits() -> RealTimeLimits;

    /// Keeps all memory of the process, present and future, from being paged out, until the value
    /// returned is dropped.
    ///
    /// # Errors
    /// If the limit on locked memory is too low.
    fn lock_memory() -> Result<LockedMemory, MemoryLockError>;

    /// The page faults of the calling thread so far, minor and major.
    fn page_faults() -> u64;
}

/// A process's limits for real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealTimeLimits {
    /// The highest fixed priority; 0 for none.
    pub priority: u8,
    /// How much memory may be locked, in bytes; `None` for all.
    pub locked_bytes: Option<u64>,
    /// How much of a period real-time threads may run on a CPU together; `None` if that is not
    /// limited.
    pub throttle: Option<Throttle>,
}

/// The limit of real-time threads on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// How long they may run in a period.
    pub runtime: Duration,
    /// The period.
    pub period: Duration,
}

impl Throttle {
    /// The part of a CPU that they may have, 0 to 1.
    pub fn share(&self) -> f64 {
        self.runtime.as_secs_f64() / self.period.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Why a lock with priority inheritance was not had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InheritError {
    /// The time is over.
    TimedOut,
    /// The caller holds it, or waits for itself over other locks.
    WouldDeadlock,
    /// The thread that holds it has ended: it will never be let go of.
    HolderGone,
    /// The platform has no such locks.
    Unsupported,
}

/// Proof that memory is locked; dropped, it is unlocked, unless it was locked before.
#[derive(Debug)]
pub struct LockedMemory {
    unlock: Option<fn()>,
}

impl LockedMemory {
    /// Calls `unlock` when it is dropped.
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
