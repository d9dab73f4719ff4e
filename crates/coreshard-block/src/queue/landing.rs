//! From a completion to whoever takes it: what is tried again, what is over, and how it is told.

use coreshard_platform::{Platform, user};

use super::Queue;
use super::options::RetryPolicy;
use super::slot::{End, Key, Over, Then};
use super::timers::Timer;
use crate::backend::Completion;
use crate::counters::Outcome;
use crate::error::{ErrorClass, IoError};
use crate::request::{Completed, Op};

/// How a request ended that did not end well.
pub(super) type Failure = (ErrorClass, i32);

impl<P: Platform> Queue<P> {
    /// Takes what the device has completed. Where a channel panics in between, the next look goes on with
    /// what is left.
    #[inline]
    pub(super) fn reap(&mut self) {
        self.channel.reap(&mut self.completions);
        while let Some(completion) = self.completions.get(self.landed).copied() {
            self.landed += 1;
            self.land(completion);
        }
        self.completions.clear();
        self.landed = 0;
    }

    /// A completion was seen.
    #[inline]
    fn land(&mut self, completion: Completion) {
        let Some((index, flight)) = self.slots.at_device(completion.id) else { return };
        flight.memory.take_back();
        self.at_device -= 1;
        let Ok(moved) = usize::try_from(completion.result) else {
            return self.land_badly(index, completion.result.saturating_neg());
        };
        let is_whole = match flight.op {
            Op::Read | Op::Write => {
                flight.moved += moved;
                flight.moved >= flight.bytes || moved == 0 && flight.op == Op::Read
            }
            _ => true,
        };
        if is_whole { self.finish(index, Ok(())) } else { self.land_short(index, moved) }
    }

    #[cold]
    fn land_short(&mut self, index: u32, moved: usize) {
        if moved == 0 {
            self.land_badly(index, libc::EIO);
        } else if self.slots.get(index).end != End::Natural || self.closing {
            self.land_badly(index, libc::ECANCELED);
        } else {
            self.start_again(index);
        }
    }

    #[cold]
    fn land_badly(&mut self, index: u32, errno: i32) {
        let online = self.device.is_online();
        let RetryPolicy { transient, media, backoff } = self.options.retry;
        let flight = self.slots.get(index);
        let class = match (ErrorClass::of_errno(errno), flight.end) {
            (ErrorClass::Cancelled, End::TimedOut) => ErrorClass::Timeout,
            (class, _) => class,
        };
        let retries = match class {
            ErrorClass::Transient => transient,
            ErrorClass::Media => media,
            _ => 0,
        };
        if class == ErrorClass::Gone {
            self.device.set_offline();
        } else if flight.attempts <= retries
            && flight.end == End::Natural
            && online
            && !self.closing
        {
            if class == ErrorClass::Transient {
                let wait = backoff.saturating_mul(1 << (flight.attempts - 1).min(10));
                self.set_timer(index, P::now() + wait, Timer::Retry);
            } else {
                self.start_again(index);
            }
            return;
        }
        let errno = if class == ErrorClass::Timeout { libc::ETIMEDOUT } else { errno };
        self.fail(index, (class, errno));
    }

    /// A request is over: its tag goes back, and its completion to whoever takes it. A request that
    /// stands in line is out of it already.
    #[inline]
    fn finish(&mut self, index: u32, result: Result<(), Failure>) {
        let Over { payload, permit, op, offset, bytes, moved, attempts, timers, then } =
            self.slots.take(index);
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
        self.deliver(then, Completed { result, payload, op, offset, cookie: 0 });
    }

    /// As `finish`, for a request that did not end well.
    #[cold]
    #[inline(never)]
    pub(super) fn fail(&mut self, index: u32, failure: Failure) {
        self.finish(index, Err(failure));
    }

    /// A request that the device has, and will never be done with: its buffers are given up. Its tag goes back,
    /// so that other devices do not wait for this one: nothing is named by it, at the device or here.
    pub(super) fn give_up(&mut self, key: Key) {
        self.slots.get_mut(key.index).give_up_memory();
        self.fail(key.index, (ErrorClass::Gone, libc::ETIMEDOUT));
    }

    #[inline]
    fn deliver(&mut self, then: Then<P>, mut completed: Completed) {
        self.delivered += 1;
        match then {
            Then::Cookie(cookie) => {
                completed.cookie = cookie;
                self.done.push_back(completed);
            }
            // What is a user's is called when everything here is settled.
            then => self.outbox.push_back((then, completed)),
        }
    }

    /// Tells callbacks and futures, each in front of a net: what one of them throws is kept, and the
    /// others are told all the same.
    pub(super) fn tell(&mut self) {
        while let Some((then, completed)) = self.outbox.pop_front() {
            let told = match then {
                Then::Call(call) => user::call(|| call(completed)),
                Then::Future(cell) => cell.complete(completed),
                Then::Cookie(_) => unreachable!("it is in the list of what is done"),
            };
            if let Err(thrown) = told {
                self.thrown.get_or_insert(thrown);
            }
        }
    }

    /// Has a request end before its time, wherever it is. Of one that is over, and of another queue's, it
    /// finds nothing.
    #[cold]
    pub(super) fn end(&mut self, key: Key, end: End) {
        let failure = match end {
            End::TimedOut => (ErrorClass::Timeout, libc::ETIMEDOUT),
            _ => (ErrorClass::Cancelled, libc::ECANCELED),
        };
        if self.slots.find(key).is_none() {
            return;
        }
        let index = key.index;
        let id = self.slots.command_id(index);
        let flight = self.slots.get_mut(index);
        if flight.permit.is_none() {
            let priority = flight.priority;
            self.fail(index, failure);
            let Self { pending, slots, .. } = self;
            pending.one_left(priority, |key| slots.is_in_line(key));
            return;
        }
        if flight.end == End::Natural {
            flight.end = end;
        }
        if flight.memory.is_lent() {
            self.channel.cancel(id);
            self.staged += 1;
        } else {
            // It waits for a retry, or for room; whoever gets to it there passes over it.
            self.fail(index, failure);
        }
    }
}
