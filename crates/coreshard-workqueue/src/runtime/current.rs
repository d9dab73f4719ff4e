//! The worker, pool and queue of the calling code.

use std::fmt;
use std::marker::PhantomData;

use coreshard_platform::{Host, Platform};
use coreshard_topology::PodId;

use super::Runtime;
use crate::insight::stats::PoolId;
use crate::pool::{WorkerPlace, worker_here};
use crate::queue::{Workqueue, core_here};

/// The worker that the calling code runs on; see [`current`].
///
/// It stays on its thread. The queue that it returns is that of the item that the thread is running at the time of the call.
#[derive(Clone, Copy)]
pub struct Current<P: Platform = Host> {
    place: WorkerPlace,
    /// Not `Send`: it belongs to a thread.
    thread: PhantomData<*const P>,
}

/// Returns the worker that the calling code runs on, which gives its pool and the queue of its item.
///
/// Returns `None` on a thread that is not a worker. All code on a worker finds it: items, their forks and installs, scopes, the
/// polls of tasks, and reusable items; also hooks, which are inside no item. It reads only thread-local state, and takes no
/// lock; `queue` and `runtime` count a reference.
///
/// # Examples
/// ```
/// # use coreshard_platform::Host;
/// # use coreshard_topology::{Scope, Topology};
/// # use coreshard_workqueue::{Runtime, current};
/// # let topology = Topology::of_cpus(&coreshard_platform::affinity()?, "here".to_owned())?;
/// # let runtime = Runtime::<Host>::builder(topology).build()?;
/// let queue = runtime.workqueue().name("mail").scope(Scope::System).build()?;
/// let (name, pod) = queue.submit(|| {
///     let here = current::<Host>().expect("an item is on a worker");
///     (here.queue_name(), here.pod())
/// })?.join()?;
/// assert_eq!(name.as_deref(), Some("mail"));
/// assert_eq!(pod.0, 0);
/// assert!(current::<Host>().is_none(), "no worker");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn current<P: Platform>() -> Option<Current<P>> {
    worker_here::<P>().map(|place| Current { place, thread: PhantomData })
}

impl<P: Platform> Current<P> {
    /// Returns the pool, as [`PoolStats::id`](crate::PoolStats::id) names it.
    pub fn pool(&self) -> PoolId {
        self.place.pool
    }

    /// Returns the pool's pod.
    pub fn pod(&self) -> PodId {
        self.place.pod
    }

    /// Returns the worker's index in its pool: below 512, and reused after this worker has exited. Two workers of a pool never
    /// have the same index at the same time.
    pub fn worker(&self) -> usize {
        self.place.worker
    }

    /// Returns true on the worker that a pool has in reserve ([`Builder::rescuer`](crate::Builder::rescuer)).
    pub fn is_rescuer(&self) -> bool {
        self.place.is_rescuer
    }

    /// Returns the name of the item's queue; `None` outside of items.
    pub fn queue_name(&self) -> Option<String> {
        core_here::<P>().map(|core| core.name.clone())
    }

    /// Returns a handle to that queue, to queue more items on it. `None` outside of items, and if the queue's last handle was
    /// dropped, since it is then closed.
    pub fn queue(&self) -> Option<Workqueue<P>> {
        Workqueue::here()
    }

    /// Returns the runtime of that queue; `None` outside of items.
    pub fn runtime(&self) -> Option<Runtime<P>> {
        core_here::<P>()?.machine.upgrade().map(|machine| Runtime { machine })
    }
}

impl<P: Platform> fmt::Debug for Current<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current")
            .field("pool", &self.pool())
            .field("pod", &self.pod())
            .field("worker", &self.worker())
            .field("queue", &self.queue_name())
            .finish()
    }
}
