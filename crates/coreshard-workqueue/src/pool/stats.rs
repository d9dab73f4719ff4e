//! What a pool tells of itself.

use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Platform};

use super::pool::Pool;
use super::sizes::Injectors;
use super::state::Worklist;
use crate::insight::stats::PoolStats;

impl<P: Platform> Pool<P> {
    pub(crate) fn stats(&self) -> PoolStats {
        let cpu_time = self.charge();
        let state = self.lock();
        let counters = &state.cold().counters;
        let queued = match (&self.queue, &state.worklist) {
            (Some(queue), Worklist::LockFree(takers)) => queue.pushed(takers),
            _ => state.queued,
        };
        PoolStats {
            id: self.id,
            scope: self.attributes.scope,
            pod: self.place.pod,
            cpus: self.place.cpus.clone(),
            node: self.place.node,
            worker_limit: self.place.limit,
            workers: state.alive,
            idle_workers: state.idle_count(),
            blocked_workers: state.blocked,
            queued,
            run: self.ran.load(Relaxed),
            kicks: state.kicks,
            coalesced_kicks: state.coalesced_kicks,
            wakeups: self.wakeups.load(Relaxed),
            repatriated: counters.repatriated,
            stolen: counters.stolen,
            presumed_blocked: counters.presumed_blocked,
            hand_overs: counters.hand_overs,
            cpu_time,
            cpu_hogs: counters.cpu_hogs,
            rescues: counters.rescues,
            refused_workers: counters.refused_workers,
            failed_worker_starts: counters.failed_worker_starts,
            lock_holds: counters.lock_holds,
            lock_hold_ns: counters.lock_hold_ns,
            lock_hold_max_ns: counters.lock_hold_max_ns,
            intake_bytes: self.queue.as_ref().map_or(0, Injectors::held_bytes),
        }
    }
}
