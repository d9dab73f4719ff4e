//! A queue's interface to other threads and futures: messages to its thread, and completions back.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::task::{Context, Poll, Waker as TaskWaker};
use std::{fmt, mem};

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{AtomicInt, Lock, Platform};

use super::request_id::RequestId;
use crate::backend::Waker;
use crate::request::{Completed, Request};

/// A handle to a queue for other threads, and for futures on the queue's own.
///
/// Requests go to the queue's thread as messages, and completions come back through futures. Can be cloned
/// and sent.
pub struct RemoteQueue<P: Platform> {
    mailbox: Arc<Mailbox<P>>,
    name: Arc<str>,
}

impl<P: Platform> RemoteQueue<P> {
    pub(super) fn new(mailbox: Arc<Mailbox<P>>, name: &str) -> Self {
        Self { mailbox, name: name.into() }
    }

    /// Submits `request` on the queue's thread.
    ///
    /// If it is refused, or the queue has been dropped, the future returns an error with the payload.
    pub fn send(&self, request: Request) -> IoFuture<P> {
        let cell = FutureCell::new();
        let message = Message::Submit(request, Arc::clone(&cell));
        let future = IoFuture::new(cell, Arc::clone(&self.mailbox));
        if let Err(Message::Submit(request, cell)) = self.mailbox.send(message) {
            // Nothing waits for it yet, so no waker is called.
            drop(cell.complete(Completed::cancelled(&self.name, request)));
        }
        future
    }
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

pub(super) enum Message<P: Platform> {
    Submit(Request, Arc<FutureCell<P>>),
    Cancel(RequestId),
}

struct MailboxState<P: Platform> {
    messages: VecDeque<Message<P>>,
    /// Whether the queue has been dropped.
    closed: bool,
}

/// Messages for a queue's thread.
pub(super) struct Mailbox<P: Platform> {
    state: Lock<P, MailboxState<P>>,
    /// 1 if there may be messages. Read at each poll, and written only if there are some.
    is_nonempty: P::AtomicU32,
    waker: Waker,
    /// The generation of the queue's process.
    process_generation: u32,
}

impl<P: Platform> Mailbox<P> {
    pub(super) fn new(waker: Waker) -> Arc<Self> {
        let state = Lock::new(MailboxState { messages: VecDeque::new(), closed: false });
        let process_generation = P::process_generation();
        Arc::new(Self { state, is_nonempty: P::AtomicU32::new(0), waker, process_generation })
    }

    /// Returns true in a process that was forked from the queue's. The lock may be held by a thread that does
    /// not exist here.
    pub(super) fn is_forked(&self) -> bool {
        P::process_generation() != self.process_generation
    }

    /// Sends a message. Returns it if the queue has been dropped, or belongs to another process.
    pub(super) fn send(&self, message: Message<P>) -> Result<(), Message<P>> {
        if self.is_forked() {
            return Err(message);
        }
        {
            let mut state = self.state.lock();
            if state.closed {
                return Err(message);
            }
            state.messages.push_back(message);
            // Under the lock, so that the flag is not cleared while the message is in the list.
            self.is_nonempty.store(1, Release);
        }
        // The channel may be user code; a panic of its waker does not concern the sender.
        drop(user::call(|| (self.waker)()));
        Ok(())
    }

    /// Returns whether there may be messages.
    #[inline]
    pub(super) fn has_messages(&self) -> bool {
        self.is_nonempty.load(Relaxed) != 0
    }

    pub(super) fn take(&self, into: &mut VecDeque<Message<P>>) {
        let mut state = self.state.lock();
        self.is_nonempty.store(0, Relaxed);
        into.append(&mut state.messages);
    }

    pub(super) fn close(&self, into: &mut VecDeque<Message<P>>) {
        let mut state = self.state.lock();
        state.closed = true;
        into.append(&mut state.messages);
    }
}

pub(super) enum FutureState {
    Pending {
        /// Cloned, woken and dropped outside the lock.
        waker: Option<TaskWaker>,
        /// Set once the queue has accepted the request.
        id: Option<RequestId>,
    },
    FinishedRequest(Option<Completed>),
    /// The future was dropped.
    Abandoned,
}

/// State that a future shares with the queue.
pub(super) struct FutureCell<P: Platform> {
    pub(super) state: Lock<P, FutureState>,
}

impl<P: Platform> FutureCell<P> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Lock::new(FutureState::Pending { waker: None, id: None }) })
    }

    /// Records that the queue is about to accept the request with this id. Returns false if the future was
    /// dropped: the request is not accepted then, and the id goes to the next one. A dropped future therefore
    /// takes its request's id only from the state that it replaces.
    pub(super) fn accepted(&self, request: RequestId) -> bool {
        match &mut *self.state.lock() {
            FutureState::Pending { id, .. } => {
                *id = Some(request);
                true
            }
            FutureState::FinishedRequest(_) | FutureState::Abandoned => false,
        }
    }

    /// Stores the completion, or drops it with its buffers if the future was dropped. Fails if the waker
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

/// A future of a request's completion.
///
/// Dropping it cancels the request; the layer keeps the buffers until the device has finished with them.
/// Leaking it leaks only the completion.
#[must_use = "a request whose future is dropped is cancelled"]
pub struct IoFuture<P: Platform> {
    cell: Arc<FutureCell<P>>,
    mailbox: Arc<Mailbox<P>>,
    /// Whether it has stored a waker, or needs none.
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
    /// If it is polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completed> {
        // In a forked process, the holder of the lock may not exist, and the completion never comes.
        if self.mailbox.is_forked() && self.cell.state.try_lock().is_none() {
            return Poll::Pending;
        }
        // The first poll rarely finds the completion, later ones mostly do. So a waker is cloned only at the
        // first.
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
                // Dropped before the completion is taken, which would be lost if the drop panics.
                (FutureState::FinishedRequest(_), Some(own)) => {
                    drop(state);
                    self.waits = true;
                    drop(own);
                }
                (FutureState::Abandoned, _) => unreachable!("a polled future was not dropped"),
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
        // Without an id, the request is still in the mailbox, where the queue sees that it is abandoned.
        if let Some(id) = id {
            // A dropped queue has ended the request.
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
