//! Completed requests on their way to their users, and panics of user code.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use coreshard_platform::Platform;
use coreshard_platform::user::{self, Thrown};

use super::remote::FutureCell;
use crate::request::Completed;

/// The receiver of a completion.
pub(super) enum OnComplete<P: Platform> {
    /// The queue's list, with this cookie.
    Cookie(u64),
    /// A callback.
    Callback(Box<dyn FnOnce(Completed)>),
    /// A future, on any thread.
    Future(Arc<FutureCell<P>>),
}

pub(super) struct Outbox<P: Platform> {
    done: VecDeque<Completed>,
    /// Completed requests whose callbacks and futures were not notified yet.
    to_notify: VecDeque<(OnComplete<P>, Completed)>,
    /// The first panic among those.
    thrown: Option<Thrown>,
    delivered: usize,
}

impl<P: Platform> Outbox<P> {
    pub(super) fn new() -> Self {
        Self { done: VecDeque::new(), to_notify: VecDeque::new(), thrown: None, delivered: 0 }
    }

    /// Delivers the completion of a request that was accepted.
    #[inline]
    pub(super) fn deliver(&mut self, on_complete: OnComplete<P>, mut completed: Completed) {
        self.delivered += 1;
        match on_complete {
            OnComplete::Cookie(cookie) => {
                completed.cookie = cookie;
                self.done.push_back(completed);
            }
            // User code is called once the queue's state is consistent.
            on_complete => self.to_notify.push_back((on_complete, completed)),
        }
    }

    /// Completes the future of a request that was not accepted.
    pub(super) fn refuse(&mut self, cell: Arc<FutureCell<P>>, refused: Completed) {
        self.to_notify.push_back((OnComplete::Future(cell), refused));
    }

    /// Notifies callbacks and futures. The first panic is kept, and the others are still notified.
    #[inline]
    pub(super) fn notify(&mut self) {
        while let Some((on_complete, completed)) = self.to_notify.pop_front() {
            let notified = match on_complete {
                OnComplete::Callback(call) => user::call(|| call(completed)),
                OnComplete::Future(cell) => cell.complete(completed),
                OnComplete::Cookie(_) => unreachable!("it is in the list of completions"),
            };
            if let Err(thrown) = notified {
                self.keep(thrown);
            }
        }
    }

    /// Keeps a panic, if it is the first.
    pub(super) fn keep(&mut self, thrown: Thrown) {
        self.thrown.get_or_insert(thrown);
    }

    /// Resumes the kept panic in the caller.
    #[inline]
    pub(super) fn rethrow(&mut self) {
        if let Some(thrown) = self.thrown.take() {
            thrown.resume();
        }
    }

    /// Takes the oldest completion with a cookie.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Completed> {
        self.done.pop_front()
    }

    /// Returns whether a completion with a cookie was not taken yet.
    pub(super) fn has_next(&self) -> bool {
        !self.done.is_empty()
    }

    /// Returns whether anything was delivered since [`take_delivered`](Self::take_delivered).
    #[inline]
    pub(super) fn has_delivered(&self) -> bool {
        self.delivered > 0
    }

    /// Returns how many completions were delivered since the last call.
    #[inline]
    pub(super) fn take_delivered(&mut self) -> usize {
        mem::take(&mut self.delivered)
    }

    /// Forgets everything that belongs to the parent process, without calling or dropping any of it.
    pub(super) fn disown(&mut self) {
        mem::forget(mem::take(&mut self.to_notify));
        mem::forget(self.thrown.take());
    }
}
