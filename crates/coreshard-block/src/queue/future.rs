//! Futures of requests, and the way from other threads to a queue.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::task::{Context, Poll, Waker as TaskWaker};

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{AtomicInt, Lock, Platform};

use super::options::RequestId;
use crate::backend::Waker;
use crate::error::IoError;
use crate::request::{Completed, Request};

enum FutureState {
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
    state: Lock<P, FutureState>,
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

/// The completion of a request, in time. Dropping it cancels the request; until the device is done
/// with them, the layer keeps the buffers. Leaking it leaks the completion, nothing else.
#[must_use = "a request whose future is dropped is cancelled"]
pub struct IoFuture<P: Platform> {
    cell: Arc<FutureCell<P>>,
    mailbox: Arc<Mailbox<P>>,
    /// It has left a waker, or found that it needs none.
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
        // At first it is seldom over, and then it is: so each look mostly finds what it is prepared for.
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
        if self.is_over {
            return;
        }
        let was = mem::replace(&mut *self.cell.state.lock(), FutureState::Abandoned);
        let FutureState::Pending { waker, id } = was else { return };
        // Without a name it is still in the mailbox, where the queue sees that it is abandoned.
        if let Some(id) = id {
            // Where the queue is gone, so is the request.
            drop(self.mailbox.send(Message::Cancel(id)));
        }
        // What a waker's destructor throws has no place to go to: its thread may be unwinding.
        drop(user::discard(waker));
    }
}

impl<P: Platform> fmt::Debug for IoFuture<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoFuture").field("is_over", &self.is_over).finish()
    }
}

pub(super) enum Message<P: Platform> {
    Submit(Request, Arc<FutureCell<P>>),
    Cancel(RequestId),
}

struct MailboxState<P: Platform> {
    waiting: VecDeque<Message<P>>,
    /// The queue is gone: nobody reads any more.
    closed: bool,
}

/// Where other threads leave messages for a queue's thread.
pub(super) struct Mailbox<P: Platform> {
    letters: Lock<P, MailboxState<P>>,
    /// Whether there may be any: read at each poll, written only when there are.
    any: P::AtomicU32,
    waker: Waker,
}

impl<P: Platform> Mailbox<P> {
    pub(super) fn new(waker: Waker) -> Arc<Self> {
        let letters = Lock::new(MailboxState { waiting: VecDeque::new(), closed: false });
        Arc::new(Self { letters, any: P::AtomicU32::new(0), waker })
    }

    /// Hands the message back where nobody reads any more.
    fn send(&self, message: Message<P>) -> Result<(), Message<P>> {
        {
            let mut letters = self.letters.lock();
            if letters.closed {
                return Err(message);
            }
            letters.waiting.push_back(message);
            // Under the lock, so that it is not taken down again for a message that is there.
            self.any.store(1, Release);
        }
        // The channel may be a user's; what its waker throws is nothing to whoever sends.
        drop(user::call(|| (self.waker)()));
        Ok(())
    }

    /// Whether there may be messages.
    #[inline]
    pub(super) fn has_any(&self) -> bool {
        self.any.load(Relaxed) != 0
    }

    pub(super) fn take(&self, into: &mut VecDeque<Message<P>>) {
        let mut letters = self.letters.lock();
        self.any.store(0, Relaxed);
        into.append(&mut letters.waiting);
    }

    pub(super) fn close(&self, into: &mut VecDeque<Message<P>>) {
        let mut letters = self.letters.lock();
        letters.closed = true;
        into.append(&mut letters.waiting);
    }
}

/// A queue as other threads, and futures on its own, reach it: requests go to the queue's thread by
/// message, and their completions come back by future. May be cloned and sent.
pub struct RemoteQueue<P: Platform> {
    mailbox: Arc<Mailbox<P>>,
    name: Arc<str>,
}

impl<P: Platform> RemoteQueue<P> {
    pub(super) fn new(mailbox: Arc<Mailbox<P>>, name: &str) -> Self {
        Self { mailbox, name: name.into() }
    }

    /// Has the queue's thread submit `request`. Where it is refused, or the queue is gone, the
    /// future says so, with the payload.
    pub fn send(&self, request: Request) -> IoFuture<P> {
        let cell = FutureCell::new();
        let message = Message::Submit(request, Arc::clone(&cell));
        let future = IoFuture::new(cell, Arc::clone(&self.mailbox));
        if let Err(Message::Submit(request, cell)) = self.mailbox.send(message) {
            // Nobody waits for it yet, so no waker is called.
            drop(cell.complete(refused_completion(&self.name, request)));
        }
        future
    }
}

/// The completion of a request whose queue is gone.
pub(super) fn refused_completion(device: &str, request: Request) -> Completed {
    let Request { op, offset, bytes, payload, .. } = request;
    let class = crate::error::ErrorClass::Cancelled;
    let error = IoError::new(device, op, offset, bytes, 0, class, libc::ECANCELED, 0);
    Completed { result: Err(error), payload, op, offset, cookie: 0 }
}

impl<P: Platform> Clone for RemoteQueue<P> {
    fn clone(&self) -> Self {
        Self { mailbox: Arc::clone(&self.mailbox), name: Arc::clone(&self.name) }
    }
}

impl<P: Platform> fmt::Debug for RemoteQueue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteQueue").field("name", &self.name).finish()
    }
}
