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
    messages: VecDeque<Message<P>>,
    /// The queue is gone.
    closed: bool,
}

/// Messages for a queue's thread.
pub(super) struct Mailbox<P: Platform> {
    state: Lock<P, MailboxState<P>>,
    /// 1 where there may be messages: read at each poll, written only when there are.
    is_nonempty: P::AtomicU32,
    waker: Waker,
    /// In which process its queue is.
    process_generation: u32,
}

impl<P: Platform> Mailbox<P> {
    pub(super) fn new(waker: Waker) -> Arc<Self> {
        let state = Lock::new(MailboxState { messages: VecDeque::new(), closed: false });
        let process_generation = P::process_generation();
        Arc::new(Self { state, is_nonempty: P::AtomicU32::new(0), waker, process_generation })
    }

    /// True in a process that was forked from the queue's, where the lock may be held by nobody who is here.
    pub(super) fn is_forked(&self) -> bool {
        P::process_generation() != self.process_generation
    }

    /// Hands the message back where the queue is gone, or another process's.
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
            // Under the lock, so that it is not cleared while the message is there.
            self.is_nonempty.store(1, Release);
        }
        // The channel may be a user's; a panic of its waker is not the sender's.
        drop(user::call(|| (self.waker)()));
        Ok(())
    }

    /// Whether there may be messages.
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
