//! The work queue's types and functions, on this machine.

// With the feature `testing`: this machine, or a simulated one, inside of a test.
use crate::Here as Host;

/// A workqueue on this machine; see [`coreshard_workqueue::Workqueue`].
pub type Workqueue = coreshard_workqueue::Workqueue<Host>;
/// A change of a live queue; see [`coreshard_workqueue::Change`].
pub type Change = coreshard_workqueue::Change<Host>;
/// Makes a [`Workqueue`]; see [`coreshard_workqueue::Builder`].
pub type Builder<'runtime> = coreshard_workqueue::Builder<'runtime, Host>;
/// A future that ends when its time has come; see [`coreshard_workqueue::Sleep`].
pub type Sleep = coreshard_workqueue::Sleep<Host>;
/// A future with a time limit; see [`coreshard_workqueue::Timeout`].
pub type Timeout<F> = coreshard_workqueue::Timeout<Host, F>;
/// Asks work to stop; see [`coreshard_workqueue::CancellationToken`].
pub type CancellationToken = coreshard_workqueue::CancellationToken<Host>;
/// Ends once its token is cancelled; see [`coreshard_workqueue::WaitForCancellation`].
pub type WaitForCancellation = coreshard_workqueue::WaitForCancellation<Host>;
/// A runtime on this machine; see [`coreshard_workqueue::Runtime`].
pub type Runtime = coreshard_workqueue::Runtime<Host>;
/// Makes a [`Runtime`]; see [`coreshard_workqueue::RuntimeBuilder`].
pub type RuntimeBuilder = coreshard_workqueue::RuntimeBuilder<Host>;
/// Queues an item when there is room; see [`coreshard_workqueue::QueueAsync`].
pub type QueueAsync<'queue, F> = coreshard_workqueue::QueueAsync<'queue, Host, F>;
/// The right to an item's result; see [`coreshard_workqueue::JoinHandle`].
pub type JoinHandle<T> = coreshard_workqueue::JoinHandle<Host, T>;
/// An item that was taken back before it had begun; see [`coreshard_workqueue::CancelledItem`].
pub type CancelledItem<T> = coreshard_workqueue::CancelledItem<Host, T>;
/// Tasks that are awaited together; see [`coreshard_workqueue::JoinSet`].
pub type JoinSet<T> = coreshard_workqueue::JoinSet<Host, T>;
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

/// Inside an item that computes for long: lets others go first that wait for its worker; see
/// [`coreshard_workqueue::yield_item`].
///
/// ```
/// let queue = coreshard::workqueue()?.name("primes").build()?;
/// let count = queue.submit(|| {
///     let mut primes = 0;
///     for number in 2..20_000_u32 {
///         primes += u32::from((2..number).take_while(|by| by * by <= number).all(|by| number % by != 0));
///         if number % 1_000 == 0 {
///             coreshard::yield_item();
///         }
///     }
///     primes
/// })?;
/// queue.queue(|| println!("does not wait for all of that"))?;
/// assert_eq!(count.join()?, 2_262);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn yield_item() -> bool {
    coreshard_workqueue::yield_item::<Host>()
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
