//! A tokio runtime without a thread, driven by idle workers.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::{Condvar, Mutex, PoisonError};

use ::tokio::runtime::{Runtime, RuntimeFlavor};
use ::tokio::sync::Notify;

use super::enter;
use crate::{Hooks, ProcessGeneration, Reactor, SharedReactor};

/// Returns hooks with which idle workers drive a `new_current_thread` runtime: its sockets, timers and tasks. The
/// runtime needs no thread. Each worker is inside its context, as with [`enter`].
///
/// A reactor thread wakes up for each ready socket and hands the waiting task to a worker. With these hooks, a worker
/// without other work waits for sockets, and runs the tasks that it wakes. If all workers are busy, one of them polls
/// the sockets after every few items. Short responses on many connections benefit most. [`Hooks::reactor`] has details.
///
/// Tasks of `tokio::spawn` run on the worker that drives the runtime, one at a time. Put computations on the queue.
/// `Handle::block_on` waits for sockets and timers that workers drive. Inside an item, wrap it in
/// [`coreshard::blocking`](crate::blocking).
///
/// The runtime ends with the hooks, when their queues have ended, without waiting. In a forked process workers do not
/// drive it, since its sockets belong to the parent.
///
/// # Errors
/// If the runtime has threads, which drive it. The runtime is returned in the error.
///
/// # Examples
/// ```
/// # use futures_lite::future::block_on;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use tokio::net::{TcpListener, TcpStream};
///
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// let hooks = coreshard::integration::tokio::drive(runtime)?;
/// let queue = coreshard::workqueue()?.name("connections").hooks(hooks).build()?;
/// let listening = queue.spawn(async { TcpListener::bind("127.0.0.1:0").await })?;
/// let echoed = queue.spawn(async {
///     let listener = listening.await?;
///     let mut client = TcpStream::connect(listener.local_addr()?).await?;
///     let (mut server, _) = listener.accept().await?;
///     client.write_all(b"hello").await?;
///     let mut bytes = [0; 5];
///     server.read_exact(&mut bytes).await?;
///     Ok::<_, std::io::Error>(bytes)
/// })?;
/// assert_eq!(&block_on(echoed)?, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn drive(runtime: Runtime) -> Result<Hooks, HasThreads> {
    if runtime.handle().runtime_flavor() != RuntimeFlavor::CurrentThread {
        return Err(HasThreads { runtime });
    }
    let hooks = enter(runtime.handle());
    Ok(hooks.reactor(SharedReactor::new(Driven {
        runtime: ManuallyDrop::new(runtime),
        woken: Notify::new(),
        made_in: ProcessGeneration::current(),
        forked: (Mutex::new(false), Condvar::new()),
    })))
}

/// A runtime passed to [`drive`] already has threads.
pub struct HasThreads {
    runtime: Runtime,
}

impl HasThreads {
    /// Returns the runtime.
    pub fn into_runtime(self) -> Runtime {
        self.runtime
    }
}

impl fmt::Display for HasThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "invalid tokio runtime: expected one of `Builder::new_current_thread` for `drive`; use `enter` for a runtime with threads",
        )
    }
}

coreshard_topology::readable_debug!(HasThreads);

impl std::error::Error for HasThreads {}

struct Driven {
    runtime: ManuallyDrop<Runtime>,
    woken: Notify,
    made_in: ProcessGeneration,
    /// For workers of a forked process.
    forked: (Mutex<bool>, Condvar),
}

impl Driven {
    fn is_forked(&self) -> bool {
        !self.made_in.is_current()
    }
}

impl Reactor for Driven {
    fn wait(&self) {
        if self.is_forked() {
            let (is_woken, changed) = &self.forked;
            let asleep = is_woken.lock().unwrap_or_else(PoisonError::into_inner);
            let woken = changed.wait_while(asleep, |is_woken| !*is_woken);
            *woken.unwrap_or_else(PoisonError::into_inner) = false;
            return;
        }
        self.runtime.block_on(self.woken.notified());
    }

    fn poll(&self) {
        if !self.is_forked() {
            // Pending once, so that the runtime polls sockets and timers first.
            self.runtime.block_on(::tokio::task::yield_now());
        }
    }

    fn wake(&self) {
        if self.is_forked() {
            *self.forked.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.forked.1.notify_one();
            return;
        }
        self.woken.notify_one();
    }
}

impl Drop for Driven {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: not used again.
        let runtime = unsafe { ManuallyDrop::take(&mut self.runtime) };
        if self.is_forked() {
            // Its threads and sockets belong to the parent.
            std::mem::forget(runtime);
        } else {
            // tokio's own destructor blocks, which is not allowed inside another runtime.
            runtime.shutdown_background();
        }
    }
}
