//! Where the calling code runs.

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
/// It stays on its thread. What it tells of the queue is that of the item that the thread is inside of
/// when it is asked.
#[derive(Clone, Copy)]
pub struct Current<P: Platform = Host> {
    place: WorkerPlace,
    /// Not `Send`: it is a thread's own.
    thread: PhantomData<*const P>,
}

/// Where the calling code runs: on which worker of which pool, inside an item of which queue.
///
/// `None` on a thread that is no worker. Everything that runs on a worker finds it: items, what they fork and
/// install, scopes, the polls of tasks, reusable items; hooks, too, which are inside no item. Reads what is the
/// thread's own, and takes no lock; `queue` and `runtime` count a reference.
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
    /// The pool, as [`PoolStats::id`](crate::PoolStats::id) names it.
    pub fn pool(&self) -> PoolId {
        self.place.pool
    }

    /// The pool's pod.
    pub fn pod(&self) -> PodId {
        self.place.pod
    }

    /// The worker's index among those of its pool: below 512, and another worker's when this one has gone. No two
    /// workers of a pool have one at the same time.
    pub fn worker(&self) -> usize {
        self.place.worker
    }

    /// True on the worker that a pool has in reserve ([`Builder::rescuer`](crate::Builder::rescuer)).
    pub fn is_rescuer(&self) -> bool {
        self.place.is_rescuer
    }

    /// The name of the queue whose item this is; `None` inside none.
    pub fn queue_name(&self) -> Option<String> {
        core_here::<P>().map(|core| core.name.clone())
    }

    /// A handle to that queue, to queue more on it. `None` inside no item, and where the queue's last handle is
    /// gone: then it takes nothing any more.
    pub fn queue(&self) -> Option<Workqueue<P>> {
        Workqueue::here()
    }

    /// The runtime of that queue; `None` inside no item.
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
