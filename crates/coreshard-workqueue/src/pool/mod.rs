//! A pool: the workers of one pod, their intake, and who sleeps. `README.md` beside this file tells the
//! protocol.
//!
//! From the bottom up: what a worker or the pool is made of (`link` to `state`); the pool itself (`pool`); a
//! worker and what its thread knows (`context`, `frame`, `worker`); what is done to the pool's lists (`kick`,
//! `blocking`, `rescuer`, `push`); what a worker does (`claim`, `watch`, `idle`,
//! `react`, `cull`, `forks`, `run`); who sees to it all (`hogs`, `scan`, `monitor`, `members`, `set`).

mod accounts;
mod aside;
mod blocking;
mod charge;
mod check;
mod claim;
mod context;
mod crowd;
mod cull;
mod deque;
#[cfg(all(test, loom))]
mod deque_loom_tests;
mod expedite;
mod forks;
mod frame;
mod header;
mod help;
mod here;
mod hogs;
mod idle;
mod job;
mod jobs;
mod kick;
mod lead;
mod link;
mod links;
#[cfg(all(test, loom))]
mod loom_tests;
mod members;
mod monitor;
mod monitor_handle;
mod parts;
#[cfg(all(test, loom))]
mod parts_loom_tests;
mod patience;
mod placement;
#[expect(
    clippy::module_inception,
    reason = "the file is the pool's, the folder all that it is made of"
)]
mod pool;
mod push;
mod react;
mod rescuer;
mod run;
mod running;
mod scan;
mod seen;
mod serve;
mod set;
mod sizes;
mod slot;
mod spawned;
mod state;
mod stats;
mod team;
mod team_set;
mod watch;
mod whole_name;
mod worker;
mod worker_count;
mod yield_item;

pub(crate) use blocking::blocking_if_relieved;
pub use blocking::{Blocking, blocking};
pub(crate) use context::{OwnPool, SpawnPlace};
pub(crate) use deque::{Popped, Pushed};
pub(crate) use forks::CurrentWorker;
pub(crate) use frame::{Frame, Inside};
pub(crate) use header::Header;
pub(crate) use help::OpenScope;
pub(crate) use here::{WorkerPlace, is_worker, worker_here};
pub(crate) use job::{Job, execute};
pub(crate) use jobs::{Closure, JobBody, JobNumber, ListedJob, PartFifo};
pub(crate) use link::{LinkHead, QueueSide};
pub(crate) use links::LinkTag;
pub(crate) use monitor::{Follower, Monitor, Retiring};
pub(crate) use parts::Parts;
pub(crate) use pool::{Pool, PoolSettings};
pub(crate) use running::{
    innermost, inside, inside_forker, inside_item, inside_work, is_inside, is_waited_for_by,
    report_here, runs_work,
};
pub(crate) use serve::{wait_for_workers, wait_in_turns};
pub(crate) use set::{Lease, PoolSet, Route};
pub(crate) use sizes::{MAX_INJECTORS, MAX_WORKERS};
pub(crate) use spawned::Spawned;
pub(crate) use team::{WaitKind, is_taken};
pub(crate) use team_set::{NameMember, StartMember};
pub(crate) use whole_name::WholeName;
pub use yield_item::yield_item;
