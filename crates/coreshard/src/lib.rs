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

mod aliases;
pub mod block;
#[cfg(feature = "insight")]
pub mod insight;
mod join;
#[cfg(feature = "metrics")]
pub mod metrics;
mod process;
pub mod rt;
#[cfg(feature = "testing")]
mod test_machine;
#[cfg(feature = "testing")]
pub mod testing;

/// The machine of the types in [`aliases`].
#[cfg(not(feature = "testing"))]
use coreshard_platform::Host as Here;
#[cfg(feature = "testing")]
use test_machine::TestMachine as Here;

/// The guide to the work queue: its programs are compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/WORKQUEUE.md")]
struct Guide;

/// The guide to tests: as above.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/TESTING.md")]
struct TestingGuide;

pub use aliases::{
    Builder, CancellationToken, CancelledItem, Change, Current, JoinHandle, JoinSet, Periodic,
    QueueAsync, Runtime, RuntimeBuilder, ScopedJoinHandle, Sleep, Timeout, WaitForCancellation,
    Work, WorkScope, Workqueue, blocking, current, yield_item,
};
pub use coreshard_platform::Host;
pub use coreshard_topology as topology;
pub use coreshard_topology::{CpuId, CpuSet, NodeId, PodId, Scope, Topology};
pub use coreshard_workqueue::{
    AbortHandle, Backlog, BacklogItem, Bug, BuildError, CpuHog, Dropped, Elapsed, Elements, Forked,
    Hooks, Intake, MissedTick, NoWorker, Panic, PanicPolicy, ParseRungError, PoolId, PoolReport,
    PoolStats, Priority, QueueStats, QueueTally, QueueTimes, Refused, RefusedReason, RunningItem,
    RuntimeStats, Sampling, ScopePanics, ShutdownTimeout, SleepError, Stall, Target, Task,
    TaskError, TaskResult, TimeHistogram, Trouble, WaitError, Wake, WorkError, WorkErrorReason,
    WouldDeadlock, YieldNow, yield_now,
};

#[cfg(feature = "insight")]
pub use insight::serve_insight;
pub use join::join;
pub use process::{RuntimeError, configure, runtime, runtime_builder, timeout, workqueue};

#[cfg(test)]
testing::watch!();
