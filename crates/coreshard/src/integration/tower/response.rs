//! A response from a queue.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use coreshard_platform::{Host, Platform};
use coreshard_workqueue::{CancellationToken, JoinHandle, Sleep, Task, TaskResult};

use super::error::{Kind, ServiceError};

/// A response from a queue, or the reason why there is none. Dropping it cancels the request; see [the module](super).
#[must_use = "dropping it cancels the request"]
pub struct ResponseFuture<T, E, P: Platform = Host> {
    state: State<T, E, P>,
}

enum State<T, E, P: Platform> {
    Failed(Option<ServiceError<E>>),
    Runs { work: Work<T, E, P>, queue: Arc<str>, limit: Option<Sleep<P>>, deadline: Duration },
}

enum Work<T, E, P: Platform> {
    /// `None` after it was taken back.
    Item(Option<JoinHandle<Result<T, E>, P>>, CancellationToken<P>),
    Task(TaskResult<Result<T, E>>, Arc<AtomicBool>),
}

impl<T, E, P: Platform> ResponseFuture<T, E, P> {
    pub(super) fn failed(error: ServiceError<E>) -> Self {
        Self { state: State::Failed(Some(error)) }
    }

    pub(super) fn item(
        handle: JoinHandle<Result<T, E>, P>,
        wanted: CancellationToken<P>,
        queue: Arc<str>,
        limit: Option<Sleep<P>>,
        deadline: Option<Duration>,
    ) -> Self {
        Self::runs(Work::Item(Some(handle), wanted), queue, limit, deadline)
    }

    pub(super) fn task(
        task: Task<Result<T, E>>,
        has_begun: Arc<AtomicBool>,
        queue: Arc<str>,
        limit: Option<Sleep<P>>,
        deadline: Option<Duration>,
    ) -> Self {
        Self::runs(Work::Task(task.result(), has_begun), queue, limit, deadline)
    }

    fn runs(
        work: Work<T, E, P>,
        queue: Arc<str>,
        limit: Option<Sleep<P>>,
        deadline: Option<Duration>,
    ) -> Self {
        let deadline = deadline.unwrap_or(Duration::MAX);
        Self { state: State::Runs { work, queue, limit, deadline } }
    }
}

impl<T, E, P: Platform> Work<T, E, P> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<T, Kind<E>>> {
        match self {
            Self::Item(handle, _) => {
                let handle = handle.as_mut().expect("a future is not polled after completion");
                Pin::new(handle).poll(context).map(|ended| match ended {
                    Ok(result) => result.map_err(Kind::Service),
                    Err(panic) if panic.is_dropped() => Err(Kind::Dropped),
                    Err(panic) => Err(Kind::Panicked(panic)),
                })
            }
            Self::Task(task, _) => Pin::new(task).poll(context).map(|ended| match ended {
                Ok(result) => result.map_err(Kind::Service),
                Err(error) => Err(error.into_panic().map_or(Kind::Dropped, Kind::Panicked)),
            }),
        }
    }

    /// Cancels the request. Returns true if it has started.
    fn give_up(&mut self) -> bool {
        match self {
            Self::Item(handle, wanted) => match handle.take().map(JoinHandle::cancel) {
                // Dropped here with its request.
                Some(Ok(_taken_back)) => false,
                Some(Err(handle)) => {
                    // A finished request needs no cancellation.
                    if !handle.is_finished() {
                        wanted.cancel();
                    }
                    true
                }
                None => true,
            },
            // Dropping it next cancels it.
            Self::Task(_, has_begun) => has_begun.load(Relaxed),
        }
    }
}

impl<T, E, P: Platform> Future for ResponseFuture<T, E, P> {
    type Output = Result<T, ServiceError<E>>;

    /// # Panics
    /// After it has ended.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let failed = match &mut this.state {
            State::Failed(error) => error.take().expect("a future is not polled after completion"),
            State::Runs { work, queue, limit, deadline } => match work.poll(context) {
                Poll::Ready(Ok(response)) => {
                    this.state = State::Failed(None);
                    return Poll::Ready(Ok(response));
                }
                Poll::Ready(Err(kind)) => ServiceError::new(queue, kind),
                Poll::Pending => {
                    let Some(limit) = limit else { return Poll::Pending };
                    if Pin::new(limit).poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    let (has_begun, deadline) = (work.give_up(), *deadline);
                    ServiceError::new(queue, Kind::DeadlineExceeded { deadline, has_begun })
                }
            },
        };
        this.state = State::Failed(None);
        Poll::Ready(Err(failed))
    }
}

impl<T, E, P: Platform> Unpin for ResponseFuture<T, E, P> {}

impl<T, E, P: Platform> Drop for ResponseFuture<T, E, P> {
    fn drop(&mut self) {
        if let State::Runs { work, .. } = &mut self.state {
            let _has_begun = work.give_up();
        }
    }
}

impl<T, E, P: Platform> fmt::Debug for ResponseFuture<T, E, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
