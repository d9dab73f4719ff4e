//! Reusable work items: allocated once, queued any number of times.
//!
//! `README.md` beside this file tells the protocol. `handle.rs` is what programs call; `state.rs`, `work_core.rs` and
//! `token.rs` are the counted item; `embedded/` is the one in the caller's memory; `way.rs` and `delayed.rs` serve both.
//! Who may touch what:
//!
//! 1. The state word decides everything; it is changed by read-modify-writes alone.
//! 2. Whoever has set `PENDING` brings that queueing in, under the number it was given.
//! 3. The function is touched by the worker that has set `RUNNING`, until it clears it.
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
