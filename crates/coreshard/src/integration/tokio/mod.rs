//! Workers inside a tokio runtime's context, with the feature `tokio`.
//!
//! tokio's functions (`tokio::spawn`, `tokio::time::sleep`, sockets of `tokio::net`, `Handle::current`) look for a
//! runtime in a thread-local variable. [`enter`] makes hooks that set it for the life of each worker. Items, futures
//! and their callees then find the runtime, at no cost per item. tokio's threads poll sockets and timers. Coreshard's
//! workers poll the tasks that wait for them.
//!
//! In a program with a tokio runtime, before the process's runtime is used:
//!
//! ```
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let in_tokio = coreshard::integration::tokio::enter(&tokio::runtime::Handle::current());
//!     coreshard::configure(move |builder| builder.add_hooks(in_tokio.clone()))?;
//!
//!     let queue = coreshard::workqueue()?.name("requests").build()?;
//!     let slept = queue.spawn(async {
//!         // On a Coreshard worker, with tokio's clock:
//!         tokio::time::sleep(std::time::Duration::from_millis(1)).await;
//!         // A tokio task, spawned by a Coreshard worker:
//!         tokio::spawn(async { 42 }).await
//!     })?;
//!     assert_eq!(slept.await?, 42);
//!     // Dropping the last handle blocks, which must not happen on a tokio thread.
//!     tokio::task::spawn_blocking(move || drop(queue)).await?;
//!     Ok(())
//! }
//! ```
//!
//! In other programs, create and keep a runtime. Queues may have separate runtimes:
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
//! - **A single-threaded runtime** (`new_current_thread`) polls its sockets and timers only while a thread is inside
//!   its `block_on`. With [`drive`], idle workers do so. A multi-threaded runtime needs no help, and one thread
//!   suffices for sockets.
//! - **The runtime's end.** The hooks hold a handle, which does not keep a runtime running. After its shutdown, tokio's
//!   rules apply: `tokio::spawn` returns a cancelled task, and `sleep` and sockets panic or fail. Other items and
//!   futures continue. Shut down the queues first ([`Workqueue::shutdown`](crate::Workqueue::shutdown)), then tokio.
//! - **Several runtimes.** Hooks of a queue ([`Builder::hooks`](crate::Builder::hooks)) replace the runtime's, and
//!   [`add_hooks`](crate::Builder::add_hooks) adds to them. The innermost, added last, is the current one. Queues with
//!   different hooks share no workers, so create hooks once and clone them.
//! - **Inside an item**, `Handle::current().block_on(…)` works and blocks the worker: wrap it in
//!   [`coreshard::blocking`](crate::blocking).
//! - **Only workers** are inside the context. Panic handlers run on a worker. Diagnostic handlers and destructors of
//!   futures without a queue may run elsewhere.
//! - **tokio's budget** (`tokio::task::coop`) applies to tokio tasks only. In a Coreshard task that reads from a socket
//!   that is always ready, call [`consume_budget`](crate::consume_budget) in the loop.
//! - **In a forked process** tokio's threads do not exist, so workers do not enter. `Handle::current` panics instead of
//!   blocking forever.

#![allow(unsafe_code)]

mod drive;

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use ::tokio::runtime::{EnterGuard, Handle};

use crate::{Hooks, ProcessGeneration};
pub use drive::{HasThreads, drive};

/// A thread inside a runtime's context. The guard is dropped before the handle it borrows.
struct Entered {
    _guard: EnterGuard<'static>,
    _handle: Arc<Handle>,
}

thread_local! {
    /// The contexts of this thread, the innermost last; `None` for one that was not entered. It has no destructor:
    /// `on_stop` empties it while tokio's thread-local values exist.
    static ENTERED: ManuallyDrop<RefCell<Vec<Option<Entered>>>> =
        const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// Returns hooks with which each worker is inside the context of this runtime, from before its first item until after
/// its last.
///
/// Hooks added to these also run inside the context. The cost is two calls per worker, and nothing per item.
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
        // SAFETY: the pointee belongs to the Arc, does not move with it, and outlives the guard by the order of the
        // fields. Both stay on this thread.
        let guard = unsafe { &*Arc::as_ptr(&handle) }.enter();
        Self { _guard: guard, _handle: handle }
    }
}
