//! Where a queue meets a pool: what an item passes on its way in, and what it takes along.
//!
//! `pool_link.rs` counts the queue's items; a [`Limiter`](limiter::Limiter) says when they may go to the pool, and the
//! [`Capacity`] whether they may come in. `../README.md` tells the protocol.

mod capacity;
mod limiter;
mod observed;
mod pool_link;
mod queue_core;

pub(crate) use capacity::{Capacity, WaitingProducer, WhenFull};
pub(crate) use limiter::{CountedIn, GateAnswer, Limits};
pub(crate) use pool_link::{
    CLOSED, GATED, PoolLink, SubmitPermit, core_here, holds_turn_of, inside, runs_item_of,
};
pub(crate) use queue_core::{QueueCore, SetAside};
