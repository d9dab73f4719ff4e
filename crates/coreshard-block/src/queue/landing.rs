//! From a completion to whoever takes it: what is tried again, what is over, and how it is told.

use coreshard_platform::Platform;

use super::Queue;
use super::options::RetryPolicy;
use super::slot::{Accepted, End, Flight, Then};
use super::timers::Timer;
use crate::backend::Reaped;
use crate::counters::Ended;
use crate::error::{ErrorClass, IoError};
use crate::request::{Completed, Op, Request};

impl<P: Platform> Queue<P> {
    /// A completion was seen.
    #[inline]
    pub(super) fn land(&mut self, reaped: Reaped) {
        let index = reaped.id as u32 as usize;
        let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.id(index) == reaped.id)
        else {
            return;
        };
        let Some(flight) = slot.flight.as_mut().filter(|flight| flight.at_device) else { return };
        flight.at_device = false;
        self.at_device -= 1;
        let Ok(moved) = usize::try_from(reaped.result) else {
            return self.land_badly(index, -reaped.result);
        };
        match flight.op {
            Op::Read | Op::Write => {
                flight.moved += moved;
                if flight.moved >= flight.bytes || moved == 0 && flight.op == Op::Read {
                    self.finish(index, Ok(()));
                } else if moved == 0 {
                    self.land_badly(index, libc::EIO);
                } else if flight.end != End::Natural || self.closing {
                    self.land_badly(index, libc::ECANCELED);
                } else {
                    self.start(index);
                }
            }
            _ => self.finish(index, Ok(())),
        }
    }

    #[cold]
    fn land_badly(&mut self, index: usize, errno: i32) {
        let online = self.device.is_online();
        let RetryPolicy { transient, media, backoff } = self.options.retry;
        let slot = &mut self.slots[index];
        let id = slot.id(index);
        let flight = slot.flight.as_mut().expect("it has just landed");
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
                let wait = backoff * (1 << (flight.attempts - 1).min(10));
                self.set_timer(P::now() + wait, Timer::Retry(id));
            } else {
                self.start(index);
            }
            return;
        }
        let errno = if class == ErrorClass::Timeout { libc::ETIMEDOUT } else { errno };
        self.finish(index, Err((class, errno)));
    }

    /// A request is over: its tag goes back, and its completion to whoever takes it.
    #[inline]
    pub(super) fn finish(&mut self, index: usize, result: Result<(), (ErrorClass, i32)>) {
        let flight = self.slots[index].flight.take().expect("only requests in flight are over");
        self.in_flight -= 1;
        let Flight { permit, op, offset, bytes, payload, moved, attempts, then, .. } = flight;
        let ended = match result {
            Ok(()) => Ended::Well,
            Err((ErrorClass::Timeout, _)) => Ended::TimedOut,
            Err(_) => Ended::Failed,
        };
        self.counters.done(ended);
        self.admission.put(permit);
        let result = result.map(|()| moved).map_err(|(class, errno)| {
            IoError::new(self.device.name(), op, offset, bytes, moved, class, errno, attempts)
        });
        self.deliver(then, Completed { result, payload, op, offset, cookie: 0 });
    }

    /// Ends a request that has no tag.
    pub(super) fn give_up(&mut self, accepted: Accepted<P>, class: ErrorClass, errno: i32) {
        let Accepted { request, then, .. } = accepted;
        let Request { op, offset, bytes, payload, .. } = request;
        let error = IoError::new(self.device.name(), op, offset, bytes, 0, class, errno, 0);
        self.deliver(then, Completed { result: Err(error), payload, op, offset, cookie: 0 });
    }

    #[inline]
    fn deliver(&mut self, then: Then<P>, mut completed: Completed) {
        self.delivered += 1;
        match then {
            Then::Cookie(cookie) => {
                completed.cookie = cookie;
                self.done.push_back(completed);
            }
            Then::Call(call) => call(completed),
            Then::Future(cell) => cell.complete(completed),
        }
    }

    /// Has a request end before its time, wherever it is.
    #[cold]
    pub(super) fn end(&mut self, serial: u64, end: End) {
        let (class, errno) = match end {
            End::TimedOut => (ErrorClass::Timeout, libc::ETIMEDOUT),
            _ => (ErrorClass::Cancelled, libc::ECANCELED),
        };
        if let Some(accepted) = self.pending.remove(serial) {
            return self.give_up(accepted, class, errno);
        }
        let found = self.slots.iter_mut().enumerate().find_map(|(index, slot)| {
            let id = slot.id(index);
            let flight = slot.flight.as_mut().filter(|flight| flight.serial == serial)?;
            Some((index, id, flight))
        });
        let Some((index, id, flight)) = found else { return };
        if flight.end == End::Natural {
            flight.end = end;
        }
        if flight.at_device {
            self.lane.cancel(id);
            self.staged += 1;
        } else {
            // It waits for a retry, or for room.
            self.stalled.retain(|stalled| *stalled != index);
            self.finish(index, Err((class, errno)));
        }
    }
}
