//! The future of a request.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use coreshard_platform::{Platform, user};

use super::future_cell::{FutureCell, FutureState};
use super::mailbox::{Mailbox, Message};
use crate::request::Completed;

/// A future of a request's completion. Dropping it cancels the request; the layer keeps the buffers until the
/// device is done with them. Leaking it leaks the completion, nothing else.
#[must_use = "a request whose future is dropped is cancelled"]
pub struct IoFuture<P: Platform> {
    cell: Arc<FutureCell<P>>,
    mailbox: Arc<Mailbox<P>>,
    /// It has left a waker, or needs none.
    waits: bool,
    is_over: bool,
}

impl<P: Platform> IoFuture<P> {
    pub(super) fn new(cell: Arc<FutureCell<P>>, mailbox: Arc<Mailbox<P>>) -> Self {
        Self { cell, mailbox, waits: false, is_over: false }
    }
}

impl<P: Platform> Future for IoFuture<P> {
    type Output = Completed;

    /// # Panics
    /// Where it is polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completed> {
        // In a forked process whoever held the lock may not be here; nor will the completion come.
        if self.mailbox.is_forked() && self.cell.state.try_lock().is_none() {
            return Poll::Pending;
        }
        // The first poll seldom finds it ready, later ones mostly do: so a waker is cloned at the first.
        let mut own = (!self.waits).then(|| context.waker().clone());
        loop {
            let mut state = self.cell.state.lock();
            match (&mut *state, own.take()) {
                (FutureState::Pending { waker, .. }, Some(own)) => {
                    let before = waker.replace(own);
                    drop(state);
                    self.waits = true;
                    drop(before);
                    return Poll::Pending;
                }
                (FutureState::Pending { .. }, None) => {
                    drop(state);
                    own = Some(context.waker().clone());
                }
                (FutureState::FinishedRequest(completed), None) => {
                    let completed = completed.take();
                    drop(state);
                    self.is_over = true;
                    return Poll::Ready(
                        completed.expect("a future is not polled after it was ready"),
                    );
                }
                // Dropped before the completion is taken, which would be lost where that panics.
                (FutureState::FinishedRequest(_), Some(own)) => {
                    drop(state);
                    self.waits = true;
                    drop(own);
                }
                (FutureState::Abandoned, _) => unreachable!("it is polled, so not dropped"),
            }
        }
    }
}

impl<P: Platform> Drop for IoFuture<P> {
    fn drop(&mut self) {
        if self.is_over || self.mailbox.is_forked() {
            return;
        }
        let was = mem::replace(&mut *self.cell.state.lock(), FutureState::Abandoned);
        let FutureState::Pending { waker, id } = was else { return };
        // Without an id it is still in the mailbox, where the queue sees that it is abandoned.
        if let Some(id) = id {
            // Where the queue is gone, so is the request.
            drop(self.mailbox.send(Message::Cancel(id)));
        }
        // A panic of the waker's destructor is dropped: this thread may be unwinding.
        drop(user::discard(waker));
    }
}

impl<P: Platform> fmt::Debug for IoFuture<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoFuture").field("is_over", &self.is_over).finish()
    }
}
