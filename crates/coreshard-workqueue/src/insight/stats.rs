//! Statistics of queues and pools.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use coreshard_topology::{CpuSet, NodeId, PodId, Scope};

use crate::insight::{QueueTally, QueueTimes};

/// Identifies a pool among all that the process has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u32);

impl PoolId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(NEXT.fetch_add(1, Relaxed))
    }
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Statistics of a runtime's queues and pools.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RuntimeStats {
    /// The queues, oldest first.
    pub queues: Vec<QueueStats>,
    /// The pools, each once, even if several queues share it.
    pub pools: Vec<PoolStats>,
}

/// Statistics of a queue, and of the pools that it uses (which may serve other queues as well).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueStats {
    /// The queue's name.
    pub name: String,
    /// Which CPUs share a pool.
    pub scope: Scope,
    /// Accepted items.
    pub queued: u64,
    /// Finished items. Workers count in batches, so the newest may be missing until their worker has run all items that it has
    /// claimed.
    pub run: u64,
    /// If the queue has a limit: items in the pools. 0 without one.
    pub active: u64,
    /// If the queue has a limit, or is frozen: items that wait for their turn.
    pub waiting: u64,
    /// Nothing begins until the queue is thawed.
    pub is_frozen: bool,
    /// How many items may wait to begin, if that is bounded ([`Builder::capacity`](crate::Builder::capacity)).
    pub capacity: Option<u64>,
    /// If the queue has a capacity: items that were accepted and have not begun. 0 without one.
    pub capacity_used: u64,
    /// If the queue has a capacity: producers that wait for room, threads and futures.
    pub waiting_producers: u64,
    /// If the queue has a capacity: items that were rejected because it was full, by `try_queue` and the like.
    pub refused: u64,
    /// CPU time, CPU hogs, hand-overs, rescues.
    pub tally: QueueTally,
    /// How long items waited and ran, if that is measured.
    pub times: Option<QueueTimes>,
    /// The pools, by pod.
    pub pools: Vec<PoolStats>,
}

impl QueueStats {
    /// Statistics of a queue that has neither limit nor capacity, and measures nothing.
    pub(crate) fn plain(
        name: &str,
        scope: Scope,
        (queued, run): (u64, u64),
        pools: Vec<PoolStats>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            scope,
            queued,
            run,
            active: 0,
            waiting: 0,
            is_frozen: false,
            capacity: None,
            capacity_used: 0,
            waiting_producers: 0,
            refused: 0,
            tally: QueueTally::default(),
            times: None,
            pools,
        }
    }

    /// Items that were accepted and have not finished. As for [`run`](Self::run), this includes finished items that a worker
    /// has not counted yet.
    pub fn in_flight(&self) -> u64 {
        self.queued.saturating_sub(self.run)
    }

    /// The sum of the pools' counts, under the id of the first pool and of its pod. The longest hold is the longest of
    /// all; the node is set if all have the same.
    ///
    /// # Panics
    /// In a process that was forked from the one with the queue's workers, since it has no pools.
    pub fn total(&self) -> PoolStats {
        let mut pools = self.pools.iter();
        let first = pools.next().expect("a queue has pools in the process that made it").clone();
        pools.fold(first, |mut sum, pool| {
            sum.cpus = sum.cpus.union(&pool.cpus);
            sum.node = sum.node.filter(|node| pool.node == Some(*node));
            sum.worker_limit += pool.worker_limit;
            sum.workers += pool.workers;
            sum.idle_workers += pool.idle_workers;
            sum.blocked_workers += pool.blocked_workers;
            sum.queued += pool.queued;
            sum.run += pool.run;
            sum.kicks += pool.kicks;
            sum.coalesced_kicks += pool.coalesced_kicks;
            sum.wakeups += pool.wakeups;
            sum.repatriated += pool.repatriated;
            sum.stolen += pool.stolen;
            sum.guests += pool.guests;
            sum.presumed_blocked += pool.presumed_blocked;
            sum.hand_overs += pool.hand_overs;
            sum.cpu_time += pool.cpu_time;
            sum.cpu_hogs += pool.cpu_hogs;
            sum.rescues += pool.rescues;
            sum.refused_workers += pool.refused_workers;
            sum.failed_worker_starts += pool.failed_worker_starts;
            sum.lock_holds += pool.lock_holds;
            sum.lock_hold_ns += pool.lock_hold_ns;
            sum.lock_hold_max_ns = sum.lock_hold_max_ns.max(pool.lock_hold_max_ns);
            sum.intake_bytes += pool.intake_bytes;
            sum
        })
    }
}

/// Statistics of a pool since it was made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolStats {
    /// Its id in the process.
    pub id: PoolId,
    /// The CPUs that share a pool, in the set that it belongs to.
    pub scope: Scope,
    /// Its pod.
    pub pod: PodId,
    /// The pod's CPUs.
    pub cpus: CpuSet,
    /// The pod's node, if known.
    pub node: Option<NodeId>,
    /// How many workers may run at once: the pod's CPUs, or fewer under a CPU quota.
    pub worker_limit: usize,
    /// Workers that exist.
    pub workers: usize,
    /// Workers that sleep.
    pub idle_workers: usize,
    /// Workers that count as blocked: they wait inside an item, by their own declaration or as found by the
    /// monitor; or they hog a CPU; or they run their last hook.
    pub blocked_workers: usize,
    /// Items that were added, of all queues that share the pool.
    pub queued: u64,
    /// Items that workers ran.
    pub run: u64,
    /// Times a worker was chosen to be woken.
    pub kicks: u64,
    /// Times a kick found that the chosen worker was already chosen.
    pub coalesced_kicks: u64,
    /// Wake-ups that took a system call: the woken worker slept.
    pub wakeups: u64,
    /// Workers that woke up outside their pod and were brought back.
    pub repatriated: u64,
    /// Times a worker stole items that another one had claimed.
    pub stolen: u64,
    /// Visits of workers of other pods that helped, since all workers here were busy and many items waited.
    pub guests: u64,
    /// Times the monitor found a worker inside an item, using no CPU time, while items waited.
    pub presumed_blocked: u64,
    /// Times a worker's place was handed over to another one, since its item blocked: by its own declaration,
    /// or as found by the monitor.
    pub hand_overs: u64,
    /// CPU time of all workers that the pool has had, including their overhead. Zero on a platform that cannot measure it.
    pub cpu_time: Duration,
    /// Times the monitor found a worker inside an item, using a CPU for long, while items waited.
    pub cpu_hogs: u64,
    /// Times the rescuer was called, since a worker could not be started.
    pub rescues: u64,
    /// Times one more worker was wanted, but the pool or the runtime had its maximum.
    pub refused_workers: u64,
    /// Workers that could not be started.
    pub failed_worker_starts: u64,
    /// Times the pool's lock was held; counted only if lock holds are measured.
    pub lock_holds: u64,
    /// Total time it was held, in nanoseconds; measured as above.
    pub lock_hold_ns: u64,
    /// Longest time it was held, in nanoseconds; measured as above.
    pub lock_hold_max_ns: u64,
    /// Memory that the lock-free intake holds, in bytes.
    pub intake_bytes: usize,
}
