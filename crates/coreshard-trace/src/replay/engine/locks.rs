//! The locks of a replay: their holders and their waiting threads.

use std::collections::{HashMap, VecDeque};

#[derive(Default)]
struct Lock {
    /// A thread's place, and how often it has taken the lock.
    owner: Option<(usize, u32)>,
    readers: u32,
    waiting: VecDeque<(usize, bool)>,
}

#[derive(Default)]
pub(super) struct Locks(HashMap<u64, Lock>);

impl Locks {
    /// Whether a thread gets a lock now; if not, it waits for it from now on.
    pub(super) fn acquire(&mut self, lock: u64, place: usize, is_shared: bool) -> bool {
        let its = self.0.entry(lock).or_default();
        let is_free = match (its.owner, is_shared) {
            (Some((owner, _)), _) => owner == place,
            (None, true) => its.waiting.is_empty(),
            (None, false) => its.readers == 0,
        };
        if !is_free {
            its.waiting.push_back((place, is_shared));
            return false;
        }
        match (&mut its.owner, is_shared) {
            (Some((_, depth)), _) => *depth += 1,
            (None, true) => its.readers += 1,
            (None, false) => its.owner = Some((place, 1)),
        }
        true
    }

    /// A thread gives a lock back; returns the threads that have it now.
    pub(super) fn release(&mut self, lock: u64, place: usize) -> Vec<usize> {
        let its = self.0.entry(lock).or_default();
        let mut next = Vec::new();
        match &mut its.owner {
            Some((owner, depth)) if *owner == place && *depth > 1 => {
                *depth -= 1;
                return next;
            }
            Some((owner, _)) if *owner == place => its.owner = None,
            // Another's: it was taken over, or its taking was not recorded.
            Some(_) => return next,
            None => its.readers = its.readers.saturating_sub(1),
        }
        while its.owner.is_none() {
            match its.waiting.front().copied() {
                Some((first, true)) => {
                    its.readers += 1;
                    next.push(first);
                }
                Some((first, false)) if its.readers == 0 => {
                    its.owner = Some((first, 1));
                    next.push(first);
                }
                _ => break,
            }
            its.waiting.pop_front();
        }
        next
    }

    /// A waiting thread gets a lock in spite of its holder.
    pub(super) fn take_over(&mut self, lock: u64, place: usize) {
        let its = self.0.entry(lock).or_default();
        its.waiting.retain(|(waiting, _)| *waiting != place);
        its.owner = Some((place, 1));
        its.readers = 0;
    }
}
