//! A queue as other threads reach it.

use std::fmt;
use std::sync::Arc;

use coreshard_platform::Platform;

use super::future::IoFuture;
use super::future_cell::FutureCell;
use super::mailbox::{Mailbox, Message};
use crate::request::{Completed, Request};

/// A handle to a queue for other threads, and for futures on its own: requests go to the queue's thread by
/// message, and completions come back by future. May be cloned and sent.
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
