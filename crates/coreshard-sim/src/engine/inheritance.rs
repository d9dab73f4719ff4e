//! Priority inheritance: the waiters of each lock, and the lent priorities.

use std::collections::BTreeMap;

use crate::memory::Place;

/// A lock that threads wait for.
struct Lock {
    holder: usize,
    /// In the order of arrival.
    waiters: Vec<usize>,
}

/// All locks that threads wait for.
#[derive(Default)]
pub(super) struct Inheritance {
    locks: BTreeMap<Place, Lock>,
    /// The own priority of each thread that was lent one.
    own: BTreeMap<usize, u8>,
}

impl Inheritance {
    /// Returns the own priority of a thread that was lent one.
    pub(super) fn own_of_lent(&mut self, thread: usize) -> Option<&mut u8> {
        self.own.get_mut(&thread)
    }

    /// Records that a thread waits for a lock.
    pub(super) fn wait(&mut self, place: Place, holder: usize, waiter: usize) {
        let lock = self.locks.entry(place).or_insert(Lock { holder, waiters: Vec::new() });
        lock.holder = holder;
        lock.waiters.push(waiter);
    }

    /// Records that a thread no longer waits for a lock. Returns the lock's holder, if any thread is known to
    /// have waited for it, and whether others still wait.
    pub(super) fn give_up(&mut self, place: Place, waiter: usize) -> Option<(usize, bool)> {
        let lock = self.locks.get_mut(&place)?;
        lock.waiters.retain(|other| *other != waiter);
        let (holder, has_others) = (lock.holder, !lock.waiters.is_empty());
        if !has_others {
            self.locks.remove(&place);
        }
        Some((holder, has_others))
    }

    /// Releases a lock to the waiter with the highest priority. `asleep` returns the priority of a sleeping
    /// waiter. Returns the next holder, and whether others still wait.
    pub(super) fn hand_over(
        &mut self,
        place: Place,
        asleep: impl Fn(usize) -> Option<u8>,
    ) -> Option<(usize, bool)> {
        let lock = self.locks.get_mut(&place)?;
        // A waiter whose time has run out is already leaving, and gives up by itself.
        let waiting = lock.waiters.iter().rev().filter_map(|it| Some((asleep(*it)?, *it)));
        let Some((_, next)) = waiting.max_by_key(|(priority, _)| *priority) else {
            // Those whose time has run out find the lock free, or held by another thread.
            self.locks.remove(&place);
            return None;
        };
        lock.holder = next;
        self.give_up(place, next)
    }

    /// Recomputes a thread's lent priority: the highest of the threads that wait for it. Returns its
    /// priority, and the holder of the lock that it waits for itself.
    pub(super) fn settle(
        &mut self,
        thread: usize,
        priority_of: impl Fn(usize) -> u8,
    ) -> (u8, Option<usize>) {
        let own = self.own.get(&thread).copied().unwrap_or_else(|| priority_of(thread));
        let held = self.locks.values().filter(|lock| lock.holder == thread);
        let lent = held.flat_map(|lock| &lock.waiters).map(|waiter| priority_of(*waiter));
        let lent = lent.max().unwrap_or(0);
        if lent > own {
            self.own.insert(thread, own);
        } else {
            self.own.remove(&thread);
        }
        let waits_for = self.locks.values().find(|lock| lock.waiters.contains(&thread));
        (own.max(lent), waits_for.map(|lock| lock.holder))
    }
}
