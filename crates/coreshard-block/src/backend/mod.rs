//! Backends do the work of devices; each thread has a channel to a backend.
//!
//! Memory safety relies on this contract: a channel may use a command's memory from `start` until it has
//! reported the command's completion, and not after its own drop. A channel whose commands run elsewhere (in
//! the kernel, on another thread) therefore waits for them in its drop.

mod channel;
mod fault;
mod file;
mod immediate;
mod memory;
mod pool;
mod ring;
mod sync;

pub use channel::{Backend, Channel, Command, Completion, Data, Geometry, Waker};
pub use fault::{FaultPlan, Faulty};
pub use file::{Engine, File, FileOptions};
pub use memory::{Memory, Null};
pub use pool::{Executor, Job};
pub use ring::{RingOptions, RingWake};
