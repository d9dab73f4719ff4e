//! A workqueue: a name, attributes, and a pool link to each pool. `README.md` beside this file tells how
//! it changes while it is used.

mod backlog;
mod backpressure;
mod cancel;
mod capacity;
mod change;
mod claimable;
mod each_pod;
mod foreign;
mod generation;
mod generations;
mod handle;
mod here;
mod install;
mod join_future;
mod limiter;
#[cfg(all(test, loom))]
mod loom_tests;
mod loops;
pub(crate) mod machine;
mod observed;
mod panics;
mod pool_link;
mod queue_core;
mod reservation;
mod scope;
mod scope_panics;
mod scoped;
mod set_aside;
mod shared;
mod task_counts;
mod task_ref;
mod waiting_tasks;
mod watched;
mod workqueue;

pub use backlog::{Backlog, BacklogItem};
pub use backpressure::QueueAsync;
pub use cancel::CancelledItem;
pub(crate) use capacity::WhenFull;
pub use change::Change;
pub use foreign::ForeignFunction;
pub use handle::JoinHandle;
pub(crate) use here::{machine_here, queue_name_here};
pub use panics::Panic;
pub(crate) use panics::Unclaimed;
pub(crate) use pool_link::{Entry, PoolLink, runs_item_of};
pub use reservation::{Reservation, ReserveAsync};
pub use scope::WorkScope;
pub use scope_panics::ScopePanics;
pub use scoped::ScopedJoinHandle;
pub(crate) use shared::{Origin, Shared};
pub(crate) use task_ref::TaskRef;
#[cfg(all(test, loom))]
pub(crate) use waiting_tasks::{ListedAt, WaitingTasks};
pub(crate) use waiting_tasks::{WaitingTable, WaitingTask};
pub use workqueue::Workqueue;
