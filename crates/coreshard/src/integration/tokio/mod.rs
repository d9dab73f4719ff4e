//! Workers inside a tokio runtime's context, with the feature `tokio`.
//!
//! What tokio's functions look for when they are called (`tokio::spawn`, `tokio::time::sleep`, sockets of `tokio::net`,
//! `Handle::current`) is a word of the calling thread. [`enter`] makes hooks that set it for the life of each worker:
//! so items, futures and whatever they call find the runtime, at no cost for each item. Sockets are polled and timers
//! kept by tokio's own threads; the tasks that wait for them are polled by Coreshard's workers.
//!
//! In a program that is tokio's, before anything uses the process's runtime:
//!
//! ```
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let in_tokio = coreshard::integration::tokio::enter(&tokio::runtime::Handle::current());
//!     coreshard::configure(move |builder| builder.add_hooks(in_tokio.clone()))?;
//!
//!     let queue = coreshard::workqueue()?.name("requests").build()?;
//!     let slept = queue.spawn(async {
//!         // On a worker of Coreshard's, by tokio's clock:
//!         tokio::time::sleep(std::time::Duration::from_millis(1)).await;
//!         // A task of tokio's, from a worker of Coreshard's:
//!         tokio::spawn(async { 42 }).await
//!     })?;
//!     assert_eq!(slept.await?, 42);
//!     // Its last handle's drop would wait, and hold up a thread of tokio's.
//!     tokio::task::spawn_blocking(move || drop(queue)).await?;
//!     Ok(())
//! }
//! ```
//!
//! In one that is not, the runtime is made by hand, and kept; a queue may have a runtime of its own:
//!
//! ```
//! let sockets = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
//! let in_sockets = coreshard::integration::tokio::enter(sockets.handle());
//! let queue = coreshard::workqueue()?.name("connections").hooks(in_sockets).build()?;
//! let bound = queue.spawn(async {
//!     tokio::net::TcpListener::bind("127.0.0.1:0").await.and_then(|listener| listener.local_addr())
//! })?;
//! println!("{}", sockets.block_on(bound)?);
//! drop(queue); // before its runtime
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What to know
//!
//! - **A runtime of one thread** (`new_current_thread`) polls its sockets and keeps its time only while somebody is inside
//!   its `block_on`. [`drive`] has idle workers do that. A runtime of several threads does so by itself; one thread is
//!   enough for sockets.
//! - **The runtime's end.** The hooks keep a handle, which keeps no runtime running. Once that is shut down, tokio's own
//!   rules hold: `tokio::spawn` gives a task that is cancelled, `sleep` and sockets panic or fail. Items and futures that use
//!   none of it go on. So end the queues first ([`Workqueue::shutdown`](crate::Workqueue::shutdown)), then tokio.
//! - **Several runtimes.** Hooks of a queue ([`Builder::hooks`](crate::Builder::hooks)) replace the runtime's,
//!   [`add_hooks`](crate::Builder::add_hooks) adds to them: the innermost, which was added last, is the current one. Queues
//!   with different hooks share no workers; make the hooks once, and clone them.
//! - **Inside an item**, `Handle::current().block_on(…)` works, and blocks the worker: put [`coreshard::blocking`](crate::blocking)
//!   around it.
//! - **Only workers** are inside: a panic handler is called on one, a handler of trouble and the destructors of futures
//!   whose queue is gone may not be.
//! - **tokio's budget** (`tokio::task::coop`) is one of tokio's tasks. A task of Coreshard's that reads from a socket that
//!   always has something puts [`consume_budget`](crate::consume_budget) into its loop.
//! - **In a forked process** tokio's threads are gone, so workers there do not enter; `Handle::current` panics, which a
//!   wait for ever would not.

#![allow(unsafe_code)]

mod drive;

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use ::tokio::runtime::{EnterGuard, Handle};

use crate::{Hooks, ProcessGeneration};
pub use drive::{HasThreads, drive};

/// A thread's stay in a runtime's context. The guard goes before what it borrows.
struct Entered {
    _guard: EnterGuard<'static>,
    _handle: Arc<Handle>,
}

thread_local! {
    /// Those of this thread, the innermost last; `None` for one that was not entered. Without a destructor: `on_stop`
    /// empties it, while tokio's own thread-local values are there.
    static ENTERED: ManuallyDrop<RefCell<Vec<Option<Entered>>>> =
        const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// Hooks by which each worker is inside the context of this runtime, from before its first item until after its last.
///
/// Hooks that are added to these run inside of it, too. It costs two calls in the life of a worker, and nothing for
/// an item.
///
/// # Examples
/// ```
/// let sockets = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
/// let queue = coreshard::workqueue()?.name("timers").hooks(coreshard::integration::tokio::enter(sockets.handle())).build()?;
/// let slept = queue.spawn(async { tokio::time::sleep(std::time::Duration::from_millis(1)).await })?;
/// sockets.block_on(slept);
/// drop(queue); // before its runtime
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn enter(handle: &Handle) -> Hooks {
    let handle = Arc::new(handle.clone());
    let made_in = ProcessGeneration::current();
    Hooks::new()
        .on_start(move |_pod| {
            let entered = made_in.is_current().then(|| Entered::new(&handle));
            ENTERED.with(|all| all.borrow_mut().push(entered));
        })
        .on_stop(|_pod| {
            let innermost = ENTERED.with(|all| all.borrow_mut().pop());
            drop(innermost);
        })
}

impl Entered {
    fn new(handle: &Arc<Handle>) -> Self {
        let handle = Arc::clone(handle);
        // SAFETY: the place is the Arc's, which does not move with it, and is there until this Arc is dropped: after
        // the guard, by the order of the fields. Both stay on this thread.
        let guard = unsafe { &*Arc::as_ptr(&handle) }.enter();
        Self { _guard: guard, _handle: handle }
    }
}
