//! Timers of a queue's requests, in a heap: deadlines, and retries with a backoff.
//!
//! A timer of a finished request stays in the heap until it expires, or until more than half of the timers
//! are of that kind. Then these are removed together, so that each costs a few visits in total.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use coreshard_platform::Time;

use super::request_id::SlotKey;

/// The effect of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Deadline,
    Retry,
}

/// A heap, by expiry.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Time, SlotKey, Timer)>>,
    /// The number of timers whose request has not finished.
    live: usize,
    /// The number of timers visited so far: the cost of the heap, apart from sorting.
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

    /// Records that a request with this many timers ended.
    #[inline]
    pub(super) fn forget(&mut self, timers: u32) {
        self.live -= timers as usize;
    }

    pub(super) fn set(
        &mut self,
        at: Time,
        key: SlotKey,
        timer: Timer,
        is_live: impl Fn(SlotKey) -> bool,
    ) {
        if self.heap.len() > 2 * self.live + 64 {
            self.visits += self.heap.len() as u64;
            self.heap.retain(|Reverse((_, key, _))| is_live(*key));
        }
        self.heap.push(Reverse((at, key, timer)));
        self.live += 1;
    }

    pub(super) fn pop(&mut self, now: Time) -> Option<(SlotKey, Timer)> {
        let Reverse((at, key, timer)) = *self.heap.peek()?;
        if at > now {
            return None;
        }
        self.visits += 1;
        self.heap.pop();
        Some((key, timer))
    }
}
