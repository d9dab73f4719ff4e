//! The work queue's types and functions, on this machine.

use coreshard_platform::Host;

/// A workqueue on this machine; see [`coreshard_workqueue::Workqueue`].
pub type Workqueue = coreshard_workqueue::Workqueue<Host>;
/// A change of a live queue; see [`coreshard_workqueue::Change`].
pub type Change = coreshard_workqueue::Change<Host>;
/// Makes a [`Workqueue`]; see [`coreshard_workqueue::Builder`].
pub type Builder<'runtime> = coreshard_workqueue::Builder<'runtime, Host>;
/// A future that ends when its time has come; see [`coreshard_workqueue::Sleep`].
pub type Sleep = coreshard_workqueue::Sleep<Host>;
/// A runtime on this machine; see [`coreshard_workqueue::Runtime`].
pub type Runtime = coreshard_workqueue::Runtime<Host>;
/// Makes a [`Runtime`]; see [`coreshard_workqueue::RuntimeBuilder`].
pub type RuntimeBuilder = coreshard_workqueue::RuntimeBuilder<Host>;
/// Queues an item when there is room; see [`coreshard_workqueue::QueueAsync`].
pub type QueueAsync<'queue, F> = coreshard_workqueue::QueueAsync<'queue, Host, F>;
/// The right to an item's result; see [`coreshard_workqueue::JoinHandle`].
pub type JoinHandle<T> = coreshard_workqueue::JoinHandle<Host, T>;
/// A scope for borrowed data; see [`coreshard_workqueue::WorkScope`].
pub type WorkScope<'scope, 'env> = coreshard_workqueue::WorkScope<'scope, 'env, Host>;

/// The right to the result of a scope's item; see [`coreshard_workqueue::ScopedJoinHandle`].
pub type ScopedJoinHandle<'scope, T> = coreshard_workqueue::ScopedJoinHandle<'scope, Host, T>;

/// A reusable work item; see [`coreshard_workqueue::Work`].
pub type Work = coreshard_workqueue::Work<Host>;
/// Work at a fixed rate; see [`coreshard_workqueue::Periodic`].
pub type Periodic = coreshard_workqueue::Periodic<Host>;

/// Calls `work`, which may block; on a worker's thread another worker runs meanwhile. See
/// [`coreshard_workqueue::blocking`].
pub fn blocking<R>(work: impl FnOnce() -> R) -> R {
    coreshard_workqueue::blocking::<Host, R>(work)
}

/// The worker that the calling code runs on; see [`coreshard_workqueue::Current`].
pub type Current = coreshard_workqueue::Current<Host>;

/// Where the calling code runs: on which worker of which pool, inside an item of which queue; `None` on a
/// thread that is no worker. See [`coreshard_workqueue::current`].
///
/// ```
/// let queue = coreshard::workqueue()?.name("mail").build()?;
/// let name = queue.submit(|| coreshard::current().expect("a worker").queue_name())?.join()?;
/// assert_eq!(name.as_deref(), Some("mail"));
/// assert!(coreshard::current().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn current() -> Option<Current> {
    coreshard_workqueue::current::<Host>()
}
