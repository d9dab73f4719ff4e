//! Futures on a workqueue.
//!
//! A task is a future with its waker, in one allocation (the `async-task` crate's). Each poll is an
//! item of the queue: it enters by the intake like any other, counts for `max_active`, for `drain`
//! and for the statistics, and may call `blocking` and `join`. While the future waits for
//! something, nothing of it is in the queue.
//!
//! A task stays in the pod that it was spawned in: whoever wakes it, its next poll is sent there,
//! where its memory is in the cache.
#![allow(unsafe_code)]

mod executors;
mod guests;
mod yield_now;

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use coreshard_platform::Platform;
use coreshard_topology::CpuId;
use tracing::span::Id;

use crate::error::Refused;
use crate::insight::{self, Label, TaskSpan};
use crate::queue::{Shared, Visitor};
use guests::Guest;
pub(crate) use guests::Guests;

pub use yield_now::{YieldNow, yield_now};

type Runnable = async_task::Runnable<Shown>;
type Spawned<T> = async_task::FallibleTask<std::thread::Result<T>, Shown>;

/// What the future sees of its handle.
#[derive(Debug)]
struct Shown {
    /// Nobody will look at the result.
    detached: AtomicBool,
    /// Its span, as wake-ups name it; `None` without.
    span: Option<Id>,
}

/// A future that was spawned, and the right to its result.
///
/// Awaiting it waits for the future to end, under any executor; dropping it cancels the future: it
/// is polled no more, and dropped. [`detach`](Self::detach) lets it run without.
#[must_use = "dropping a task cancels it; `detach` lets it run"]
pub struct Task<T> {
    spawned: Option<Spawned<T>>,
    /// In the task's allocation, which lives at least as long as `spawned`.
    shown: NonNull<Shown>,
}

// SAFETY: what the pointer leads to is `Sync`, and lives with the task, which may be sent.
unsafe impl<T: Send> Send for Task<T> {}
// SAFETY: as above; nothing is done with a shared handle but to ask whether the task has ended.
unsafe impl<T: Send> Sync for Task<T> {}

impl<T> Task<T> {
    /// Lets the future run to its end without this handle. If it panics, the queue's panic
    /// handler is told.
    pub fn detach(mut self) {
        if let Some(spawned) = self.spawned.take() {
            // SAFETY: `spawned` is here, so the allocation is.
            unsafe { self.shown.as_ref() }.detached.store(true, Relaxed);
            spawned.detach();
        }
    }

    /// Cancels the future and waits until it is dropped; the result, if it had ended before.
    ///
    /// # Panics
    /// With what the future threw, if it had.
    pub async fn cancel(mut self) -> Option<T> {
        let spawned = self.spawned.take()?;
        spawned.cancel().await.map(give)
    }

    /// True once the future has ended, or was dropped: then awaiting it does not wait.
    pub fn is_finished(&self) -> bool {
        self.spawned.as_ref().is_none_or(|spawned| spawned.is_finished())
    }
}

fn give<T>(result: std::thread::Result<T>) -> T {
    result.unwrap_or_else(|payload| panic::resume_unwind(payload))
}

impl<T> Future for Task<T> {
    type Output = T;

    /// # Panics
    /// With what the future threw; or if the future was dropped because its queue was shut down
    /// while it waited.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let spawned = self.spawned.as_mut().expect("a task is not awaited after it was detached");
        Pin::new(spawned).poll(context).map(|result| {
            give(result.expect("the task's workqueue was shut down before the task had ended"))
        })
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("is_finished", &self.is_finished()).finish()
    }
}

/// Sends polls to the queue.
struct Home<P: Platform> {
    guest: Guest<P>,
    cpu: CpuId,
}

impl<P: Platform> Home<P> {
    /// The next poll; where the queue is closed, the end of the task.
    #[inline]
    fn send(&self, runnable: Runnable) {
        if let Some(span) = &runnable.metadata().span {
            insight::task_woken(span);
        }
        if let Ok(entry) = self.guest.queue().enter_near(self.cpu, Visitor::Guest) {
            entry.send_as(
                || Label::Part,
                move || {
                    runnable.run();
                },
            );
        }
    }
}

/// A future whose panics go to whoever awaits it, or else to the queue's panic handler.
struct Caught<F> {
    future: F,
    shown: NonNull<Shown>,
    /// Closed when the future is dropped.
    span: TaskSpan,
}

// SAFETY: the pointer leads to the task's own metadata, which is `Sync`.
unsafe impl<F: Send> Send for Caught<F> {}

impl<F: Future> Future for Caught<F> {
    type Output = std::thread::Result<F::Output>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the future is not moved out of the pinned struct.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above; it is pinned where the struct is.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        match panic::catch_unwind(AssertUnwindSafe(|| this.span.poll(|| future.poll(context)))) {
            Ok(poll) => poll.map(Ok),
            // SAFETY: the metadata lies in the task's allocation, as the future does.
            Err(payload) if unsafe { this.shown.as_ref() }.detached.load(Relaxed) => {
                panic::resume_unwind(payload)
            }
            Err(payload) => Poll::Ready(Err(payload)),
        }
    }
}

#[track_caller]
pub(crate) fn spawn<P, F>(shared: &Arc<Shared<P>>, future: F) -> Result<Task<F::Output>, Refused<F>>
where
    P: Platform,
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let cpu = P::current_cpu();
    // Counted in before the task is made, so that a refused future comes back whole.
    let entry = match shared.enter_near(cpu, Visitor::Stranger) {
        Ok(entry) => entry,
        Err(reason) => return Err(Refused::new(future, reason)),
    };
    let home = Home { guest: Guest::new(shared, cpu.index()), cpu };
    let span = entry.task_span::<F>();
    let shown = Shown { detached: AtomicBool::new(false), span: span.id() };
    let builder = async_task::Builder::new().metadata(shown);
    // SAFETY: future and schedule function are 'static and Send, by the bounds here, but for the
    // pointer to the metadata, which lives as long as they do; the schedule function is Sync.
    let (runnable, task) = unsafe {
        builder.spawn_unchecked(
            |shown| Caught { future, shown: NonNull::from(shown), span },
            move |runnable| home.send(runnable),
        )
    };
    entry.send_as(
        || Label::Part,
        move || {
            runnable.run();
        },
    );
    let shown = NonNull::from(task.metadata());
    Ok(Task { spawned: Some(task.fallible()), shown })
}
