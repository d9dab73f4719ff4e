//! The locks of a replay: their holders and their waiting threads.
//!
//! Locks behave like locks that use a futex. A thread that releases a lock wakes one waiting thread, and the lock stays
//! free until a thread takes it. A running thread may take it before the woken thread, which then waits again. Such a
//! lock changes hands less often than a lock that is passed to its waiting threads in order.
//!
//! A kernel's spin locks are passed on in order: see [`Locks::hand_over`].

use std::collections::{HashMap, VecDeque};

#[derive(Default)]
struct Lock {
    /// The thread's index, and the number of times that it has acquired the lock.
    owner: Option<(usize, u32)>,
    readers: u32,
    waiting: VecDeque<(usize, bool)>,
    /// A woken thread has not tried to acquire it yet.
    is_waking: bool,
    /// Since when a thread has it alone.
    since_ps: u64,
    waits: LockWaits,
}

/// Waits for one lock, and how long it was held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockWaits {
    pub(crate) count: u64,
    pub(crate) waited_ps: u64,
    /// Number of times that a thread gave it back that had it alone.
    pub(crate) held_count: u64,
    pub(crate) held_ps: u64,
}

#[derive(Default)]
pub(super) struct Locks(HashMap<u64, Lock>);

impl Locks {
    /// Acquires a lock for a thread, or lets the thread wait for it. Returns whether the thread has the lock. `is_woken`
    /// is set if it was woken for the lock.
    pub(super) fn acquire(
        &mut self,
        lock: u64,
        place: usize,
        is_shared: bool,
        is_woken: bool,
        now: u64,
    ) -> bool {
        let its = self.0.entry(lock).or_default();
        its.is_waking &= !is_woken;
        let is_free = match (its.owner, is_shared) {
            (Some((owner, _)), _) => owner == place,
            (None, true) => true,
            (None, false) => its.readers == 0,
        };
        if !is_free {
            its.waits.count += u64::from(!is_woken);
            its.waiting.push_back((place, is_shared));
            return false;
        }
        match (&mut its.owner, is_shared) {
            (Some((_, depth)), _) => *depth += 1,
            (None, true) => its.readers += 1,
            (None, false) => (its.owner, its.since_ps) = (Some((place, 1)), now),
        }
        true
    }

    /// Gives a lock that was released to a thread that spins for it, before any other thread can take it.
    pub(super) fn hand_over(&mut self, lock: u64, place: usize, is_shared: bool, now: u64) {
        let its = self.0.entry(lock).or_default();
        its.is_waking = false;
        match is_shared {
            true => its.readers += 1,
            false => (its.owner, its.since_ps) = (Some((place, 1)), now),
        }
    }

    /// Releases a lock. Returns the woken threads: one, or several that want to share the lock.
    pub(super) fn release(&mut self, lock: u64, place: usize, now: u64) -> Vec<(usize, bool)> {
        let its = self.0.entry(lock).or_default();
        match &mut its.owner {
            Some((owner, depth)) if *owner == place && *depth > 1 => {
                *depth -= 1;
                return Vec::new();
            }
            Some((owner, _)) if *owner == place => {
                its.owner = None;
                its.waits.held_count += 1;
                its.waits.held_ps += now.saturating_sub(its.since_ps);
            }
            // Another thread holds it, because the lock was taken over or its acquisition was not recorded.
            Some(_) => return Vec::new(),
            None => its.readers = its.readers.saturating_sub(1),
        }
        let mut woken = Vec::new();
        if its.readers > 0 || its.is_waking {
            return woken;
        }
        while let Some((_, is_shared)) = its.waiting.front().copied() {
            if !woken.is_empty() && !is_shared {
                break;
            }
            woken.extend(its.waiting.pop_front());
            if !is_shared {
                break;
            }
        }
        its.is_waking = !woken.is_empty();
        woken
    }

    /// Gives a lock to a waiting thread in spite of its holder.
    pub(super) fn take_over(&mut self, lock: u64, place: usize) {
        let its = self.0.entry(lock).or_default();
        its.waiting.retain(|(waiting, _)| *waiting != place);
        its.owner = Some((place, 1));
        its.readers = 0;
    }

    /// Records the duration of a wait for a lock.
    pub(super) fn note_wait(&mut self, lock: u64, waited_ps: u64) {
        self.0.entry(lock).or_default().waits.waited_ps += waited_ps;
    }

    /// Returns the waits by the lock's address, the longest first.
    pub(super) fn into_waits(self) -> Vec<(u64, LockWaits)> {
        let all = self.0.into_iter().map(|(lock, its)| (lock, its.waits));
        let mut waits: Vec<_> = all.filter(|(_, waits)| waits.count > 0).collect();
        waits.sort_by_key(|(lock, waits)| (std::cmp::Reverse(waits.waited_ps), *lock));
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: u64 = 0x1000;

    #[test]
    fn a_thread_that_runs_takes_a_free_lock_before_a_woken_one() {
        let mut locks = Locks::default();
        assert!(locks.acquire(LOCK, 1, false, false, 0));
        assert!(!locks.acquire(LOCK, 2, false, false, 0));
        assert_eq!(locks.release(LOCK, 1, 5), [(2, false)]);
        assert!(locks.acquire(LOCK, 1, false, false, 0), "the woken thread is not here yet");
        assert!(!locks.acquire(LOCK, 2, false, true, 0), "it waits again");
        assert_eq!(locks.release(LOCK, 1, 5), [(2, false)]);
        assert!(locks.acquire(LOCK, 2, false, true, 0));
        assert_eq!(
            locks.into_waits(),
            [(LOCK, LockWaits { count: 1, waited_ps: 0, held_count: 2, held_ps: 10 })]
        );
    }

    #[test]
    fn one_thread_is_woken_at_a_time_or_all_that_share() {
        let mut locks = Locks::default();
        assert!(locks.acquire(LOCK, 1, false, false, 0));
        for (place, is_shared) in [(2, true), (3, true), (4, false)] {
            assert!(!locks.acquire(LOCK, place, is_shared, false, 0));
        }
        assert_eq!(locks.release(LOCK, 1, 5), [(2, true), (3, true)]);
        assert!(locks.acquire(LOCK, 1, false, false, 0));
        assert_eq!(locks.release(LOCK, 1, 5), [], "two are on their way");
        assert!(locks.acquire(LOCK, 2, true, true, 0) && locks.acquire(LOCK, 3, true, true, 0));
        assert_eq!(locks.release(LOCK, 2, 5), []);
        assert_eq!(locks.release(LOCK, 3, 5), [(4, false)]);
    }

    #[test]
    fn a_spin_lock_goes_to_the_thread_that_spins_for_it() {
        let mut locks = Locks::default();
        assert!(locks.acquire(LOCK, 1, false, false, 0));
        assert!(!locks.acquire(LOCK, 2, false, false, 1));
        assert_eq!(locks.release(LOCK, 1, 3), [(2, false)]);
        locks.hand_over(LOCK, 2, false, 3);
        assert!(!locks.acquire(LOCK, 3, false, false, 3), "it has been given to the second");
        assert_eq!(locks.release(LOCK, 2, 10), [(3, false)]);
        let waits = locks.into_waits()[0].1;
        assert_eq!((waits.held_count, waits.held_ps), (2, 10));
    }
}
