//! Locks for threads of fixed priorities.
//!
//! A high-priority thread that waits for a lock must not wait for work of priorities between its own and the
//! holder's: *priority inversion*. [`InheritMutex`] lends the waiter's priority to the holder;
//! [`CeilingMutex`] raises each taker beforehand (both: Sha, Rajkumar and Lehoczky, "Priority Inheritance
//! Protocols", 1990).

mod ceiling;
mod error;
mod inherit;
#[cfg(all(test, not(loom)))]
mod tests;

pub use ceiling::{CeilingGuard, CeilingMutex};
pub use error::LockError;
pub use inherit::{InheritGuard, InheritMutex};
