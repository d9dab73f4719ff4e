//! The life of a queue's requests: accepted, started, retried, ended.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use coreshard_platform::{Platform, Time};

use super::admission::Admission;
use super::device_channel::DeviceChannel;
use super::options::{QueueOptions, RetryPolicy};
use super::outbox::{OnComplete, Outbox};
use super::pending::Pending;
use super::request_id::SlotKey;
use super::slot::{Abort, ActiveRequest, Slots};
use super::timers::{Timer, Timers};
use crate::backend::Completion;
use crate::counters::{Outcome, ThreadCounters};
use crate::request::{Completed, ErrorClass, IoError, Op, Request};

/// How a request failed: the class and the errno.
type Failure = (ErrorClass, i32);

pub(super) struct Requests<P: Platform> {
    pub(super) channel: DeviceChannel<P>,
    pub(super) outbox: Outbox<P>,
    admission: Admission<P>,
    counters: ThreadCounters<P>,
    options: QueueOptions,
    slots: Slots<P>,
    pending: Pending,
    /// Requests that the channel had no room for. Some may have ended.
    stalled: VecDeque<SlotKey>,
    /// Requests that have a tag.
    in_flight: u32,
    timers: Timers,
    serial: u64,
    is_closing: bool,
}

impl<P: Platform> Requests<P> {
    pub(super) fn new(
        channel: DeviceChannel<P>,
        admission: Admission<P>,
        counters: ThreadCounters<P>,
        options: QueueOptions,
    ) -> Self {
        Self {
            channel,
            outbox: Outbox::new(),
            admission,
            counters,
            options: QueueOptions { depth: options.depth.max(1), ..options },
            slots: Slots::new(),
            pending: Pending::new(options.best_effort_share, options.idle_share),
            stalled: VecDeque::new(),
            in_flight: 0,
            timers: Timers::default(),
            serial: 0,
            is_closing: false,
        }
    }

    /// Returns how many requests were accepted and have not ended.
    pub(super) fn outstanding(&self) -> usize {
        self.in_flight as usize + self.pending.len()
    }

    /// Returns how many entries of the pending queues and of the timers were visited.
    pub(super) fn visits(&self) -> (u64, u64) {
        (self.pending.visits(), self.timers.visits())
    }

    /// Returns the key that the next accepted request gets.
    #[inline]
    pub(super) fn next_key(&self) -> SlotKey {
        SlotKey { serial: self.serial + 1, index: self.slots.next() }
    }

    #[inline]
    pub(super) fn accept(&mut self, request: Request, on_complete: OnComplete<P>) -> SlotKey {
        self.serial += 1;
        let serial = self.serial;
        let (timeout, priority) = (request.timeout, request.priority);
        let permit = if self.pending.is_empty() && self.in_flight < self.options.depth {
            self.admission.get()
        } else {
            None
        };
        let has_permit = permit.is_some();
        let index = self.slots.put(|| ActiveRequest::new(permit, serial, request, on_complete));
        let key = SlotKey { serial, index };
        if let Some(timeout) = timeout {
            self.set_timer(index, P::now() + timeout, Timer::Deadline);
        }
        if has_permit {
            self.issue(index);
            self.channel.flush_batch();
        } else {
            self.pending.push(priority, key);
        }
        key
    }

    /// Starts a request that just got its permit.
    #[inline(always)]
    fn issue(&mut self, index: u32) {
        self.in_flight += 1;
        self.counters.issued();
        self.start(index);
    }

    /// Starts the rest of a request on the channel, or stalls it until the channel has room.
    #[inline]
    fn start(&mut self, index: u32) {
        if !self.try_start(index) {
            let serial = self.slots.get(index).serial;
            self.stalled.push_back(SlotKey { serial, index });
        }
    }

    /// As `start`, for a request that the device had before.
    #[cold]
    fn start_again(&mut self, index: u32) {
        self.start(index);
    }

    /// As `start`. Returns false if the channel has no room.
    #[inline(always)]
    fn try_start(&mut self, index: u32) -> bool {
        let (id, request) = self.slots.get_with_id(index);
        self.channel.start(id, request)
    }

