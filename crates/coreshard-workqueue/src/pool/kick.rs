//! Choosing whom to wake.

use coreshard_platform::Platform;

use super::Pool;
use super::state::{Entry, State};
use crate::wake::Wake;

/// A worker that was chosen under the lock: whoever holds this wakes it, exactly once.
#[must_use]
pub(super) struct Kick {
    pub(super) worker: usize,
}

impl<P: Platform> State<P> {
    /// True if an item waits in the intake.
    pub(super) fn has_queued(&mut self, pool: &Pool<P>) -> bool {
        match &mut self.entry {
            Entry::Locked(list) => !list.is_empty(),
            Entry::LockFree(taker) => pool.queue.as_ref().is_some_and(|queue| queue.ready(taker)),
        }
    }

    /// Chooses the worker that went to sleep last, if one more may run.
    ///
    /// It counts as active from here on, so that it is not chosen, and not culled, before it has
    /// run. Only on the coalesced rung it stays where it is, marked, and further kicks do
    /// nothing: the one wake-up on its way will find the work, and pass on what is left of it.
    pub(super) fn choose_kick(&mut self, pool: &Pool<P>) -> Option<Kick> {
        if self.active() >= pool.place.limit {
            return None;
        }
        if let Some(kick) = self.recall_sentinel(pool) {
            return Some(kick);
        }
        if pool.attributes.wake == Wake::Coalesced {
            if self.kicked.is_some() {
                self.counters.coalesced_kicks += 1;
                return None;
            }
            let worker = *self.idle.last()?;
            self.kicked = Some(worker);
            self.counters.kicks += 1;
            return Some(Kick { worker });
        }
        let worker = self.idle.pop()?;
        self.counters.kicks += 1;
        Some(Kick { worker })
    }

    /// Takes the sentinel's name off the intake, to wake it for other work. Where its producer
    /// was quicker, it is awake anyway.
    pub(super) fn recall_sentinel(&mut self, pool: &Pool<P>) -> Option<Kick> {
        let (Entry::LockFree(taker), Some(queue)) = (&mut self.entry, &pool.queue) else {
            return None;
        };
        let worker = self.sentinel.take()?;
        self.counters.kicks += 1;
        queue.unpark_at_head(taker, worker).then_some(Kick { worker })
    }

    /// After items were claimed: the sentinel's name was on the first of them, so its producer
    /// has woken it, and it is active.
    pub(super) fn sentinel_was_woken(&mut self) {
        if self.sentinel.take().is_some() {
            self.counters.kicks += 1;
        }
    }

    /// Puts the name of an idle worker on the slot of the next item, so that its producer wakes
    /// it. If that item is there already, the worker is to be kicked.
    pub(super) fn appoint_sentinel(&mut self, pool: &Pool<P>) -> Option<Kick> {
        let Some(queue) = &pool.queue else { return None };
        if self.sentinel.is_some() || self.active() >= pool.place.limit {
            return None;
        }
        let Entry::LockFree(taker) = &mut self.entry else { return None };
        let worker = *self.idle.iter().rev().find(|worker| self.kicked != Some(**worker))?;
        if queue.park_at_head(taker, worker) {
            self.idle.retain(|idle| *idle != worker);
            self.sentinel = Some(worker);
            return None;
        }
        self.choose_kick(pool)
    }

    /// Everybody who sleeps, taken off all lists.
    pub(super) fn all_sleepers(&mut self, pool: &Pool<P>) -> Vec<usize> {
        let mut sleepers = std::mem::take(&mut self.idle);
        // One who was kicked has its wake-up on the way.
        if let Some(kicked) = self.kicked.take() {
            sleepers.retain(|worker| *worker != kicked);
        }
        sleepers.extend(self.recall_sentinel(pool).map(|kick| kick.worker));
        sleepers
    }
}
