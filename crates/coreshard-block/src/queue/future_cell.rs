//! What the future of a request shares with the queue.

use std::sync::Arc;
use std::task::Waker as TaskWaker;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{Lock, Platform};

use super::request_id::RequestId;
use crate::request::Completed;

pub(super) enum FutureState {
    Pending {
        /// Cloned, woken and dropped outside of the lock.
        waker: Option<TaskWaker>,
        /// Set once the queue has the request.
        id: Option<RequestId>,
    },
    FinishedRequest(Option<Completed>),
    /// The future was dropped.
    Abandoned,
}

/// What a future shares with the queue.
pub(super) struct FutureCell<P: Platform> {
    pub(super) state: Lock<P, FutureState>,
}

impl<P: Platform> FutureCell<P> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Lock::new(FutureState::Pending { waker: None, id: None }) })
    }

    /// The queue is about to accept the request with this id. False where the future was dropped: then it need
    /// not, and the id is the next request's. So a future that is dropped takes its request's id from the
    /// state that it replaces, and from nowhere else.
    pub(super) fn accepted(&self, request: RequestId) -> bool {
        match &mut *self.state.lock() {
            FutureState::Pending { id, .. } => {
                *id = Some(request);
                true
            }
            FutureState::FinishedRequest(_) | FutureState::Abandoned => false,
        }
    }

    /// Stores the completion, or drops it with its buffers where the future was dropped. Fails where the waker
    /// panicked.
    pub(super) fn complete(&self, completed: Completed) -> Result<(), Thrown> {
        let mut state = self.state.lock();
        let FutureState::Pending { waker, .. } = &mut *state else { return Ok(()) };
        let waker = waker.take();
        *state = FutureState::FinishedRequest(Some(completed));
        drop(state);
        match waker {
            Some(waker) => user::wake(waker),
            None => Ok(()),
        }
    }
}