    /// Handles timers and completions, and starts waiting requests.
    #[inline]
    pub(super) fn advance(&mut self) {
        if !self.timers.is_empty() {
            self.fire_timers();
        }
        self.channel.reap();
        while let Some(completion) = self.channel.next_completion() {
            self.complete(completion);
        }
        if !self.stalled.is_empty() {
            self.start_stalled();
        }
        if !self.pending.is_empty() || self.admission.is_waiting() {
            self.dispatch();
        }
        self.outbox.notify();
    }

    /// Sleeps until a command completes, the channel is woken, `timeout` expires, or the next timer is due.
    pub(super) fn sleep(&mut self, timeout: Option<Duration>) {
        let due = self.timers.next_due().map(|at| at - P::now());
        let timeout = timeout.into_iter().chain(due).min();
        if self.channel.wait(timeout).is_err() {
            self.channel.device().set_offline();
        }
    }

    /// Starts stalled requests, as long as the channel has room.
    #[cold]
    fn start_stalled(&mut self) {
        while let Some(key) = self.stalled.front().copied() {
            let waits = self.slots.find(key).is_some_and(|request| !request.buffers.is_lent());
            if waits && !self.try_start(key.index) {
                return;
            }
            self.stalled.pop_front();
        }
    }

    /// Starts pending requests, as long as there are tags.
    fn dispatch(&mut self) {
        if !self.channel.device().is_online() {
            while let Some(key) = self.pending.pop(|key| self.slots.waits_for_tag(key)) {
                self.fail(key.index, (ErrorClass::Gone, libc::ENODEV));
            }
        }
        while !self.pending.is_empty() && self.in_flight < self.options.depth {
            let Some(permit) = self.admission.get_or_wait() else { return };
            let key = self.pending.pop(|key| self.slots.waits_for_tag(key));
            let index = key.expect("the queue is not empty").index;
            self.slots.get_mut(index).permit = Some(permit);
            self.issue(index);
        }
        // No request waits any more, so other queues may have the tags.
        self.admission.stop_waiting();
    }

    /// Sets a timer for a request that has not ended.
    fn set_timer(&mut self, index: u32, at: Time, timer: Timer) {
        let request = self.slots.get_mut(index);
        request.timers += 1;
        let key = SlotKey { serial: request.serial, index };
        self.timers.set(at, key, timer, |key| self.slots.find(key).is_some());
    }

    fn fire_timers(&mut self) {
        let now = P::now();
        while let Some((key, timer)) = self.timers.pop(now) {
            if self.slots.find(key).is_none() {
                continue;
            }
            self.slots.get_mut(key.index).timers -= 1;
            self.timers.forget(1);
            match timer {
                Timer::Deadline => self.abort(key, Abort::TimedOut),
                Timer::Retry if self.channel.device().is_online() => self.start_again(key.index),
                Timer::Retry => self.fail(key.index, (ErrorClass::Gone, libc::ENODEV)),
            }
        }
    }

    /// Handles a completion.
    #[inline]
    fn complete(&mut self, completion: Completion) {
        let Some((index, request)) = self.slots.at_device(completion.id) else { return };
        self.channel.take_back(request);
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
        if is_whole { self.end_request(index, Ok(())) } else { self.short_transfer(index, moved) }
    }

    #[cold]
    fn short_transfer(&mut self, index: u32, moved: usize) {
        let block_bytes = self.channel.device().geometry().block_bytes.max(1) as usize;
        let request = self.slots.get(index);
        if request.op == Op::Read && !moved.is_multiple_of(block_bytes) {
            // The file ends within a block, and the device reads only whole blocks.
            self.end_request(index, Ok(()));
        } else if moved == 0 {
            self.command_failed(index, libc::EIO);
        } else if request.abort != Abort::None || self.is_closing {
            self.command_failed(index, libc::ECANCELED);
        } else {
            self.start_again(index);
        }
    }

