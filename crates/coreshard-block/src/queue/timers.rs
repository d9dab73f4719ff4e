//! Deadlines, and retries that are put off: one heap, looked at when the queue is polled.
//!
//! A timer of a request that is over stays in the heap until its time, or until more than half of the
//! heap are such: then they are taken out together, so that each costs a few visits in all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use coreshard_platform::{Platform, Time};

use super::Queue;
use super::slot::{Abort, SlotKey};
use crate::error::ErrorClass;

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Deadline,
    Retry,
}

/// The heap; the order of what it holds is that of time.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Time, SlotKey, Timer)>>,
    /// Of them, timers of requests that are not over.
    live: usize,
    /// Timers looked at so far: what the heap costs, but for the sorting.
    visits: u64,
}

impl Timers {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    pub(super) fn visits(&self) -> u64 {
        self.visits
    }

    /// A request with so many timers is over.
    #[inline]
    pub(super) fn forget(&mut self, timers: u32) {
        self.live -= timers as usize;
    }

    fn set(&mut self, at: Time, key: SlotKey, timer: Timer, is_live: impl Fn(SlotKey) -> bool) {
        if self.heap.len() > 2 * self.live + 64 {
            self.visits += self.heap.len() as u64;
            self.heap.retain(|Reverse((_, key, _))| is_live(*key));
        }
        self.heap.push(Reverse((at, key, timer)));
        self.live += 1;
    }

    fn pop(&mut self, now: Time) -> Option<(SlotKey, Timer)> {
        let Reverse((at, key, timer)) = *self.heap.peek()?;
        if at > now {
            return None;
        }
        self.visits += 1;
        self.heap.pop();
        Some((key, timer))
    }
}

impl<P: Platform> Queue<P> {
    /// For a request that is not over.
    pub(super) fn set_timer(&mut self, index: u32, at: Time, timer: Timer) {
        let request = self.slots.get_mut(index);
        request.timers += 1;
        let key = SlotKey { serial: request.serial, index };
        let Self { timers, slots, .. } = self;
        timers.set(at, key, timer, |key| slots.find(key).is_some());
    }

    pub(super) fn fire_timers(&mut self) {
        let now = P::now();
        while let Some((key, timer)) = self.timers.pop(now) {
            if self.slots.find(key).is_none() {
                continue;
            }
            self.slots.get_mut(key.index).timers -= 1;
            self.timers.forget(1);
            match timer {
                Timer::Deadline => self.abort(key, Abort::TimedOut),
                Timer::Retry if self.device.is_online() => self.start_again(key.index),
                Timer::Retry => self.fail(key.index, (ErrorClass::Gone, libc::ENODEV)),
            }
        }
    }
}
