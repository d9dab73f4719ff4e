//! A block layer without false sharing: hosts, targets, devices, shared tags, node-local state.
//!
//! The path of a request: [`Queue::submit`] → checked against the device's [`Geometry`] → a slot, which keeps
//! its buffers → a tag of the host's set, or a place among the waiters → this thread's channel (an io_uring,
//! other threads, memory, nothing) → completed on this thread → the tag goes back, or on to a waiter → a
//! future, a callback, or the queue's list.
//!
//! ```
//! use std::sync::Arc;
//! use coreshard_block::{File, FileOptions, HostAdapter, HostOptions, QueueOptions, Request, node_of_file};
//! use coreshard_platform::Host;
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("file");
//! # std::fs::write(&path, [0; 8192])?;
//! let host = HostAdapter::<Host>::new(HostOptions {
//!     node: node_of_file(&path),
//!     ..HostOptions::default()
//! })?;
//! let file = File::open(&path, FileOptions { write: true, ..FileOptions::default() })?;
//! let device = host.target("disk").device(Arc::new(file))?;
//! // On each thread, after it was pinned:
//! let mut queue = device.queue(0, QueueOptions::default())?;
//! let done = queue.send(Request::write(4096, vec![1; 4096]));
//! assert_eq!(queue.block_on(done).result?, 4096);
//! let done = queue.send(Request::fsync());
//! queue.block_on(done).result?;
//! assert_eq!(device.counts().done, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Types, and which thread may touch them:
//!
//! 1. [`HostAdapter`], [`Target`], [`Device`]: shared by all threads; their state is allocated on the host's
//!    node ([`DeviceMemory`]). A target may limit what its devices have in flight.
//! 2. [`TagSet`]: the right to have requests in flight, shared by a host's devices and accounted by a
//!    [`TagPolicy`]. `tags/README.md` explains the protocol.
//! 3. [`DeviceCounters`]: issued, done, errors, timeouts; in several layouts ([`CounterLayout`]).
//! 4. [`Queue`]: belongs to one thread; other threads use a [`RemoteQueue`].
//! 5. [`Backend`] and [`Channel`]: the implementation of a device, and the contract that memory safety relies
//!    on.

#![warn(missing_debug_implementations)]
#![doc(html_root_url = "https://docs.rs/coreshard-block/0.1.0")]

mod backend;
mod buffer;
mod cause;
mod counters;
mod host;
mod node_slice;
mod open_error;
mod queue;

mod request;
mod tags;

pub use backend::{
    Backend, Channel, Command, Completion, Data, Engine, Executor, FaultPlan, Faulty, File,
    FileOptions, Geometry, Job, Memory, Null, RingOptions, RingWake, Waker,
};
pub use buffer::{Buffer, BufferPool, PAGE_BYTES};
pub use counters::{
    CounterLayout, Counts, DeviceCounters, Outcome, ParseCounterLayoutError, ThreadCounters,
};
pub use host::{
    Device, DeviceMemory, HostAdapter, HostOptions, MAX_THREADS, ParseDeviceMemoryError, Target,
    node_of_file,
};
pub use open_error::OpenError;
pub use queue::{IoFuture, Queue, QueueOptions, RemoteQueue, RequestId, RetryPolicy};
pub use request::{
    Completed, ErrorClass, IoError, MAX_BUFFERS, MAX_BYTES, Op, Payload, Priority, Refused, Request,
};
pub use tags::{
    MAX_RESERVED_TAGS, MAX_TAGS, ParseTagPolicyError, Tag, TagPolicy, TagPort, TagSet, TagSetError,
    TagSetSpec, TagUser,
};

#[cfg(test)]
testing::watch!();
