//! Requests that wait for a tag.

use std::collections::VecDeque;

use coreshard_platform::Platform;

use super::slot::Accepted;
use crate::request::Priority;

/// Requests without a tag: real-time ones first, the others by their shares, each class in the
/// order of submission.
pub(super) struct Pending<P: Platform> {
    real_time: VecDeque<Accepted<P>>,
    best_effort: VecDeque<Accepted<P>>,
    idle: VecDeque<Accepted<P>>,
    /// Of so many turns in a row ...
    best_effort_share: u32,
    idle_share: u32,
    /// ... this is the next.
    turn: u32,
}

impl<P: Platform> Pending<P> {
    pub(super) fn new(best_effort_share: u32, idle_share: u32) -> Self {
        Self {
            real_time: VecDeque::new(),
            best_effort: VecDeque::new(),
            idle: VecDeque::new(),
            best_effort_share: best_effort_share.max(1),
            idle_share,
            turn: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.real_time.is_empty() && self.best_effort.is_empty() && self.idle.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.real_time.len() + self.best_effort.len() + self.idle.len()
    }

    pub(super) fn push(&mut self, accepted: Accepted<P>) {
        match accepted.request.priority {
            Priority::RealTime => &mut self.real_time,
            Priority::BestEffort => &mut self.best_effort,
            Priority::Idle => &mut self.idle,
        }
        .push_back(accepted);
    }

    /// Whose turn it is.
    pub(super) fn pop(&mut self) -> Option<Accepted<P>> {
        if let Some(first) = self.real_time.pop_front() {
            return Some(first);
        }
        if self.idle.is_empty() {
            return self.best_effort.pop_front();
        }
        if self.best_effort.is_empty() {
            return self.idle.pop_front();
        }
        let turn = self.turn;
        self.turn = (turn + 1) % (self.best_effort_share + self.idle_share);
        if turn < self.best_effort_share {
            self.best_effort.pop_front()
        } else {
            self.idle.pop_front()
        }
    }

    /// Takes a request out of the line.
    pub(super) fn remove(&mut self, serial: u64) -> Option<Accepted<P>> {
        [&mut self.real_time, &mut self.best_effort, &mut self.idle].into_iter().find_map(|line| {
            let at = line.iter().position(|accepted| accepted.serial == serial)?;
            line.remove(at)
        })
    }
}
