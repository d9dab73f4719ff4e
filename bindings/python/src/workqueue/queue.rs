//! A queue's handle, and what has to be over before the interpreter is.
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

/// A queue's last handle but for those inside of the library. It is not dropped while Python's lock is held: that waits for
/// items, which need it.
pub(super) struct Queue {
    handle: ManuallyDrop<coreshard::Workqueue>,
    made_in: ProcessGeneration,
}

impl Queue {
    /// A queue that takes work until the interpreter begins to end.
    pub(super) fn of(handle: coreshard::Workqueue) -> PyResult<Arc<Self>> {
        let handle = ManuallyDrop::new(handle);
        let queue = Arc::new(Self { handle, made_in: ProcessGeneration::current() });
        process::begins_before_end(&queue)?;
        Ok(queue)
    }

    pub(super) fn handle(&self) -> &coreshard::Workqueue {
        &self.handle
    }

    /// Room for an item. If the queue is full it is waited for, in line; a signal's handler may end that by raising.
    pub(super) fn room(&self, py: Python<'_>) -> PyResult<Room> {
        if self.handle.capacity().is_none() || !self.made_in.is_current() {
            return Ok(Room::Any);
        }
        if coreshard::current().is_some() {
            return Ok(Room::OnWorker);
        }
        let mut waits = pin!(self.handle.reserve_async());
        // Most find room at once.
        if let Poll::Ready(room) = waits.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return room.map(Room::Reserved).map_err(runtime_error);
        }
        // Tells this thread that there may be room now.
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

    /// False if the time was over.
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
    /// Shuts it down, and waits. A freeze ends, too, since no code is left that could end it.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        if self.made_in.is_current() {
            waiting::without_lock(py, || self.handle.thaw()).map_err(runtime_error)?;
        }
        self.shut_down(py, Deadline::NEVER).map(drop)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Another process's has locks that no thread here will free, and its items never run here.
        if process::has_ended() || !self.made_in.is_current() {
            return;
        }
        // SAFETY: this is the only place that takes it, and is reached once.
        let last = unsafe { ManuallyDrop::take(&mut self.handle) };
        let dropped = Arc::new(Dropped { ends: Changes::default() });
        Python::try_attach(|py| {
            // Before Python's lock is let go of, under which the interpreter may come to its end.
            process::ends_before_interpreter(&dropped);
            let elsewhere = move || {
                let thread = std::thread::Builder::new().name("cs-python-drop".to_owned());
                // If no thread can be had, it waits here.
                let _ = thread.spawn(move || {
                    drop(last);
                    dropped.ends.tell();
                });
            };
            waiting::without_lock(py, elsewhere);
        });
    }
}

/// A queue that was dropped, and whose items still run.
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

/// What an item needs to come into a queue.
pub(super) enum Room {
    /// The queue has no capacity, or refuses whatever comes.
    Any,
    /// The caller is a worker: the library has to know that it waits, to refuse what would never end.
    OnWorker,
    Reserved(Reservation),
}

/// Waits by the library's means; a signal's handler may end the wait by raising.
pub(super) fn wait_for<R: Send + 'static, E: std::fmt::Display + Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<R, E> + Send + 'static,
) -> PyResult<R> {
    interruptible(py, work)?.map_err(runtime_error)
}
