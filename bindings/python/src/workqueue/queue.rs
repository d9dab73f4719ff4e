//! A queue's handle, and shutdown before the interpreter ends.
#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use coreshard::{ProcessGeneration, Reservation};
use pyo3::prelude::*;

use crate::process::{self, Ends, runtime_error};
use crate::waiting::{self, Changes, Deadline, interruptible};

/// The last handle of a queue outside the library. It is not dropped while the GIL is held: dropping waits for items,
/// which need the GIL.
pub(super) struct Queue {
    handle: ManuallyDrop<coreshard::Workqueue>,
    made_in: ProcessGeneration,
}

impl Queue {
    /// Creates a queue that accepts work until the interpreter shuts down.
    pub(super) fn of(handle: coreshard::Workqueue) -> PyResult<Arc<Self>> {
        let handle = ManuallyDrop::new(handle);
        let queue = Arc::new(Self { handle, made_in: ProcessGeneration::current() });
        process::begins_before_end(&queue)?;
        Ok(queue)
    }

    pub(super) fn handle(&self) -> &coreshard::Workqueue {
        &self.handle
    }

    /// Reserves room for an item. Waits in line if the queue is full. A signal handler may end the wait by raising.
    pub(super) fn room(&self, py: Python<'_>) -> PyResult<Room> {
        if self.handle.capacity().is_none() || !self.made_in.is_current() {
            return Ok(Room::Any);
        }
        if coreshard::current().is_some() {
            return Ok(Room::OnWorker);
        }
        let mut waits = pin!(self.handle.reserve_async());
        // Usually there is room at once.
        if let Poll::Ready(room) = waits.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return room.map(Room::Reserved).map_err(runtime_error);
        }
        // Tells this thread that there may be room.
        let comes = Arc::new(Changes::default());
        let waker = Waker::from(Arc::clone(&comes));
        let mut context = Context::from_waker(&waker);
        loop {
            let seen = comes.seen();
            match waits.as_mut().poll(&mut context) {
                Poll::Ready(room) => return room.map(Room::Reserved).map_err(runtime_error),
                Poll::Pending => comes.wait(py, seen)?,
            };
        }
    }

    /// Returns false on a timeout.
    pub(super) fn shut_down(&self, py: Python<'_>, deadline: Deadline) -> PyResult<bool> {
        if !self.made_in.is_current() {
            return Ok(true);
        }
        if deadline.is_never()
            && let Err(error) = self.handle.flush_timeout(Duration::ZERO)
            && !error.is_timeout()
        {
            // Inside a call of the queue itself, which would wait for its own end.
            return Err(runtime_error(error));
        }
        loop {
            let step = deadline.step();
            let most = step.unwrap_or_default();
            if waiting::without_lock(py, || self.handle.shutdown(most)).is_ok() {
                return Ok(true);
            }
            if step.is_none() {
                return Ok(false);
            }
            py.check_signals()?;
        }
    }
}

impl Ends for Queue {
    /// Shuts the queue down and waits. This ends a freeze, since no code remains that could thaw it.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        if self.made_in.is_current() {
            waiting::without_lock(py, || self.handle.thaw()).map_err(runtime_error)?;
        }
        self.shut_down(py, Deadline::NEVER).map(drop)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Another process's queue has locks that no thread here will release, and its items never run here.
        if process::has_ended() || !self.made_in.is_current() {
            return;
        }
        // SAFETY: this is the only place that takes it, and it is reached once.
        let last = unsafe { ManuallyDrop::take(&mut self.handle) };
        let dropped = Arc::new(Dropped { ends: Changes::default() });
        Python::try_attach(|py| {
            // Before the GIL is released, after which the interpreter may end.
            process::ends_before_interpreter(&dropped);
            let elsewhere = move || {
                let thread = std::thread::Builder::new().name("cs-python-drop".to_owned());
                // If no thread can be started, wait here.
                let _ = thread.spawn(move || {
                    drop(last);
                    dropped.ends.tell();
                });
            };
            waiting::without_lock(py, elsewhere);
        });
    }
}

/// A dropped queue whose items still run.
struct Dropped {
    ends: Changes,
}

impl Ends for Dropped {
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        while self.ends.seen() == 0 {
            self.ends.wait(py, 0)?;
        }
        Ok(())
    }
}

/// Permission for an item to enter a queue.
pub(super) enum Room {
    /// The queue has no capacity, or rejects everything.
    Any,
    /// The caller is a worker: the library must know that it waits, to reject waits that would never end.
    OnWorker,
    Reserved(Reservation),
}

/// Waits with the library's means. A signal handler may end the wait by raising.
pub(super) fn wait_for<R: Send + 'static, E: std::fmt::Display + Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<R, E> + Send + 'static,
) -> PyResult<R> {
    interruptible(py, work)?.map_err(runtime_error)
}
