//! A runtime that scales work on many-core Linux machines: work queues whose pools follow the machine's caches.
//!
//! ```
//! // On the process's runtime.
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
//! // Repeatedly without an allocation, now or later:
//! let refresh = coreshard::Work::new(|_work| println!("the thumbnails are old"));
//! refresh.queue_after(&queue, std::time::Duration::from_secs(60))?;
//! assert!(!refresh.queue(&queue)?, "it is pending already");
//! assert!(refresh.cancel());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`workqueue`] creates a [`Workqueue`] on the process's runtime, which uses the machine's caches and nodes, the CPUs
//! that affinity and cpusets allow, and the cgroup's CPU quota. [`Runtime`] creates queues on other CPUs or with other
//! settings.
//!
//! # Main types
//!
//! | type | purpose |
//! |---|---|
//! | [`Workqueue`] | a queue of work items, created by [`workqueue`] and a [`Builder`] |
//! | [`JoinHandle`], [`Task`] | the result of an item and of a future; [`JoinSet`] collects several tasks |
//! | [`Work`], [`Periodic`] | an item that is queued repeatedly, now, later or at a fixed rate |
//! | [`WorkScope`] | a scope whose items borrow |
//! | [`CancellationToken`] | requests cancellation |
//! | [`Runtime`] | a machine with limits and settings, created by [`runtime_builder`] and a [`RuntimeBuilder`] |
//! | [`Team`] | a fixed number of threads, each with an index |
//!
//! Types that depend on the machine have a parameter for it, with the default [`Host`]. Write `Workqueue` without it.
//!
//! The [`guide`] has programs for fifteen common tasks, and tables for users of rayon, tokio and the kernel's
//! workqueue.
//!
//! # Features
//!
//! Queues need no feature. No feature changes a type or the behaviour of a queue. Each feature adds names, and the
//! crates that these need.
//!
//! | feature | for |
//! |---|---|
//! | `block` | [`block`]: files and devices over io_uring |
//! | `rt` | [`rt`]: real time, fixed priorities |
//! | `insight` | [`insight`]: a socket at which `coreshard top` sees this process's queues and pools |
//! | `metrics` | [`integration::metrics`]: counts of queues and pools for the facade of the crate `metrics` |
//! | `futures` | `futures_task::Spawn` for [`Workqueue`] |
//! | `hyper` | `hyper::rt::Executor` and `hyper::rt::Timer` for [`Workqueue`], and `Timer` for [`Runtime`] |
//! | `tokio` | [`integration::tokio`]: workers inside a tokio runtime, so that items and futures use its timers,
//! sockets and tasks |
//! | `tower` | [`integration::tower`]: tower services that run on a queue, with back-pressure and deadlines |
//! | `testing` | [`testing`]: deterministic tests and tests on many schedules; for dev-dependencies |
//! | `presets` | other machines by name: [`topology::Preset`], [`Topology::preset`], [`Topology::parse_machine`] |
//! | `hwloc` | other machines from the XML files of hwloc: [`Topology::from_hwloc_xml`] |

#![warn(missing_debug_implementations)]
#![doc(html_root_url = "https://docs.rs/coreshard/0.1.0")]

#[cfg(feature = "block")]
pub mod block;
pub mod guide;
#[cfg(feature = "insight")]
pub mod insight;
pub mod integration;
mod join;
mod join_all;
mod own_process;
mod process;
mod process_generation;
#[cfg(feature = "rt")]
pub mod rt;
mod runtime_error;
#[cfg(feature = "testing")]
mod test_machine;
#[cfg(feature = "testing")]
pub mod testing;
mod types;

/// The work queue guide. The documentation tests compile and run its programs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/WORKQUEUE.md")]
#[doc = include_str!("../../../docs/workqueue/waiting.md")]
#[doc = include_str!("../../../docs/workqueue/scheduling.md")]
#[doc = include_str!("../../../docs/workqueue/operating.md")]
struct Guide;

/// The guide to futures.
#[cfg(all(doctest, feature = "hyper", feature = "tokio", feature = "tower"))]
#[doc = include_str!("../../../docs/ASYNC.md")]
struct AsyncGuide;
/// The guide to tests.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/TESTING.md")]
struct TestingGuide;

pub use coreshard_platform::{ChildCommand, Host};
pub use coreshard_topology as topology;
pub use coreshard_topology::{CpuId, CpuSet, NodeId, PodId, Scope, Topology};
pub use coreshard_workqueue::{
    AbortHandle, Backlog, BacklogItem, Bug, BuildError, ConsumeBudget, CpuHog, Diagnostic,
    Diagnostic as Trouble, Dropped, Elapsed, Elements, EmbeddedFunction, EmbeddedWork,
    ForeignFunction, Forked, FunctionName, Hooks, Intake, MemberThread, MissedTick, NoWorker,
    Panic, PanicPolicy, ParseVariantError, PoolId, PoolReport, PoolStats, Priority, QueueStats,
    QueueTally, QueueTimes, Reactor, Refused, RefusedReason, RunningItem, RuntimeStats, Sampling,
    ScopePanics, SharedReactor, ShutdownTimeout, SleepError, Stall, Target, Task, TaskError,
    TaskResult, TeamError, TimeHistogram, WaitError, Wake, WorkError, WorkErrorReason,
    WouldDeadlock, YieldNow, Yielded, yield_now,
};
pub use types::{
    Blocking, Builder, CancellationToken, CancelledItem, Change, Current, EmbeddedWorks,
    JoinHandle, JoinSet, Periodic, QueueAsync, Reservation, ReserveAsync, Runtime, RuntimeBuilder,
    ScopedJoinHandle, Sleep, Team, TeamBuilder, TeamScope, Timeout, WaitForCancellation, Work,
    WorkScope, Workqueue, blocking, consume_budget, current, yield_item,
};

#[doc(hidden)]
pub use coreshard_platform::PerProcess;
#[cfg(feature = "insight")]
pub use insight::serve_insight;
pub use join::join;
pub use join_all::{join_all, join_each};
pub use process::{configure, runtime, runtime_builder, team, timeout, workqueue};
pub use process_generation::ProcessGeneration;
pub use runtime_error::RuntimeError;

#[cfg(test)]
testing::watch!();
