//! The link between a queue and a pool: the path of an item into the pool, and the data that it carries.
//!
//! `pool_link.rs` counts the queue's items. A [`Limiter`](limiter::Limiter) decides when they may go to the pool, and the
//! [`Capacity`] whether they may enter the queue. `../README.md` describes the protocol.

mod capacity;
mod limiter;
mod observed;
mod panic_report;
mod pool_link;
mod queue_core;

pub(crate) use capacity::{Capacity, WaitingProducer, WhenFull};
pub(crate) use limiter::{CountedIn, GateAnswer, Limits};
pub(crate) use panic_report::PanicReport;
pub(crate) use pool_link::{
    CLOSED, GATED, PoolLink, SubmitPermit, core_here, holds_turn_of, inside, runs_item_of,
};
pub(crate) use queue_core::{QueueCore, SetAside};
