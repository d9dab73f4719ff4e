//! Statistics of a queue and its pools.

use std::ffi::c_int;

use crate::error::{Failure, guard};
use crate::queue::CsWorkqueue;

/// Counts of a queue, and of its pools together.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CsWorkqueueStats {
    /// Accepted works.
    pub queued: u64,
    /// Finished works. Workers count in batches, so the newest may be missing.
    pub run: u64,
    /// Works in the pools, if the queue has a limit.
    pub active: u64,
    /// Works that wait for their turn, if the queue has a limit or is frozen.
    pub waiting: u64,
    /// Whether the queue is frozen.
    pub is_frozen: u64,
    /// Number of pools.
    pub pools: u64,
    /// Workers of the pools, which may serve other queues as well; idle ones; and ones blocked in a work.
    pub workers: u64,
    pub idle_workers: u64,
    pub blocked_workers: u64,
    /// Works that used a CPU for long while others waited.
    pub cpu_hogs: u64,
    /// CPU time of the pools' workers, in nanoseconds.
    pub cpu_time_ns: u64,
}

/// Fills in the counts. `size` is `sizeof(struct cs_workqueue_stats)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_workqueue_stats(
    queue: *mut CsWorkqueue,
    stats: *mut CsWorkqueueStats,
    size: usize,
) -> c_int {
    guard(|| {
        let queue = &CsWorkqueue::of(queue)?.queue;
        if stats.is_null() {
            return Err(Failure::invalid("the stats are a null pointer"));
        }
        let seen = queue.stats();
        let mut told = CsWorkqueueStats {
            queued: seen.queued,
            run: seen.run,
            active: seen.active,
            waiting: seen.waiting,
            is_frozen: seen.is_frozen.into(),
            pools: seen.pools.len() as u64,
            ..CsWorkqueueStats::default()
        };
        if !seen.pools.is_empty() {
            let total = seen.total();
            told.workers = total.workers as u64;
            told.idle_workers = total.idle_workers as u64;
            told.blocked_workers = total.blocked_workers as u64;
            told.cpu_hogs = total.cpu_hogs;
            told.cpu_time_ns = u64::try_from(total.cpu_time.as_nanos()).unwrap_or(u64::MAX);
        }
        // SAFETY: C guarantees that this many bytes exist.
        unsafe {
            stats.cast::<u8>().write_bytes(0, size);
            let known = size.min(size_of::<CsWorkqueueStats>());
            stats.cast::<u8>().copy_from((&raw const told).cast(), known);
        }
        Ok(0)
    })
}
