//! Storage of forked jobs. `README.md` beside this file describes the protocol.
//!
//! `deque` is a worker's own stack, `job_list` a list of jobs on the heap; `parts` counts subtasks.

mod deque;
#[cfg(all(test, loom))]
mod deque_loom_tests;
mod header;
mod job_list;
mod parts;
#[cfg(all(test, loom))]
mod parts_loom_tests;

pub(super) use deque::{CAPACITY, Deque, Owner, PartOf};
pub(crate) use deque::{Popped, Pushed};
pub(super) use header::JobKind;
pub(crate) use header::{Header, JobId};
pub(crate) use job_list::{Closure, JobBody, JobNumber, ListedJob, PartFifo};
pub(super) use job_list::{Fifo, Found, JobList, fifo};
pub(crate) use parts::Parts;
pub(super) use parts::{MAX_IN_A_ROW, Tickets};
