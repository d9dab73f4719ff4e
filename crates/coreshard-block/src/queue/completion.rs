//! What follows a completion: a retry, or the end of the request and its notification.

use coreshard_platform::{Platform, user};

use super::Queue;
use super::options::RetryPolicy;
use super::request_id::SlotKey;
use super::slot::{Abort, FinishedRequest, OnComplete};
use super::timers::Timer;
use crate::backend::Completion;
use crate::counters::Outcome;
use crate::request::{Completed, ErrorClass, IoError, Op};

/// How a request failed: the class, and the errno.
pub(super) type Failure = (ErrorClass, i32);

impl<P: Platform> Queue<P> {
    /// Handles what the device has completed. Where a channel panics in between, the next poll goes on with
    /// the rest.
    #[inline]
    pub(super) fn reap(&mut self) {
        self.channel.reap(&mut self.completions);
        while let Some(completion) = self.completions.get(self.handled).copied() {
            self.handled += 1;
            self.complete(completion);
        }
        self.completions.clear();
        self.handled = 0;
    }

    /// A completion was seen.
    #[inline]
    fn complete(&mut self, completion: Completion) {
        let Some((index, request)) = self.slots.at_device(completion.id) else { return };
        request.buffers.take_back();
        self.at_device -= 1;
        let Ok(moved) = usize::try_from(completion.result) else {
            return self.command_failed(index, completion.result.saturating_neg());
        };
        let is_whole = match request.op {
            Op::Read | Op::Write => {
                request.moved += moved;
                request.moved >= request.bytes || moved == 0 && request.op == Op::Read
            }
            _ => true,
        };
        if is_whole { self.finish(index, Ok(())) } else { self.short_transfer(index, moved) }
    }

    #[cold]
    fn short_transfer(&mut self, index: u32, moved: usize) {
        let block_bytes = self.device.geometry().block_bytes.max(1) as usize;
        if self.slots.get(index).op == Op::Read && !moved.is_multiple_of(block_bytes) {
            // The file ends within a block, and the device can be asked for whole ones alone.
            self.finish(index, Ok(()));
        } else if moved == 0 {
            self.command_failed(index, libc::EIO);
        } else if self.slots.get(index).abort != Abort::None || self.closing {
            self.command_failed(index, libc::ECANCELED);
        } else {
            self.start_again(index);
        }
    }

    #[cold]
    fn command_failed(&mut self, index: u32, errno: i32) {
        let online = self.device.is_online();
        let RetryPolicy { transient, media, backoff } = self.options.retry;
        let request = self.slots.get(index);
        let class = match (ErrorClass::of_errno(errno), request.abort) {
            (ErrorClass::Cancelled, Abort::TimedOut) => ErrorClass::Timeout,
            (class, _) => class,
        };
        let retries = match class {
            ErrorClass::Transient => transient,
            ErrorClass::Media => media,
            _ => 0,
        };
        if class == ErrorClass::Gone {
            self.device.set_offline();
        } else if request.attempts <= retries
            && request.abort == Abort::None
            && online
            && !self.closing
        {
            if class == ErrorClass::Transient {
                let wait = backoff.saturating_mul(1 << (request.attempts - 1).min(10));
                self.set_timer(index, P::now() + wait, Timer::Retry);
            } else {
                self.start_again(index);
            }
            return;
        }
        let errno = if class == ErrorClass::Timeout { libc::ETIMEDOUT } else { errno };
        self.fail(index, (class, errno));
    }

    /// Ends a request: its tag goes back, and its completion is delivered. It is in no wait queue any more.
    #[inline]
    fn finish(&mut self, index: u32, result: Result<(), Failure>) {
        let FinishedRequest {
            payload,
            permit,
            op,
            offset,
            bytes,
            moved,
            attempts,
            timers,
            on_complete,
        } = self.slots.take(index);
        self.timers.forget(timers);
        if let Some(permit) = permit {
            self.in_flight -= 1;
            self.counters.done(match result {
                Ok(()) => Outcome::Success,
                Err((ErrorClass::Timeout, _)) => Outcome::TimedOut,
                Err(_) => Outcome::Failed,
            });
            self.admission.put(permit);
        }
        let result = result.map(|()| moved).map_err(|(class, errno)| {
            IoError::new(self.device.name(), op, offset, bytes, moved, class, errno, attempts)
        });
        self.deliver(on_complete, Completed { result, payload, op, offset, cookie: 0 });
    }

    /// As `finish`, for a request that failed.
    #[cold]
    #[inline(never)]
    pub(super) fn fail(&mut self, index: u32, failure: Failure) {
        self.finish(index, Err(failure));
    }

    /// Fails a request that the device will never complete: its buffers are leaked. Its tag goes back, so that
    /// other devices do not wait for it; commands are not named by tags, so it can be used again.
    pub(super) fn give_up(&mut self, key: SlotKey) {
        self.slots.get_mut(key.index).leak_buffers();
        self.fail(key.index, (ErrorClass::Gone, libc::ETIMEDOUT));
    }

    #[inline]
    fn deliver(&mut self, on_complete: OnComplete<P>, mut completed: Completed) {
        self.delivered += 1;
        match on_complete {
            OnComplete::Cookie(cookie) => {
                completed.cookie = cookie;
                self.done.push_back(completed);
            }
            // Users' code is called when the queue's state is consistent.
            on_complete => self.to_notify.push_back((on_complete, completed)),
        }
    }

    /// Notifies callbacks and futures. The first panic is kept, and the others are notified all the same.
    pub(super) fn notify(&mut self) {
        while let Some((on_complete, completed)) = self.to_notify.pop_front() {
            let notified = match on_complete {
                OnComplete::Callback(call) => user::call(|| call(completed)),
                OnComplete::Future(cell) => cell.complete(completed),
                OnComplete::Cookie(_) => unreachable!("it is in the list of what is done"),
            };
            if let Err(thrown) = notified {
                self.thrown.get_or_insert(thrown);
            }
        }
    }

    /// Cancels a request, wherever it is. Does nothing to one that is over.
    #[cold]
    pub(super) fn abort(&mut self, key: SlotKey, abort: Abort) {
        let failure = match abort {
            Abort::TimedOut => (ErrorClass::Timeout, libc::ETIMEDOUT),
            _ => (ErrorClass::Cancelled, libc::ECANCELED),
        };
        if self.slots.find(key).is_none() {
            return;
        }
        let index = key.index;
        let id = self.slots.command_id(index);
        let request = self.slots.get_mut(index);
        if request.permit.is_none() {
            let priority = request.priority;
            self.fail(index, failure);
            let Self { pending, slots, .. } = self;
            pending.left_early(priority, |key| slots.waits_for_tag(key));
            return;
        }
        if request.abort == Abort::None {
            request.abort = abort;
        }
        if request.buffers.is_lent() {
            self.channel.cancel(id);
            self.staged += 1;
        } else {
            // It waits for a retry, or for room, and is skipped there.
            self.fail(index, failure);
        }
    }
}
