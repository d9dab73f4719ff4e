//! The jobs of a team, as its lists hold them.

use std::ptr;

use coreshard_platform::Platform;

use crate::base::latch::Latch;
use crate::pool::{CurrentWorker, JobBody, ListedJob, Pool};

/// Returns the work that this thread does a part of, if it is a worker.
pub(super) fn within<P: Platform>() -> *const Latch<P> {
    CurrentWorker::<P>::here().map_or(ptr::null(), CurrentWorker::root)
}

/// Returns the number of members of the pool's team; for a queue's workers, how many may run at once.
pub(super) fn members<P: Platform>(pool: &Pool<P>) -> usize {
    match (pool.team(), CurrentWorker::<P>::here()) {
        (Some(team), _) => team.members,
        (None, Some(worker)) if worker.set() == pool.set() => worker.worker_limit(),
        (None, _) => pool.place.limit,
    }
}

/// Returns a job without a waiter.
pub(super) fn detached<P: Platform>(body: JobBody<P>) -> ListedJob<P> {
    ListedJob { body, root: ptr::null(), parts: ptr::null(), within: ptr::null() }
}

/// Calls a job without a waiter, on a member.
pub(super) fn call_detached<P: Platform>(op: impl FnOnce()) {
    let Some(worker) = CurrentWorker::<P>::here() else { unreachable!("members run it") };
    match worker.pool().team() {
        Some(team) => team.call(op),
        None => op(),
    }
}

/// A pointer to another thread's value, which that thread keeps while it waits for this one.
pub(super) struct Reach<T>(pub(super) *const T);

#[allow(unsafe_code)]
// SAFETY: it is a pointer; the code that follows it justifies why its target is alive, and may be used there.
unsafe impl<T> Send for Reach<T> {}
