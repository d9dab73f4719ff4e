//! Storage of forked jobs. `README.md` beside this file describes the protocol.
//!
//! `deque` is a worker's own stack, `job_list` what a thief reads of a job, and a list of jobs on the heap; `parts` counts
//! subtasks; `frame` is an item that a thread is inside of.

mod deque;
#[cfg(all(test, loom))]
mod deque_loom_tests;
mod frame;
mod job_list;
mod parts;
#[cfg(all(test, loom))]
mod parts_loom_tests;

pub(super) use deque::{CAPACITY, Deque, Owner, PartOf};
pub(crate) use deque::{Popped, Pushed};
pub(crate) use frame::{Frame, Inside};
pub(crate) use job_list::{Closure, Header, JobBody, JobId, JobNumber, ListedJob, PartFifo};
pub(super) use job_list::{Fifo, Found, JobKind, JobList, fifo};
pub(crate) use parts::Parts;
pub(super) use parts::{MAX_IN_A_ROW, Tickets};
