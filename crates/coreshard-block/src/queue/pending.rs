//! Requests that wait for a tag.

use std::collections::VecDeque;

use super::slot::Key;
use crate::request::Priority;

/// Requests of one class, in the order of submission. Who leaves out of turn stays in the list as a key
/// that names nobody, and is passed over; such keys are at most half of the list, and a few.
#[derive(Debug, Default)]
struct Line {
    keys: VecDeque<Key>,
    /// Of them, requests that wait.
    waiting: usize,
}

impl Line {
    fn pop(&mut self, looks: &mut u64, waits: impl Fn(Key) -> bool) -> Option<Key> {
        while let Some(key) = self.keys.pop_front() {
            *looks += 1;
            if waits(key) {
                self.waiting -= 1;
                return Some(key);
            }
        }
        None
    }

    fn one_left(&mut self, looks: &mut u64, waits: impl Fn(Key) -> bool) {
        self.waiting -= 1;
        if self.keys.len() > 2 * self.waiting + 64 {
            *looks += self.keys.len() as u64;
            self.keys.retain(|key| waits(*key));
        }
    }
}

/// Requests without a tag: real-time ones first, the others by their shares, each class in the
/// order of submission.
pub(super) struct Pending {
    real_time: Line,
    best_effort: Line,
    idle: Line,
    /// Of so many turns in a row ...
    best_effort_share: u32,
    idle_share: u32,
    /// ... this is the next.
    turn: u32,
    /// Keys looked at so far: what the lines cost.
    looks: u64,
}

impl Pending {
    pub(super) fn new(best_effort_share: u32, idle_share: u32) -> Self {
        Self {
            real_time: Line::default(),
            best_effort: Line::default(),
            idle: Line::default(),
            best_effort_share: best_effort_share.max(1),
            idle_share,
            turn: 0,
            looks: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.real_time.waiting + self.best_effort.waiting + self.idle.waiting
    }

    pub(super) fn looks(&self) -> u64 {
        self.looks
    }

    fn line(&mut self, priority: Priority) -> &mut Line {
        match priority {
            Priority::RealTime => &mut self.real_time,
            Priority::BestEffort => &mut self.best_effort,
            Priority::Idle => &mut self.idle,
        }
    }

    pub(super) fn push(&mut self, priority: Priority, key: Key) {
        let line = self.line(priority);
        line.keys.push_back(key);
        line.waiting += 1;
    }

    /// Whose turn it is; `waits` tells who still waits.
    pub(super) fn pop(&mut self, waits: impl Fn(Key) -> bool) -> Option<Key> {
        let line = if self.real_time.waiting > 0 {
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
        line.pop(&mut self.looks, waits)
    }

    /// One of this class left out of turn: it waits no more.
    pub(super) fn one_left(&mut self, priority: Priority, waits: impl Fn(Key) -> bool) {
        let mut looks = self.looks;
        self.line(priority).one_left(&mut looks, waits);
        self.looks = looks;
    }
}
