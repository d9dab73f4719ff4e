//! Messages from other threads to a queue's thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use coreshard_platform::{AtomicInt, Lock, Platform, user};

use super::future_cell::FutureCell;
use super::request_id::RequestId;
use crate::backend::Waker;
use crate::request::Request;

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
    pub(super) fn send(&self, message: Message<P>) -> Result<(), Message<P>> {
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
