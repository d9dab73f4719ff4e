//! Backends do the work of devices; each thread has a channel to a backend.
//!
//! The contract that memory safety rests on: a channel may use a command's memory from `start` until
//! it has reported the command's completion, and not after its own drop. So a channel whose commands are
//! done elsewhere (by the kernel, by another thread) waits for them in its drop.

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
