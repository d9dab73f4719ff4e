//! The handle of a periodic task, and what it shares with the task's thread.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, RealTime, Time};
use coreshard_topology::CpuId;

use super::periodic::PeriodicStats;

/// The last part of a long sleep: by a timer alone, not woken by a stop.
const LAST_SLEEP: Duration = Duration::from_millis(20);

pub(super) struct PeriodicControl<P: RealTime> {
    /// 1 once the task is to stop; its thread sleeps on this.
    pub(super) stops: P::AtomicU32,
    /// 1 once its thread is done.
    pub(super) over: P::AtomicU32,
    /// Its thread's id, once that runs.
    pub(super) thread: P::AtomicU32,
    /// In which process that is.
    pub(super) process_generation: u32,
    pub(super) counts: [P::AtomicU64; 4],
}

/// A periodic task. Dropped, the task goes on until the executor ends.
pub struct PeriodicHandle<P: RealTime> {
    pub(super) control: Arc<PeriodicControl<P>>,
    pub(super) cpu: CpuId,
}

impl<P: RealTime> PeriodicHandle<P> {
    /// The CPU it was put on.
    pub fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// What it has come to so far.
    pub fn stats(&self) -> PeriodicStats {
        let [activations, late, skipped, panics] =
            [0, 1, 2, 3].map(|at: usize| self.control.counts[at].load(Relaxed));
        PeriodicStats { activations, late, skipped, panics }
    }

    /// Stops it after the current activation, and waits for that, and until what it owns is dropped. Called by
    /// the task itself (its body, its hook, or a destructor of theirs), or in a process that was forked from its
    /// own, it does not wait.
    pub fn stop(self) -> PeriodicStats {
        self.control.stop();
        // While it is not over, no other thread has its thread's id.
        let is_itself = self.control.thread.load(Relaxed) == P::this_thread().0
            || P::process_generation() != self.control.process_generation;
        // Acquire pairs with the Release in `PeriodicGuard::drop`.
        while !is_itself && self.control.over.load(Acquire) == 0 {
            P::wait(&self.control.over, 0, None);
        }
        self.stats()
    }
}

impl<P: RealTime> fmt::Debug for PeriodicHandle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeriodicHandle")
            .field("cpu", &self.cpu)
            .field("stats", &self.stats())
            .finish()
    }
}

impl<P: RealTime> PeriodicControl<P> {
    pub(super) fn stop(&self) {
        self.stops.store(1, Release);
        P::wake_all(&raw const self.stops);
    }

    /// Sleeps until a moment. False where the task is to stop.
    pub(super) fn sleep_to(&self, moment: Time) -> bool {
        loop {
            if self.stops.load(Acquire) != 0 {
                return false;
            }
            let left = moment - P::now();
            if left <= LAST_SLEEP {
                P::sleep_to(moment);
                return self.stops.load(Acquire) == 0;
            }
            P::wait(&self.stops, 0, Some(left - LAST_SLEEP / 2));
        }
    }

    pub(super) fn count(&self, what: usize, times: u64) {
        self.counts[what].fetch_add(times, Relaxed);
    }
}
