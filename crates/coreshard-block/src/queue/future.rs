//! Futures of requests, and the way from other threads to a queue.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::task::{Context, Poll, Waker as TaskWaker};

use coreshard_platform::{AtomicInt, Lock, Platform};

use super::options::RequestId;
use crate::backend::Waker;
use crate::error::IoError;
use crate::request::{Completed, Request};

enum State {
    Pending(Option<TaskWaker>),
    Over(Option<Box<Completed>>),
    /// Nobody waits for it any more.
    Abandoned,
}

/// What a future shares with the queue.
pub(super) struct FutureCell<P: Platform> {
    state: Lock<P, State>,
    /// The request's serial number once the queue has it, else 0.
    serial: P::AtomicU64,
}

impl<P: Platform> FutureCell<P> {
    pub(super) fn new() -> Arc<Self> {
        let state = Lock::new(State::Pending(None));
        Arc::new(Self { state, serial: P::AtomicU64::new(0) })
    }

    /// The queue is about to take the request under this number. False where nobody waits for it any
    /// more: then it need not.
    pub(super) fn accepted(&self, serial: u64) -> bool {
        // Both under the lock: whoever abandons the future later finds the number, to cancel by.
        let state = self.state.lock();
        self.serial.store(serial, Release);
        !matches!(*state, State::Abandoned)
    }

    /// Leaves the completion, or drops it and its buffers where nobody waits.
    pub(super) fn complete(&self, completed: Completed) {
        let mut state = self.state.lock();
        let waker = match &mut *state {
            State::Pending(waker) => waker.take(),
            State::Abandoned | State::Over(_) => {
                drop(state);
                drop(completed);
                return;
            }
        };
        *state = State::Over(Some(Box::new(completed)));
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The completion of a request, in time. Dropping it cancels the request; until the device is done
/// with them, the layer keeps the buffers. Leaking it leaks the completion, nothing else.
#[must_use = "a request whose future is dropped is cancelled"]
pub struct IoFuture<P: Platform> {
    cell: Arc<FutureCell<P>>,
    inbox: Arc<Inbox<P>>,
    is_over: bool,
}

impl<P: Platform> IoFuture<P> {
    pub(super) fn new(cell: Arc<FutureCell<P>>, inbox: Arc<Inbox<P>>) -> Self {
        Self { cell, inbox, is_over: false }
    }
}

impl<P: Platform> Future for IoFuture<P> {
    type Output = Completed;

    /// # Panics
    /// Where it is polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completed> {
        let completed = match &mut *self.cell.state.lock() {
            State::Pending(waker) => {
                *waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            State::Over(completed) => {
                completed.take().expect("a future is not polled after it was ready")
            }
            State::Abandoned => unreachable!("only the drop abandons"),
        };
        self.is_over = true;
        Poll::Ready(*completed)
    }
}

impl<P: Platform> Drop for IoFuture<P> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let was = std::mem::replace(&mut *self.cell.state.lock(), State::Abandoned);
        if matches!(was, State::Pending(_)) {
            let serial = self.cell.serial.load(Acquire);
            // Without a number it is still in the inbox, where the queue sees that it is abandoned.
            if serial != 0 {
                self.inbox.send(Message::Cancel(RequestId(serial)));
            }
        }
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

struct Letters<P: Platform> {
    waiting: Vec<Message<P>>,
    /// The queue is gone: nobody reads any more.
    closed: bool,
}

/// Where other threads leave messages for a queue's thread.
pub(super) struct Inbox<P: Platform> {
    letters: Lock<P, Letters<P>>,
    /// Whether there may be any: read at each poll, written only when there are.
    any: P::AtomicU32,
    waker: Waker,
}

impl<P: Platform> Inbox<P> {
    pub(super) fn new(waker: Waker) -> Arc<Self> {
        let letters = Lock::new(Letters { waiting: Vec::new(), closed: false });
        Arc::new(Self { letters, any: P::AtomicU32::new(0), waker })
    }

    /// False where nobody reads any more; then the message is dropped.
    fn send(&self, message: Message<P>) -> bool {
        {
            let mut letters = self.letters.lock();
            if letters.closed {
                return false;
            }
            letters.waiting.push(message);
            // Under the lock, so that it is not taken down again for a message that is there.
            self.any.store(1, Release);
        }
        (self.waker)();
        true
    }

    #[inline]
    pub(super) fn take(&self) -> Vec<Message<P>> {
        if self.any.load(Relaxed) == 0 {
            return Vec::new();
        }
        let mut letters = self.letters.lock();
        self.any.store(0, Relaxed);
        std::mem::take(&mut letters.waiting)
    }

    pub(super) fn close(&self) -> Vec<Message<P>> {
        let mut letters = self.letters.lock();
        letters.closed = true;
        std::mem::take(&mut letters.waiting)
    }
}

/// A queue as other threads, and futures on its own, reach it: requests go to the queue's thread by
/// message, and their completions come back by future. May be cloned and sent.
pub struct RemoteQueue<P: Platform> {
    inbox: Arc<Inbox<P>>,
    name: Arc<str>,
}

impl<P: Platform> RemoteQueue<P> {
    pub(super) fn new(inbox: Arc<Inbox<P>>, name: &str) -> Self {
        Self { inbox, name: name.into() }
    }

    /// Has the queue's thread submit `request`. Where it is refused, or the queue is gone, the
    /// future says so, with the payload.
    pub fn send(&self, request: Request) -> IoFuture<P> {
        let cell = FutureCell::new();
        let message = Message::Submit(request, Arc::clone(&cell));
        let future = IoFuture::new(cell, Arc::clone(&self.inbox));
        let refused = {
            let mut letters = self.inbox.letters.lock();
            if letters.closed {
                Some(message)
            } else {
                letters.waiting.push(message);
                self.inbox.any.store(1, Release);
                None
            }
        };
        match refused {
            Some(Message::Submit(request, cell)) => {
                cell.complete(refused_completion(&self.name, request));
            }
            _ => (self.inbox.waker)(),
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
        Self { inbox: Arc::clone(&self.inbox), name: Arc::clone(&self.name) }
    }
}

impl<P: Platform> fmt::Debug for RemoteQueue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteQueue").field("name", &self.name).finish()
    }
}
