//! Items with a waiter: which threads may run such an item, how its result is stored, and the handles that return it.

mod claimable;
mod deadlock;
mod install;
mod item_cell;
mod join_handle;
mod panics;
mod scope;
mod scoped;
mod submitted;

#[cfg(all(test, loom))]
pub(crate) use claimable::Claimable;
pub(crate) use deadlock::{Wait, Waiter};
pub(crate) use install::{install, install_helping};
pub(crate) use join_handle::submit;
pub use join_handle::{CancelledItem, JoinHandle};
pub use panics::Panic;
pub(crate) use panics::Unclaimed;
pub(crate) use scope::run_to_end;
pub use scope::{ScopePanics, WorkScope};
pub use scoped::ScopedJoinHandle;
