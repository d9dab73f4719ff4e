//! The right to a task's result.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{AtomicInt, Lock, RealTime};

const PENDING: u32 = 0;
const DONE: u32 = 1;

/// A task's panic. It may be dropped anywhere, whatever its payload's destructor does.
pub struct TaskPanic(Thrown);

impl TaskPanic {
    /// The panic's payload, to be resumed.
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.0.into_payload()
    }
}

impl fmt::Display for TaskPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the task panicked: {}", self.0.message().unwrap_or("no text"))
    }
}

impl fmt::Debug for TaskPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for TaskPanic {}

struct Outcome<P: RealTime, T> {
    state: P::AtomicU32,
    value: Lock<P, Option<Result<T, TaskPanic>>>,
    /// In which process its task is.
    process_generation: u32,
}

/// The right to the result of a task. Dropped, the task runs all the same.
pub struct TaskHandle<P: RealTime, T> {
    outcome: Arc<Outcome<P, T>>,
}

impl<P: RealTime, T> TaskHandle<P, T> {
    /// Whether the task is over.
    pub fn is_done(&self) -> bool {
        // Acquire pairs with the Release of `Completer::complete`: what the task wrote is seen.
        self.outcome.state.load(Acquire) == DONE
    }

    /// Waits until the task is over.
    ///
    /// # Errors
    /// What it threw. Where this process was forked from its own and it was not over then, it never is here, and
    /// counts as one that panicked.
    pub fn join(self) -> Result<T, TaskPanic> {
        while !self.is_done() {
            if P::process_generation() != self.outcome.process_generation {
                let text = "its executor is in the process that this one was forked from";
                return Err(TaskPanic(Thrown::new(Box::new(text))));
            }
            P::wait(&self.outcome.state, PENDING, None);
        }
        let value = self.outcome.value.lock().take();
        value.expect("a task that is done has left its outcome, and a handle is joined once")
    }
}

impl<P: RealTime, T> fmt::Debug for TaskHandle<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("is_done", &self.is_done()).finish()
    }
}

/// A task's body that completes its handle, and the handle. A task that is dropped unrun counts as one that
/// panicked.
pub(super) fn with_handle<P: RealTime, T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> (Box<dyn FnOnce() + Send>, TaskHandle<P, T>) {
    let outcome = Arc::new(Outcome {
        state: P::AtomicU32::new(PENDING),
        value: Lock::new(None),
        process_generation: P::process_generation(),
    });
    let completer = Completer { outcome: Some(Arc::clone(&outcome)) };
    let run = move || {
        let value = user::call(body);
        completer.complete(value.map_err(TaskPanic));
    };
    (Box::new(run), TaskHandle { outcome })
}

struct Completer<P: RealTime, T> {
    outcome: Option<Arc<Outcome<P, T>>>,
}

impl<P: RealTime, T> Completer<P, T> {
    fn complete(mut self, value: Result<T, TaskPanic>) {
        self.set(value);
    }

    fn set(&mut self, value: Result<T, TaskPanic>) {
        if let Some(outcome) = self.outcome.take() {
            *outcome.value.lock() = Some(value);
            // Release pairs with the Acquire of `is_done`.
            outcome.state.store(DONE, Release);
            P::wake_all(&raw const outcome.state);
        }
    }
}

impl<P: RealTime, T> Drop for Completer<P, T> {
    fn drop(&mut self) {
        self.set(Err(TaskPanic(Thrown::new(Box::new("it was dropped before it began")))));
    }
}
