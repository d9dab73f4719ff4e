//! What a team is given to do, as its lists have it.

use std::ptr;

use coreshard_platform::Platform;

use crate::base::latch::Latch;
use crate::pool::{CurrentWorker, JobBody, ListedJob, Pool};

/// What this thread does a part of, if it is a worker.
pub(super) fn within<P: Platform>() -> *const Latch<P> {
    CurrentWorker::<P>::here().map_or(ptr::null(), CurrentWorker::root)
}

/// How many members the pool's team has; of a queue's workers, how many may run at once.
pub(super) fn members<P: Platform>(pool: &Pool<P>) -> usize {
    match (pool.team(), CurrentWorker::<P>::here()) {
        (Some(team), _) => team.members,
        (None, Some(worker)) if worker.set() == pool.set() => worker.worker_limit(),
        (None, _) => pool.place.limit,
    }
}

/// A job that nobody waits for.
pub(super) fn detached<P: Platform>(body: JobBody<P>) -> ListedJob<P> {
    ListedJob { body, root: ptr::null(), parts: ptr::null(), within: ptr::null() }
}

/// Calls what nobody waits for, on a member.
pub(super) fn call_detached<P: Platform>(op: impl FnOnce()) {
    let Some(worker) = CurrentWorker::<P>::here() else { unreachable!("members run it") };
    match worker.pool().team() {
        Some(team) => team.call(op),
        None => op(),
    }
}

/// Reaches from another thread what somebody keeps who waits for that one.
pub(super) struct Reach<T>(pub(super) *const T);

#[allow(unsafe_code)]
// SAFETY: it is a pointer; whoever follows it says why what it leads to is there, and may be used there.
unsafe impl<T> Send for Reach<T> {}
