//! A tokio runtime without a thread: idle workers wait in it.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::{Condvar, Mutex, PoisonError};

use ::tokio::runtime::{Runtime, RuntimeFlavor};
use ::tokio::sync::Notify;

use super::enter;
use crate::{Hooks, ProcessGeneration, Reactor, SharedReactor};

/// Hooks by which idle workers drive a runtime of one thread, `new_current_thread`: its sockets, its timers, and what
/// is spawned on it. It has no thread, and needs none. Each worker is inside its context, as with [`enter`].
///
/// A reactor with a thread of its own wakes up for each socket that becomes ready, and hands the task that waits for it
/// to a worker. Here the worker that has nothing else to do waits for the sockets, and runs the tasks that it has
/// woken itself; while all are busy, one of them looks after every few items. Short answers over many connections gain most.
/// [`Hooks::reactor`] tells more.
///
/// Tasks of `tokio::spawn` run on whichever worker drives the runtime, one at a time: what computes belongs on
/// the queue. `Handle::block_on` waits for sockets and timers that workers drive; who calls it inside an item
/// puts [`coreshard::blocking`](crate::blocking) around it.
///
/// The runtime ends with the hooks, when the queues that have them are gone, and waits for nothing then. In a forked process
/// workers do not drive it, since its sockets are the parent's.
///
/// # Errors
/// Where the runtime has threads: it drives itself. It comes back.
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

/// A runtime that was given to [`drive`] has threads of its own.
pub struct HasThreads {
    runtime: Runtime,
}

impl HasThreads {
    /// The runtime.
    pub fn into_runtime(self) -> Runtime {
        self.runtime
    }
}

impl fmt::Display for HasThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a tokio runtime of several threads drives itself: give `drive` one that was made by \
             `Builder::new_current_thread`, or enter this one with `enter`",
        )
    }
}

coreshard_topology::readable_debug!(HasThreads);

impl std::error::Error for HasThreads {}

struct Driven {
    runtime: ManuallyDrop<Runtime>,
    woken: Notify,
    made_in: ProcessGeneration,
    /// For workers of a process that was forked from that one.
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
            // Pending once: the runtime looks at its sockets and timers before it polls again.
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
            // Its threads and its sockets are the parent's.
            std::mem::forget(runtime);
        } else {
            // Wherever this is: tokio's own destructor waits, and may not inside another runtime.
            runtime.shutdown_background();
        }
    }
}
