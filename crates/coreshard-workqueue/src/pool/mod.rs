//! A pool: the workers of one pod, their intake, and which of them sleep. `README.md` beside this file describes the
//! protocol. From the bottom up:
//!
//! | file | contents |
//! |---|---|
//! | `link`, `jobs` | a queue's side of a pool; the items that a thread is inside of; storage of forked jobs |
//! | `slots`, `forked_jobs`, `accounts` | words that other threads access: per worker, about forked jobs, CPU time |
//! | `shared`, `guests` | everything that is not under the pool's lock; the pool's view of the monitor |
//! | `idle_workers`, `roster`, `placement`, `waiting_items` | under the lock: sleepers, workers and the rescuer, their CPUs,
//! items |
//! | `state`, `wake_up` | everything under the lock, and what concerns several parts of it; which worker is woken or started |
//! | `spin`, `batching` | how long to stay awake; a worker's estimates about its items; how many workers to wake at once |
//! | `pool` | the pool: its lock, how items arrive and how workers are woken |
//! | `context`, `job`, `current` | queries from a worker's thread, and the worker as forking code sees it |
//! | `team`, `blocking`, `help_while_waiting` | a team's members; how a worker blocks; how a waiter runs subtasks |
//! | `worker` | a worker's thread: its loop, how it finds work and sleeps |
//! | `monitor` | undeclared blocking, hogs, stalls, broken invariants |
//! | `start`, `set`, `members` | how workers start and exit: of one pool, of a set of pools, of a team |

mod accounts;
mod batching;
mod blocking;
mod context;
mod current;
mod forked_jobs;
mod guests;
mod help_while_waiting;
mod idle_workers;
mod job;
mod jobs;
mod link;
#[cfg(all(test, loom))]
mod loom_tests;
mod members;
mod monitor;
mod placement;
#[expect(
    clippy::module_inception,
    reason = "the file is the pool's, the folder all that it is made of"
)]
mod pool;
mod roster;
mod set;
mod shared;
mod slots;
mod spin;
mod start;
mod state;
mod team;
mod waiting_items;
mod wake_up;
mod worker;

pub(crate) use batching::WakeCost;
pub use blocking::{Blocking, blocking, yield_item};
pub(crate) use blocking::{blocking_if_relieved, wait_for_workers, wait_in_turns};
pub(crate) use context::{
    OwnPool, SpawnPlace, WorkerPlace, innermost, inside, inside_forker, inside_item, inside_work,
    is_inside, is_waited_for_by, is_worker, report_here, runs_work, worker_here,
};
pub(crate) use current::{CurrentWorker, WaitKind};
pub(crate) use help_while_waiting::OpenScope;
pub(crate) use job::{Job, Spawned, execute};
pub(crate) use jobs::{
    Closure, Frame, Header, Inside, JobBody, JobId, JobNumber, ListedJob, PartFifo, Parts, Popped,
    Pushed,
};
pub(crate) use link::{LinkHead, LinkTag, QueueSide};
pub(crate) use members::{NameMember, StartMember, is_taken};
pub(crate) use monitor::{Follower, Monitor, Retiring};
pub(crate) use pool::Pool;
pub(crate) use set::{Lease, PoolSet, Route};
pub(crate) use shared::PoolSettings;
pub(crate) use slots::{MAX_INJECTORS, MAX_WORKERS};
pub(crate) use team::{call_member, inject, mail, with_pool_of};
