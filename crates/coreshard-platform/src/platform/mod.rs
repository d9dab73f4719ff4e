//! The platform interface: the trait that every runtime is generic over, and all types of its signatures.
//!
//! This folder depends on no implementation; `host`, `faulty` and `loom_platform` depend on it.

mod atomic;
pub(crate) mod errors;
mod node_memory;
#[expect(clippy::module_inception, reason = "the folder is the interface, the file its trait")]
mod platform;
mod realtime;
mod thread;
mod time;

pub use atomic::{AtomicInt, AtomicPointer, DataCell};
pub use errors::{AffinityError, MemoryLockError, NodeMemoryError, PolicyError, SpawnError};
pub use node_memory::{NodeMemory, Placement, ReleaseMemory};
pub use platform::{ByteAtomics, ForkHook, Platform, WaitOutcome};
pub use realtime::{InheritError, LockedMemory, RealTime, RealTimeLimits, Throttle};
pub use thread::{LocalKey, Policy, ThreadHandle, ThreadId, ThreadSpec};
pub use time::Time;
