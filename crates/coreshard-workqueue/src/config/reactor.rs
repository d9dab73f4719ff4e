//! A place for idle workers to wait in, if the program waits for more than items.

use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use coreshard_platform::user::{Thrown, User};

/// A source of readiness: sockets, timers, completions of another system.
///
/// A reactor with its own thread hands each ready task to a worker, and takes a CPU from one to do so.
/// Instead, an idle worker may wait in the reactor itself, and run the work that becomes ready: see
/// [`Hooks::reactor`](crate::Hooks::reactor).
///
/// `wait` and `poll` are called by one worker at a time. Code that they call, such as wakers, does not count as
/// running on a worker: [`current`](crate::current) is `None` there.
pub trait Reactor: Send + Sync + 'static {
    /// Waits until something has become ready, or [`wake`](Self::wake) is called, and wakes all waiters of the ready
    /// events. It may return at any time, and is called again. Once `wake` was called, it must return soon.
    fn wait(&self);

    /// As [`wait`](Self::wait), only for events that are ready now.
    fn poll(&self);

    /// Ends the current `wait`, or else the next one. Called by any thread, including the waiting one, and
    /// possibly when no thread waits.
    fn wake(&self);
}

/// A [`Reactor`] that workers share; clones are handles to the same one.
#[derive(Clone)]
pub struct SharedReactor {
    shared: Arc<ReactorCell<dyn Reactor>>,
}

struct ReactorCell<R: ?Sized> {
    /// A worker is in it; or it has panicked, and no worker enters it any more.
    is_taken: AtomicBool,
    reactor: User<R>,
}

impl SharedReactor {
    /// Makes a reactor for the workers of one queue, or of several.
    pub fn new(reactor: impl Reactor) -> Self {
        let shared = ReactorCell { is_taken: AtomicBool::new(false), reactor: User::new(reactor) };
        Self { shared: Arc::new(shared) }
    }

    /// True while a worker is in it.
    pub(crate) fn is_taken(&self) -> bool {
        self.shared.is_taken.load(Relaxed)
    }

    /// Enters the reactor, unless another worker is in it.
    pub(crate) fn try_enter(&self) -> Option<InReactor<'_>> {
        // Acquire pairs with the Release of the worker that left it: one at a time.
        let is_free = !self.is_taken() && !self.shared.is_taken.swap(true, Acquire);
        is_free.then(|| InReactor { shared: &self.shared })
    }

    /// See [`Reactor::wake`].
    pub(crate) fn wake(&self) -> Result<(), Thrown> {
        self.shared.reactor.call(|reactor| reactor.wake())
    }
}

impl PartialEq for SharedReactor {
    fn eq(&self, other: &Self) -> bool {
        ptr::addr_eq(Arc::as_ptr(&self.shared), Arc::as_ptr(&other.shared))
    }
}

impl fmt::Debug for SharedReactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedReactor").field("is_taken", &self.is_taken()).finish_non_exhaustive()
    }
}

/// While it lives, this worker is the one that may wait in the reactor.
pub(crate) struct InReactor<'reactor> {
    shared: &'reactor ReactorCell<dyn Reactor>,
}

impl InReactor<'_> {
    /// See [`Reactor::wait`].
    pub(crate) fn wait(&self) -> Result<(), Thrown> {
        self.shared.reactor.call(|reactor| reactor.wait())
    }

    /// See [`Reactor::poll`].
    pub(crate) fn poll(&self) -> Result<(), Thrown> {
        self.shared.reactor.call(|reactor| reactor.poll())
    }

    /// Closes it: no worker enters it any more.
    pub(crate) fn close(self) {
        std::mem::forget(self);
    }
}

impl Drop for InReactor<'_> {
    fn drop(&mut self) {
        self.shared.is_taken.store(false, Release);
    }
}
