//! Work queues whose worker pools follow the cache, generic over the platform below.
//!
//! The path of an item: [`Workqueue::queue`] → the current CPU → its pod in the queue's scope → the
//! pool link of the queue and that pod's pool → the pool's intake → maybe a kick → a worker of the pod
//! → run → counted as finished at the pool link. That path has no hash look-up, allocates only for a
//! large closure, and takes no lock that is shared with CPUs outside the pod.
//!
//! Access rules:
//!
//! 1. Any thread may call the public functions; submitting touches the pod's intake and the
//!    pool link's `queued` word, and nothing else that is written by others.
//! 2. A pool's idle workers, its taker and its counters are under the pool's lock. With the
//!    lock-free intake producers never take that lock.
//! 3. The items that a worker has claimed are in its range, open to thieves of the same pool.
//! 4. A pool link lives until every item that was accepted through it is done.
//!
//! The `README.md` files in `intake`, `pool`, `queue`, `task`, `timers` and `work` describe the
//! protocols: states, steps, and why no item and no wake-up is lost.

#![warn(missing_debug_implementations)]
#![doc(html_root_url = "https://docs.rs/coreshard-workqueue/0.1.0")]

mod base;
mod callbacks;
mod config;
mod fork;
mod insight;
mod intake;
mod pool;
mod queue;
mod runtime;
mod task;
mod team;
mod timers;
mod work;

#[cfg(feature = "canaries")]
#[doc(hidden)]
pub use base::canary;
pub use base::error::{
    BuildError, Dropped, Forked, Refused, RefusedReason, ShutdownTimeout, WaitError, WouldDeadlock,
};
pub use base::target::Target;
pub use base::variants::{Intake, ParseVariantError, Wake};
pub use config::attributes::{Hooks, Priority};
pub use config::reactor::{Reactor, SharedReactor};
pub use config::request::PanicPolicy;
pub use fork::{Elements, join, join_or_else};
pub use insight::diagnostic::{
    Bug, CpuHog, Diagnostic, Diagnostic as Trouble, NoWorker, PoolReport, RunningItem, Stall,
};
pub use insight::stats::{PoolId, PoolStats, QueueStats, RuntimeStats};
pub use insight::{QueueTally, QueueTimes, Sampling, TimeHistogram};
pub use pool::{Blocking, blocking, yield_item};
pub use queue::{
    Backlog, BacklogItem, CancelledItem, Change, ForeignFunction, JoinHandle, Panic, QueueAsync,
    Reservation, ReserveAsync, ScopePanics, ScopedJoinHandle, WorkScope, Workqueue,
};
pub use runtime::{Builder, Current, Runtime, RuntimeBuilder, current};
pub use task::{
    AbortHandle, CancellationToken, ConsumeBudget, JoinSet, Task, TaskError, TaskResult,
    WaitForCancellation, YieldNow, consume_budget, yield_now,
};
pub use team::{
    MemberThread, Team, TeamBuilder, TeamError, TeamScope, Yielded, join_told, join_told_or_else,
};
pub use timers::{Elapsed, Sleep, SleepError, Timeout};
pub use work::{
    EmbeddedFunction, EmbeddedWork, EmbeddedWorks, FunctionName, MissedTick, Periodic, Work,
    WorkError, WorkErrorReason,
};

// The pools and teams still use the module's former name.

#[cfg(test)]
testing::watch!();
