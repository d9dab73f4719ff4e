//! Which threads wait on which word.

use std::collections::VecDeque;

use crate::memory::{ByPlace, Place};

/// Waiting threads by word, in the order of arrival.
#[derive(Default)]
pub(super) struct WaitQueues {
    waiters: ByPlace<VecDeque<usize>>,
}

impl WaitQueues {
    pub(super) fn push(&mut self, place: Place, thread: usize) {
        self.waiters.entry(place).or_default().push_back(thread);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Returns the thread that has waited longest.
    pub(super) fn first(&self, place: Place) -> Option<usize> {
        self.waiters.get(&place)?.front().copied()
    }

    /// Removes the thread that has waited longest.
    pub(super) fn pop(&mut self, place: Place) -> Option<usize> {
        let waiters = self.waiters.get_mut(&place)?;
        let first = waiters.pop_front();
        if waiters.is_empty() {
            self.waiters.remove(&place);
        }
        first
    }

    /// Removes a thread whose time has run out.
    pub(super) fn remove(&mut self, place: Place, thread: usize) {
        if let Some(waiters) = self.waiters.get_mut(&place) {
            waiters.retain(|waiter| *waiter != thread);
            if waiters.is_empty() {
                self.waiters.remove(&place);
            }
        }
    }
}
