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
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Workqueue`] is made on the process's own runtime, which knows the machine's caches and
//! nodes, the CPUs that affinity and cpusets leave, and the cgroup's CPU quota. [`Runtime`] makes
//! others, on other CPUs or with other settings.

mod process;
pub mod rt;

pub use coreshard_platform::Host;
pub use coreshard_topology as topology;
pub use coreshard_topology::{CpuId, CpuSet, NodeId, PodId, Scope, Topology};
pub use coreshard_workqueue::{
    BuildError, Hooks, Intake, Panic, ParseRungError, PoolStats, QueueStats, Refused,
    RefusedReason, ShutdownTimeout, Wake, WouldDeadlock,
};

pub use process::{RuntimeError, runtime, runtime_builder, workqueue};

/// A workqueue on this machine; see [`coreshard_workqueue::Workqueue`].
pub type Workqueue = coreshard_workqueue::Workqueue<Host>;
/// Makes a [`Workqueue`]; see [`coreshard_workqueue::Builder`].
pub type Builder<'runtime> = coreshard_workqueue::Builder<'runtime, Host>;
/// A runtime on this machine; see [`coreshard_workqueue::Runtime`].
pub type Runtime = coreshard_workqueue::Runtime<Host>;
/// Makes a [`Runtime`]; see [`coreshard_workqueue::RuntimeBuilder`].
pub type RuntimeBuilder = coreshard_workqueue::RuntimeBuilder<Host>;
/// The right to an item's result; see [`coreshard_workqueue::JoinHandle`].
pub type JoinHandle<T> = coreshard_workqueue::JoinHandle<Host, T>;
/// A scope for borrowed data; see [`coreshard_workqueue::WorkScope`].
pub type WorkScope<'scope, 'env> = coreshard_workqueue::WorkScope<'scope, 'env, Host>;

/// Calls `work`, which may block; on a worker's thread another worker runs meanwhile. See
/// [`coreshard_workqueue::blocking`].
pub fn blocking<R>(work: impl FnOnce() -> R) -> R {
    coreshard_workqueue::blocking::<Host, R>(work)
}
