//! Requests that wait for a tag.

use std::collections::VecDeque;

use super::request_id::SlotKey;
use crate::request::Priority;

/// Requests of one priority class, first in, first out. The key of a request that left early stays and is
/// skipped. Apart from a small number, such keys are at most half of the queue.
#[derive(Debug, Default)]
struct ClassQueue {
    keys: VecDeque<SlotKey>,
    /// The number of waiting requests.
    waiting: usize,
    /// The number of keys visited so far: the cost of the queue.
    visits: u64,
}

impl ClassQueue {
    fn pop(&mut self, waits: impl Fn(SlotKey) -> bool) -> Option<SlotKey> {
        while let Some(key) = self.keys.pop_front() {
            self.visits += 1;
            if waits(key) {
                self.waiting -= 1;
                return Some(key);
            }
        }
        None
    }

    fn left_early(&mut self, waits: impl Fn(SlotKey) -> bool) {
        self.waiting -= 1;
        if self.keys.len() > 2 * self.waiting + 64 {
            self.visits += self.keys.len() as u64;
            self.keys.retain(|key| waits(*key));
        }
    }
}

/// Requests without a tag: real-time ones first, the others by their shares. Each class is first in, first
/// out.
pub(super) struct Pending {
    real_time: ClassQueue,
    best_effort: ClassQueue,
    idle: ClassQueue,
    /// In a cycle of this many turns ...
    best_effort_share: u32,
    idle_share: u32,
    /// ... this is the next one.
    turn: u32,
}

impl Pending {
    pub(super) fn new(best_effort_share: u32, idle_share: u32) -> Self {
        Self {
            real_time: ClassQueue::default(),
            best_effort: ClassQueue::default(),
            idle: ClassQueue::default(),
            best_effort_share: best_effort_share.max(1),
            idle_share,
            turn: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.real_time.waiting + self.best_effort.waiting + self.idle.waiting
    }

    /// Returns the number of keys visited so far: the cost of the queues.
    pub(super) fn visits(&self) -> u64 {
        self.real_time.visits + self.best_effort.visits + self.idle.visits
    }

    fn class(&mut self, priority: Priority) -> &mut ClassQueue {
        match priority {
            Priority::RealTime => &mut self.real_time,
            Priority::BestEffort => &mut self.best_effort,
            Priority::Idle => &mut self.idle,
        }
    }

    pub(super) fn push(&mut self, priority: Priority, key: SlotKey) {
        let queue = self.class(priority);
        queue.keys.push_back(key);
        queue.waiting += 1;
    }

    /// Returns the next request; `waits` says which keys still wait.
    pub(super) fn pop(&mut self, waits: impl Fn(SlotKey) -> bool) -> Option<SlotKey> {
        let queue = if self.real_time.waiting > 0 {
            &mut self.real_time
        } else if self.idle.waiting == 0 {
            &mut self.best_effort
        } else if self.best_effort.waiting == 0 {
            &mut self.idle
        } else {
            let turn = self.turn;
            self.turn = (turn + 1) % self.best_effort_share.saturating_add(self.idle_share);
            if turn < self.best_effort_share { &mut self.best_effort } else { &mut self.idle }
        };
        queue.pop(waits)
    }

    /// Records that a request of this class was cancelled while it waited.
    pub(super) fn left_early(&mut self, priority: Priority, waits: impl Fn(SlotKey) -> bool) {
        self.class(priority).left_early(waits);
    }
}
