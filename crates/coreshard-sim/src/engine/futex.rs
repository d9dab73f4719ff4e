//! Who sleeps on which word.

use std::collections::{HashMap, VecDeque};

use crate::memory::Place;

/// Threads that sleep, by the word, first come first.
#[derive(Default)]
pub(super) struct Futexes {
    waiters: HashMap<Place, VecDeque<usize>>,
}

impl Futexes {
    pub(super) fn sleep(&mut self, place: Place, thread: usize) {
        self.waiters.entry(place).or_default().push_back(thread);
    }

    /// The one that has slept longest.
    pub(super) fn first(&self, place: Place) -> Option<usize> {
        self.waiters.get(&place)?.front().copied()
    }

    /// Takes the one out that has slept longest.
    pub(super) fn pop(&mut self, place: Place) -> Option<usize> {
        let waiters = self.waiters.get_mut(&place)?;
        let first = waiters.pop_front();
        if waiters.is_empty() {
            self.waiters.remove(&place);
        }
        first
    }

    /// Takes out one whose time has run out.
    pub(super) fn forget(&mut self, place: Place, thread: usize) {
        if let Some(waiters) = self.waiters.get_mut(&place) {
            waiters.retain(|waiter| *waiter != thread);
            if waiters.is_empty() {
                self.waiters.remove(&place);
            }
        }
    }
}
