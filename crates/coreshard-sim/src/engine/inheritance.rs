//! Priority inheritance: which threads wait for which lock, and which priorities that lends.

use std::collections::BTreeMap;

use super::hardware::Hardware;
use super::scheduler::Scheduler;
use super::threads::{ThreadState, Threads};
use crate::memory::Place;

/// A lock that threads wait for.
struct Lock {
    holder: usize,
    /// First come first.
    waiters: Vec<usize>,
}

/// All locks that threads wait for.
#[derive(Default)]
pub(super) struct Inheritance {
    locks: BTreeMap<Place, Lock>,
    /// By thread that was lent a priority: its own.
    own: BTreeMap<usize, u8>,
}

impl Inheritance {
    /// A thread's priority without what it was lent.
    pub(super) fn own_priority(&self, thread: usize, sched: &Scheduler) -> u8 {
        self.own.get(&thread).copied().unwrap_or_else(|| sched.priority_of(thread))
    }

    /// A thread waits for a lock.
    pub(super) fn wait(&mut self, place: Place, holder: usize, waiter: usize) {
        let lock = self.locks.entry(place).or_insert(Lock { holder, waiters: Vec::new() });
        lock.holder = holder;
        lock.waiters.push(waiter);
    }

    /// A thread waits for a lock no longer. Returns the lock's holder, if any thread is known to have waited for it, and
    /// whether others still do.
    pub(super) fn give_up(&mut self, place: Place, waiter: usize) -> Option<(usize, bool)> {
        let lock = self.locks.get_mut(&place)?;
        lock.waiters.retain(|other| *other != waiter);
        let (holder, has_others) = (lock.holder, !lock.waiters.is_empty());
        if !has_others {
            self.locks.remove(&place);
        }
        Some((holder, has_others))
    }

    /// A lock is freed: the sleeping waiter of the highest priority is its next holder. Returns it, and whether others
    /// still wait.
    pub(super) fn hand_over(
        &mut self,
        place: Place,
        sched: &Scheduler,
        threads: &Threads,
    ) -> Option<(usize, bool)> {
        let next = self.locks.get(&place).and_then(|lock| {
            // A waiter whose time has run out is on its way, and gives up by itself.
            let asleep = lock.waiters.iter().filter(|it| threads[**it].waits_for().is_some());
            asleep.rev().max_by_key(|waiter| sched.priority_of(**waiter)).copied()
        });
        let Some(next) = next else {
            // Those whose time has run out find the lock free, or another's.
            self.locks.remove(&place);
            return None;
        };
        let (_, has_others) = self.give_up(place, next)?;
        if let Some(lock) = self.locks.get_mut(&place) {
            lock.holder = next;
        }
        Some((next, has_others))
    }

    /// Gives a thread another own priority, whatever it is lent.
    pub(super) fn set_own_priority(
        &mut self,
        thread: usize,
        priority: u8,
        sched: &mut Scheduler,
        hw: &mut Hardware,
        threads: &Threads,
    ) {
        match self.own.get_mut(&thread) {
            Some(own) => *own = priority,
            None => sched.set_priority(hw, thread, priority, is_runnable(threads, thread)),
        }
        self.settle(thread, sched, hw, threads);
    }

    /// Gives a thread the highest of its own priority and those of the threads that wait for it, and
    /// so on along what it waits for itself.
    pub(super) fn settle(
        &mut self,
        mut thread: usize,
        sched: &mut Scheduler,
        hw: &mut Hardware,
        threads: &Threads,
    ) {
        // A chain is at most as long as there are threads; a circle is one that deadlocks.
        for _ in 0..threads.len() {
            let own = self.own_priority(thread, sched);
            let held = self.locks.values().filter(|lock| lock.holder == thread);
            let lent = held.flat_map(|lock| &lock.waiters).map(|it| sched.priority_of(*it));
            let lent = lent.max().unwrap_or(0);
            if lent > own {
                self.own.insert(thread, own);
            } else {
                self.own.remove(&thread);
            }
            sched.set_priority(hw, thread, own.max(lent), is_runnable(threads, thread));
            match self.locks.values().find(|lock| lock.waiters.contains(&thread)) {
                Some(lock) => thread = lock.holder,
                None => return,
            }
        }
    }
}

fn is_runnable(threads: &Threads, thread: usize) -> bool {
    threads[thread].state() == ThreadState::Runnable
}