    #[cold]
    fn command_failed(&mut self, index: u32, errno: i32) {
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
        let may_retry = request.attempts <= retries
            && request.abort == Abort::None
            && self.channel.device().is_online()
            && !self.is_closing;
        match class {
            ErrorClass::Gone => self.channel.device().set_offline(),
            ErrorClass::Transient if may_retry => {
                let wait = backoff.saturating_mul(1 << (request.attempts - 1).min(10));
                return self.set_timer(index, P::now() + wait, Timer::Retry);
            }
            _ if may_retry => return self.start_again(index),
            _ => {}
        }
        let errno = if class == ErrorClass::Timeout { libc::ETIMEDOUT } else { errno };
        self.fail(index, (class, errno));
    }

    /// Ends a request: releases its tag and delivers its completion. The request must be in no wait queue.
    #[inline]
    fn end_request(&mut self, index: u32, result: Result<(), Failure>) {
        let request = self.slots.take(index);
        let ActiveRequest { permit, op, offset, bytes, mut buffers, moved, .. } = request;
        let ActiveRequest { attempts, timers, on_complete, .. } = request;
        let payload = buffers.take();
        // They are empty, but the compiler does not know that there is nothing to drop.
        mem::forget(buffers);
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
            let name = self.channel.device().name();
            IoError::new(name, op, offset, bytes, moved, class, errno, attempts)
        });
        self.outbox.deliver(on_complete, Completed { result, payload, op, offset, cookie: 0 });
    }

    /// As `end_request`, for a request that failed.
    #[cold]
    #[inline(never)]
    fn fail(&mut self, index: u32, failure: Failure) {
        self.end_request(index, Err(failure));
    }

    /// Cancels a request, wherever it is. Does nothing if it has ended.
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
        let (id, request) = self.slots.get_with_id(index);
        if request.permit.is_none() {
            let priority = request.priority;
            self.fail(index, failure);
            self.pending.left_early(priority, |key| self.slots.waits_for_tag(key));
            return;
        }
        if request.abort == Abort::None {
            request.abort = abort;
        }
        if request.buffers.is_lent() {
            self.channel.cancel(id);
        } else {
            // It waits for a retry or for room, and is skipped there.
            self.fail(index, failure);
        }
    }

    /// Cancels all requests, and retries none from now on.
    pub(super) fn close(&mut self) {
        self.is_closing = true;
        self.slots.keys().into_iter().for_each(|key| self.abort(key, Abort::Cancelled));
        self.outbox.notify();
    }

    /// Cancels the commands at the device once more. A command that was done but not reported at the first
    /// cancel is reported at another.
    pub(super) fn cancel_again(&mut self) {
        for key in self.slots.keys() {
            let (id, request) = self.slots.get_with_id(key.index);
            if request.buffers.is_lent() {
                self.channel.cancel(id);
            }
        }
    }

    /// Gives up on a device that will never answer. All requests fail, and buffers at the device are leaked.
    /// Their tags are released, so that other devices do not wait for them. Commands are not identified by
    /// tags, so the tags can be reused.
    #[cold]
    pub(super) fn abandon(&mut self) {
        self.channel.device().set_offline();
        for SlotKey { index, .. } in self.slots.keys() {
            let request = self.slots.get_mut(index);
            let errno = if request.buffers.is_lent() {
                request.leak_buffers();
                libc::ETIMEDOUT
            } else {
                libc::ENODEV
            };
            self.fail(index, (ErrorClass::Gone, errno));
        }
        self.outbox.notify();
    }

    /// Forgets everything in a process that was forked from the queue's, without calling or dropping
    /// anything. Nothing is outstanding afterwards.
    #[cold]
    pub(super) fn disown(&mut self) {
        mem::forget(mem::replace(&mut self.slots, Slots::new()));
        self.outbox.disown();
        self.channel.disown();
        self.pending = Pending::new(self.options.best_effort_share, self.options.idle_share);
        self.stalled = VecDeque::new();
        self.timers = Timers::default();
        self.in_flight = 0;
    }
}
