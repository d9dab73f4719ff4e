//! Real time on the simulated machine.

use std::io;
use std::panic::Location;
use std::time::Duration;

use coreshard_platform::{
    InheritError, LockedMemory, MemoryLockError, Platform, Policy, PolicyError, RealTime,
    RealTimeLimits, SpawnError, ThreadId, ThreadSpec, Time,
};

use crate::engine;
use crate::platform::{Sim, SimThread};

/// SCHED_DEADLINE precedes all fixed priorities. The end of its budget is not simulated.
const ABOVE_ALL: u8 = 100;

const fn priority(policy: Policy) -> u8 {
    match policy {
        Policy::Normal => 0,
        Policy::Fifo(priority) | Policy::RoundRobin(priority) => priority,
        Policy::Deadline { .. } => ABOVE_ALL,
    }
}

/// All priorities are granted, memory is never paged out, and nothing is throttled. Threads of equal priority
/// do not take turns under [`Policy::RoundRobin`].
impl RealTime for Sim {
    fn spawn_as(
        spec: ThreadSpec,
        policy: Policy,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<SimThread, SpawnError> {
        Self::spawn_at(spec, priority(policy), body)
    }

    fn set_policy(thread: ThreadId, policy: Policy) -> Result<(), PolicyError> {
        if engine::set_priority(thread, priority(policy)) {
            return Ok(());
        }
        let reason = io::Error::new(io::ErrorKind::NotFound, "there is no such thread");
        Err(PolicyError::refused(policy, reason, None))
    }

    fn policy() -> Policy {
        match engine::priority() {
            0 => Policy::Normal,
            ABOVE_ALL => Policy::Deadline { runtime: Duration::ZERO, period: Duration::ZERO },
            priority => Policy::Fifo(priority),
        }
    }

    fn sleep_to(moment: Time) {
        let left = moment - Self::now();
        if !left.is_zero() {
            Self::sleep(left);
        }
    }

    fn holder_word() -> u32 {
        Self::this_thread().0
    }

    #[track_caller]
    fn lock_inheriting(word: &Self::AtomicU32, until: Option<Time>) -> Result<(), InheritError> {
        let timeout = until.map(|until| until - Self::now());
        engine::lock_inheriting(word.native(), timeout, Location::caller())
    }

    #[track_caller]
    fn unlock_inheriting(word: &Self::AtomicU32) {
        engine::unlock_inheriting(word.native(), Location::caller());
    }

    fn real_time_limits() -> RealTimeLimits {
        RealTimeLimits { priority: 99, locked_bytes: None, throttle: None }
    }

    fn lock_memory() -> Result<LockedMemory, MemoryLockError> {
        Ok(LockedMemory::new(None))
    }

    fn page_faults() -> u64 {
        0
    }
}
