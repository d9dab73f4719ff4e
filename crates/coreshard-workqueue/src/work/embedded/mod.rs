//! Reusable work items in memory that the caller has, for languages without destructors.
//!
//! A [`Work`](crate::Work) is counted: each handle keeps its memory. C has no such handles: an item is a member
//! of a structure of the program's, which frees it when it likes, inside of the item's own function, too. So what
//! a queueing, a run and a wait need beyond the state in the item itself is kept elsewhere, as in the kernel.
//! `README.md` beside this file tells the protocol. Who may touch what:
//!
//! 1. An item's fields are read and written under the lock of its *stripe* alone, which its address says.
//! 2. Who has a *ticket* (a pool's token, a place that is kept, a timer's entry) looks, under that lock, whether
//!    it is a tombstone, before anything else: only while it is not, the item is known to be there.
//! 3. A run is a record on its worker's stack, in a list of the stripe's. Nothing of the item is touched from the
//!    call of its function on.

mod item;
#[cfg(all(test, loom))]
mod loom_tests;
mod stripe;
mod token;
mod works;

pub use item::{EmbeddedFunction, EmbeddedWork, FunctionName};
pub use works::EmbeddedWorks;
