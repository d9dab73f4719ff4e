//! The block layer on this machine; see [`coreshard_block`].
//!
//! ```
//! use std::sync::Arc;
//! use coreshard::block::{self, HostAdapter, HostOptions, Memory, QueueOptions, Request};
//!
//! let host = HostAdapter::new(HostOptions::default())?;
//! let device = host.target("ram").device(Arc::new(Memory::new(1 << 20)))?;
//! let mut queue = device.queue(0, QueueOptions::default())?;
//! // The process's workqueue processes the completed request, not the thread that polls the device:
//! let workers = coreshard::workqueue()?.name("continuations").build()?;
//! let (tell, told) = std::sync::mpsc::channel();
//! let then = block::then_on(&workers, move |completed| drop(tell.send(completed.result.is_ok())));
//! queue.call(Request::write(0, vec![1; 512]), then)?;
//! queue.wait(None);
//! assert!(told.recv()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use coreshard_platform::{Host, Platform};

pub use coreshard_block::{
    Backend, Buffer, BufferPool, Channel, Command, Completed, Completion, CounterLayout, Counts,
    Data, DeviceMemory, Engine, ErrorClass, Executor, FaultPlan, File, FileOptions, Geometry,
    HostOptions, IoError, Job, Op, OpenError, Payload, Priority, QueueOptions, Refused, Request,
    RequestId, RetryPolicy, RingOptions, RingWake, TagPolicy, Waker, node_of_file,
};

use coreshard_workqueue::Workqueue;

/// An adapter of this machine; see [`coreshard_block::HostAdapter`].
pub type HostAdapter = coreshard_block::HostAdapter<Host>;
/// See [`coreshard_block::Target`].
pub type Target = coreshard_block::Target<Host>;
/// See [`coreshard_block::Device`].
pub type Device = coreshard_block::Device<Host>;
/// See [`coreshard_block::Queue`].
pub type Queue = coreshard_block::Queue<Host>;
/// See [`coreshard_block::RemoteQueue`].
pub type RemoteQueue = coreshard_block::RemoteQueue<Host>;
/// See [`coreshard_block::IoFuture`].
pub type IoFuture = coreshard_block::IoFuture<Host>;
/// See [`coreshard_block::Memory`].
pub type Memory = coreshard_block::Memory<Host>;
/// See [`coreshard_block::Null`].
pub type Null = coreshard_block::Null<Host>;
/// See [`coreshard_block::Faulty`].
pub type Faulty = coreshard_block::Faulty<Host>;

/// Runs a file's requests on a workqueue's workers, for [`Engine::Threads`], and for [`Engine::Auto`] if io_uring is
/// not permitted. The executor keeps the queue alive.
///
/// # Examples
/// ```
/// use coreshard::block::{Engine, File, FileOptions, executor};
/// // Without io_uring, this queue's workers read and write.
/// // Where io_uring is forbidden, this queue's workers read and write.
/// let queue = coreshard::workqueue()?.name("file I/O").build()?;
/// let options = FileOptions {
///     engine: Engine::Threads,
///     executor: Some(executor(queue)),
///     ..FileOptions::default()
/// };
/// let path = std::env::temp_dir().join(format!("coreshard-executor-{}", std::process::id()));
/// std::fs::write(&path, [0; 4096])?;
/// let file = File::open(&path, options)?;
/// std::fs::remove_file(&path)?;
/// # drop(file);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn executor<P: Platform>(queue: Workqueue<P>) -> Arc<dyn Executor> {
    Arc::new(move |job: Job| {
        let refused = queue.queue(move || coreshard_workqueue::blocking::<P, _>(job));
        refused.map_err(|refused| -> Job { Box::new(refused.into_item()) })
    })
}

/// Returns a callback for [`Queue::call`] that runs `then` on `queue`. If the queue is shut down, `then` runs on the
/// polling thread.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use coreshard::block::{HostAdapter, HostOptions, Memory, QueueOptions, Request, then_on};
///
/// let host = HostAdapter::new(HostOptions::default())?;
/// let device = host.target("ram").device(Arc::new(Memory::new(1 << 20)))?;
/// let mut queue = device.queue(0, QueueOptions::default())?;
/// let workers = coreshard::workqueue()?.name("continuations").build()?;
/// let (tell, told) = std::sync::mpsc::channel();
/// let then = then_on(&workers, move |completed| drop(tell.send(completed.result.is_ok())));
/// queue.call(Request::read(0, vec![0; 512]), then)?;
/// queue.wait(None);
/// assert!(told.recv()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn then_on<F, P>(queue: &Workqueue<P>, then: F) -> impl FnOnce(Completed) + use<F, P>
where
    P: Platform,
    F: FnOnce(Completed) + Send + 'static,
{
    let queue = queue.clone();
    move |completed| {
        if let Err(refused) = queue.queue(move || then(completed)) {
            refused.into_item()();
        }
    }
}
