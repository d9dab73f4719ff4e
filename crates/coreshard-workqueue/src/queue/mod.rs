//! A workqueue: a name, attributes, and a pool link to each pool. `README.md` beside this file tells how
//! it changes while it is used.

mod backlog;
mod cancel;
mod change;
mod claimable;
mod generation;
mod generations;
mod handle;
mod install;
mod join_future;
mod limiter;
#[cfg(all(test, loom))]
mod loom_tests;
pub(crate) mod machine;
mod observed;
mod panics;
mod pool_link;
mod queue_core;
mod scope;
mod shared;
mod task_counts;
mod task_ref;
mod waiting_tasks;
mod workqueue;

pub use backlog::{Backlog, BacklogItem};
pub use cancel::CancelledItem;
pub use change::Change;
pub use handle::JoinHandle;
pub use panics::Panic;
pub(crate) use panics::Unclaimed;
pub(crate) use pool_link::{Entry, PoolLink, runs_item_of};
pub use scope::WorkScope;
pub(crate) use shared::{Origin, Shared};
pub(crate) use task_ref::TaskRef;
#[cfg(all(test, loom))]
pub(crate) use waiting_tasks::{ListedAt, WaitingTasks};
pub(crate) use waiting_tasks::{WaitingTable, WaitingTask};
pub use workqueue::Workqueue;
