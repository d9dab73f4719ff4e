//! Which worker this thread is.

use coreshard_platform::Platform;
use coreshard_topology::PodId;

use super::context::with_context;
use crate::insight::stats::PoolId;

/// A worker, by its pool and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkerPlace {
    pub(crate) pool: PoolId,
    pub(crate) pod: PodId,
    pub(crate) worker: usize,
    pub(crate) is_rescuer: bool,
}

/// That of the worker on this thread, if there is one.
#[inline]
pub(crate) fn worker_here<P: Platform>() -> Option<WorkerPlace> {
    with_context::<P, _>(|context| WorkerPlace {
        pool: context.pool.id,
        pod: context.pool.place.pod,
        worker: context.index,
        is_rescuer: context.pool.is_rescuers(context.index),
    })
}

/// True on a worker's thread.
#[inline]
pub(crate) fn is_worker<P: Platform>() -> bool {
    with_context::<P, _>(|_| ()).is_some()
}
