//! Reusable work items: allocated once, queued any number of times.
//!
//! `README.md` beside this file describes the protocol. `handle.rs` has the public methods. `state.rs`, `work_core.rs` and
//! `token.rs` implement the reference-counted item, and `embedded/` the item in the caller's memory; both use `way.rs` and
//! `delayed.rs`. Access rules:
//!
//! 1. The state word decides everything; it is changed only by read-modify-writes.
//! 2. The thread that has set `PENDING` enqueues that queueing, under the number it was given.
//! 3. Only the worker that has set `RUNNING` accesses the function, until it clears the bit.
//! 4. The slot (a place that is kept, an entry with the timers) is under its own lock.

mod delayed;
mod embedded;
mod error;
mod handle;
#[cfg(all(test, not(loom)))]
mod number_tests;
mod periodic;
mod state;
mod token;
mod way;
mod work_core;

#[cfg(all(test, loom))]
mod loom_tests;

pub use embedded::{EmbeddedFunction, EmbeddedWork, EmbeddedWorks, FunctionName};
pub use error::{WorkError, WorkErrorReason};
pub use periodic::{MissedTick, Periodic};
pub use work_core::Work;
