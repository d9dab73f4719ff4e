//! A runtime that lets work scale on many-core Linux machines: work queues whose pools follow the
//! cache, on this machine.
//!
//! ```
//! // On the process's runtime; `?` tells what this machine lacks.
//!
//! let queue = coreshard::workqueue()?.name("thumbnails").build()?;
//! // Fire and forget, in the pod of the CPU this runs on:
//! queue.queue(|| println!("on a worker"))?;
//! // With a result:
//! let sum = queue.submit(|| (1..=10).sum::<u32>())?;
//! assert_eq!(sum.join()?, 55);
//! // With borrowed data:
//! let mut halves = [0_u64; 2];
//! let (left, right) = halves.split_at_mut(1);
//! queue.scope(|scope| {
//!     scope.queue(|| left[0] = 1).expect("the queue is open");
//!     scope.queue(|| right[0] = 2).expect("the queue is open");
//! });
//! assert_eq!(halves, [1, 2]);
//! // Again and again without an allocation, now or later:
//! let refresh = coreshard::Work::new(|_work| println!("the thumbnails are old"));
//! refresh.queue_after(&queue, std::time::Duration::from_secs(60))?;
//! assert!(!refresh.queue(&queue)?, "it is pending already");
//! assert!(refresh.cancel());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Workqueue`] is made on the process's own runtime, which knows the machine's caches and
//! nodes, the CPUs that affinity and cpusets leave, and the cgroup's CPU quota. [`Runtime`] makes
//! others, on other CPUs or with other settings.

pub mod block;
#[cfg(feature = "insight")]
pub mod insight;
#[cfg(feature = "metrics")]
pub mod metrics;
mod process;
pub mod rt;

/// The guide to the work queue: its programs are compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/WORKQUEUE.md")]
struct Guide;

pub use coreshard_platform::Host;
pub use coreshard_topology as topology;
pub use coreshard_topology::{CpuId, CpuSet, NodeId, PodId, Scope, Topology};
pub use coreshard_workqueue::{
    Bug, BuildError, CpuHog, Forked, Hooks, Intake, MissedTick, NoWorker, Panic, PanicPolicy,
    ParseRungError, PoolId, PoolReport, PoolStats, Priority, QueueStats, QueueTally, QueueTimes,
    Refused, RefusedReason, RunningItem, RuntimeStats, Sampling, ShutdownTimeout, SleepError,
    Stall, Target, Task, TimeHistogram, Trouble, Wake, WorkError, WorkErrorReason, WouldDeadlock,
    YieldNow, yield_now,
};

#[cfg(feature = "insight")]
pub use insight::serve_insight;
pub use process::{RuntimeError, runtime, runtime_builder, workqueue};

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
/// The right to an item's result; see [`coreshard_workqueue::JoinHandle`].
pub type JoinHandle<T> = coreshard_workqueue::JoinHandle<Host, T>;
/// A scope for borrowed data; see [`coreshard_workqueue::WorkScope`].
pub type WorkScope<'scope, 'env> = coreshard_workqueue::WorkScope<'scope, 'env, Host>;

/// A reusable work item; see [`coreshard_workqueue::Work`].
pub type Work = coreshard_workqueue::Work<Host>;
/// Work at a fixed rate; see [`coreshard_workqueue::Periodic`].
pub type Periodic = coreshard_workqueue::Periodic<Host>;

/// Calls `work`, which may block; on a worker's thread another worker runs meanwhile. See
/// [`coreshard_workqueue::blocking`].
pub fn blocking<R>(work: impl FnOnce() -> R) -> R {
    coreshard_workqueue::blocking::<Host, R>(work)
}

/// Runs `a` and `b`, at once where another worker has time for `b`; see
/// [`coreshard_workqueue::join`].
///
/// ```
/// /// Sorts in place.
/// fn quicksort(numbers: &mut [u32]) {
///     if numbers.len() < 2 {
///         return;
///     }
///     let pivot = numbers.len() - 1;
///     let mut below = 0;
///     for at in 0..pivot {
///         if numbers[at] < numbers[pivot] {
///             numbers.swap(at, below);
///             below += 1;
///         }
///     }
///     numbers.swap(below, pivot);
///     let (left, right) = numbers.split_at_mut(below);
///     coreshard::join(|| quicksort(left), || quicksort(&mut right[1..]));
/// }
///
/// let queue = coreshard::workqueue()?.name("sort").build()?;
/// let mut numbers = [3, 1, 4, 1, 5, 9, 2, 6];
/// queue.install(|| quicksort(&mut numbers)).expect("the queue is open");
/// assert_eq!(numbers, [1, 1, 2, 3, 4, 5, 6, 9]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn join<A, B: Send>(a: impl FnOnce() -> A, b: impl FnOnce() -> B + Send) -> (A, B) {
    coreshard_workqueue::join::<Host, A, B>(a, b)
}
