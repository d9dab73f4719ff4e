//! Reusable work items in the caller's memory, for languages without destructors.
//!
//! A [`Work`](crate::Work) is reference-counted: each handle keeps its memory. C has no such handles: an item is a member of
//! one of the program's structures, which the program may free at any time, including inside the item's own function. So the
//! state that a queueing, a run or a wait needs beyond the item's own is kept elsewhere, as in the kernel. `README.md` beside
//! this file describes the protocol. Access rules:
//!
//! 1. An item's fields are read and written only under the lock of its *stripe*, which its address determines.
//! 2. The holder of a *ticket* (a pool's token, a place that is kept, a timer's entry) first checks, under that lock, whether
//!    it is a tombstone. The item is known to be alive only if it is not.
//! 3. A run is a record on its worker's stack, in a list of the stripe. The item is not accessed from the call of its function
//!    on.

mod item;
#[cfg(all(test, loom))]
mod loom_tests;
mod stripe;
mod token;
mod works;

pub use item::{EmbeddedFunction, EmbeddedWork, FunctionName};
pub use works::EmbeddedWorks;
