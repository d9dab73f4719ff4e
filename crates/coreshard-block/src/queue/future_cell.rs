//! What the future of a request shares with the queue.

use std::sync::Arc;
use std::task::Waker as TaskWaker;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{Lock, Platform};

use super::request_id::RequestId;
use crate::completed::Completed;

pub(super) enum FutureState {
    Pending {
        /// The poller's: cloned, woken and dropped outside of the lock.
        waker: Option<TaskWaker>,
        /// The request, once the queue has it.
        id: Option<RequestId>,
    },
    FinishedRequest(Option<Completed>),
    /// Nobody waits for it any more.
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

    /// The queue is about to take the request under this name. False where nobody waits for it any
    /// more: then it need not, and the name is the next request's. So a future that is abandoned learns
    /// its request's name from what it replaces, and from nowhere else.
    pub(super) fn accepted(&self, named: RequestId) -> bool {
        match &mut *self.state.lock() {
            FutureState::Pending { id, .. } => {
                *id = Some(named);
                true
            }
            FutureState::FinishedRequest(_) | FutureState::Abandoned => false,
        }
    }

    /// Leaves the completion, or drops it and its buffers where nobody waits. What the waker threw, if it
    /// did.
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
