//! Handles to tasks' results.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{AtomicInt, Lock, RealTime};

const PENDING: u32 = 0;
const DONE: u32 = 1;

/// The reason why a task has no result: its panic, or that it was dropped before it began, or that it belongs
/// to another process.
///
/// It may be dropped anywhere, whatever its payload's destructor does.
pub struct TaskPanic {
    thrown: Thrown,
    is_panic: bool,
}

impl TaskPanic {
    fn of(thrown: Thrown) -> Self {
        Self { thrown, is_panic: true }
    }

    /// Creates the reason of a task that did not panic; `why` describes it.
    fn without_panic(why: &'static str) -> Self {
        Self { thrown: Thrown::new(Box::new(why)), is_panic: false }
    }

    /// Returns the panic's payload, to be resumed.
    ///
    /// For a task that did not panic, the payload is a text with the reason.
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.thrown.into_payload()
    }
}

impl fmt::Display for TaskPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.thrown.message().unwrap_or("no text");
        if self.is_panic { write!(f, "the task panicked: {message}") } else { f.write_str(message) }
    }
}

coreshard_topology::readable_debug!(TaskPanic);

impl std::error::Error for TaskPanic {}

struct Outcome<P: RealTime, T> {
    state: P::AtomicU32,
    value: Lock<P, Option<Result<T, TaskPanic>>>,
    /// The generation of the task's process.
    process_generation: u32,
}

/// A handle to the result of a task. If it is dropped, the task still runs.
pub struct TaskHandle<P: RealTime, T> {
    outcome: Arc<Outcome<P, T>>,
}

impl<P: RealTime, T> TaskHandle<P, T> {
    /// Returns whether the task has finished.
    pub fn is_done(&self) -> bool {
        // Acquire pairs with the Release of `Completer::complete`: the task's writes are visible.
        self.outcome.state.load(Acquire) == DONE
    }

    /// Waits until the task has finished.
    ///
    /// # Errors
    /// If the task panicked. Also if this process was forked from the task's before the task had finished,
    /// since it never finishes here.
    pub fn join(self) -> Result<T, TaskPanic> {
        while !self.is_done() {
            if P::process_generation() != self.outcome.process_generation {
                return Err(TaskPanic::without_panic(
                    "the task's executor belongs to the process that this one was forked from",
                ));
            }
            P::wait(&self.outcome.state, PENDING, None);
        }
        let value = self.outcome.value.lock().take();
        value.expect("a finished task has an outcome, and a handle is joined once")
    }
}

impl<P: RealTime, T> fmt::Debug for TaskHandle<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("is_done", &self.is_done()).finish()
    }
}

/// Returns a task body that completes its handle, and the handle. A task that is dropped before it ran counts
/// as panicked.
pub(super) fn with_handle<P: RealTime, T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> (Box<dyn FnOnce() + Send>, TaskHandle<P, T>) {
    let outcome = Arc::new(Outcome {
        state: P::AtomicU32::new(PENDING),
        value: Lock::new(None),
        process_generation: P::process_generation(),
    });
    let mut completer = Completer { outcome: Some(Arc::clone(&outcome)) };
    let run = move || {
        let value = user::call(body);
        completer.complete(value.map_err(TaskPanic::of));
    };
    (Box::new(run), TaskHandle { outcome })
}

struct Completer<P: RealTime, T> {
    outcome: Option<Arc<Outcome<P, T>>>,
}

impl<P: RealTime, T> Completer<P, T> {
    fn complete(&mut self, value: Result<T, TaskPanic>) {
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
        self.complete(Err(TaskPanic::without_panic("the task was dropped before it began")));
    }
}
