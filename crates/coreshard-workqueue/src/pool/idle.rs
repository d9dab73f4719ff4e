//! How a worker goes to sleep, and how it leaves for good.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform, Time};

use super::state::{Blocked, State, Worklist};
use super::worker::Worker;
use super::{Injectors, Pool, PoolGuard, Watches};
use crate::base::canary::{Canary, planted};
use crate::insight::trouble::say;

/// Looks at the next item's slot before a worker sleeps, at first, at least and at most. A look
/// that succeeds saves two system calls and a context switch, and doubles the next budget; one
/// that fails halves it, so that a quiet pool spends next to nothing.
pub(super) const FIRST_SPINS: u32 = 64;
const MIN_SPINS: u32 = 16;
const MAX_SPINS: u32 = 2048;

/// A sleep that is over sooner than this should have been a watch: about as long as the longest watch takes,
/// and as what going to sleep and being woken cost in a virtual machine.
const SHORT_SLEEP: Duration = Duration::from_micros(50);

/// How long a worker keeps its eyes off a burst, at most, so that it claims many items at once.
const MAX_GATHER_SPINS: u32 = 32;

fn learn(spins: u32, seen: bool) -> u32 {
    if seen { (spins * 2).min(MAX_SPINS) } else { (spins / 2).max(MIN_SPINS) }
}

/// What a worker does when it found no item.
enum Rest {
    /// There is something after all.
    None,
    /// Sleep until woken.
    Sleep,
    /// The pool stops, and there is nothing left to do.
    Leave,
}

impl<P: Platform> State<P> {
    /// A worker that comes by is not idle, though on the coalesced rung it was left in the list
    /// until now; nor blocked or a hog, though it may have seemed so while it waited for the lock.
    pub(super) fn rejoin(&mut self, worker: usize) {
        if matches!(self.blocked_as[worker], Blocked::Presumed | Blocked::Hog) {
            self.set_blocked(worker, Blocked::No);
        }
        if self.kicked == Some(worker) {
            self.kicked = None;
            self.idle.retain(|idle| *idle != worker);
        }
    }

    /// An index for a spare worker, where all others are busy and one more may run.
    pub(super) fn reserve_spare(&mut self, pool: &Pool<P>) -> Option<usize> {
        let wanted = self.idle_count() == 0
            && self.alive - self.blocked < pool.place.limit
            && !self.stopping;
        if !wanted {
            return None;
        }
        if self.starting > 0 {
            // The one that is being started may be what this caller waits beside: whoever starts
            // it looks again when it is done.
            self.spare_missed = true;
            return None;
        }
        let index = self.reserve_worker(pool)?;
        self.starting += 1;
        Some(index)
    }
}

impl<P: Platform> Worker<'_, P> {
    /// Sleeps until there may be work. False if the worker is let go: it is off all lists then.
    pub(super) fn sleep(&mut self) -> bool {
        let pool = self.pool;
        let mut state = pool.lock();
        match self.lie_down(&mut state) {
            Rest::None => return true,
            Rest::Leave => {
                state.let_go(self.index);
                // A rescuer leaves its pool to those who sleep: one of them is told of what comes.
                let kick = state.appoint_designated(pool);
                pool.unlock_and_kick(state, kick);
                return false;
            }
            Rest::Sleep => drop(state),
        }
        let asleep_since = self.can_watch_others().then(P::now);
        let stays = self.park();
        if stays {
            self.learn_from_sleep(asleep_since);
            self.just_woke = true;
            self.repatriate();
        }
        stays
    }

    /// Watches the slots of the next items for a short while; one worker of a pool at a time.
    /// True if it is worth looking again.
    pub(super) fn watch(&mut self) -> bool {
        let pool = self.pool;
        let (Some(queue), Some(places)) = (&pool.queue, self.next_slots.take()) else {
            return false;
        };
        if self.excess || !pool.may_spin {
            return false;
        }
        if pool.forking.load(Relaxed) > 0 {
            return self.watch_for_forks(queue, &places);
        }
        if places[0].is_none() {
            // Work came from this worker's own CPU alone. Its producer may be waiting for that
            // very CPU: let it run, once.
            return if std::mem::replace(&mut self.yielded, true) {
                false
            } else {
                P::yield_now();
                true
            };
        }
        if pool.watchers.swap(1, Acquire) != 0 {
            return false;
        }
        (0..self.gather_spins).for_each(|_| P::spin_hint());
        let seen = (0..self.spins).any(|_| {
            P::spin_hint();
            queue.seen(&places)
        });
        pool.watchers.store(0, Release);
        self.spins = learn(self.spins, seen);
        self.watched = seen;
        seen
    }

    /// Watches the stacks of those who fork, as well; everybody who has nothing to do does so, for
    /// the next job may be shared at any moment.
    fn watch_for_forks(&mut self, queue: &Injectors<P>, places: &Watches<P>) -> bool {
        let seen = (0..self.spins).any(|_| {
            P::spin_hint();
            self.pool.has_forks() || queue.seen(places)
        });
        self.spins = learn(self.spins, seen);
        seen
    }

    /// True if items may come from another CPU than the worker's, which can be seen. Where they come from its
    /// own, whoever brings the next one needs the CPU; and on the locked rung a worker watches nothing but
    /// its own permit, which does not tell.
    fn can_watch_others(&self) -> bool {
        let pool = self.pool;
        pool.may_spin && pool.queue.is_some() && pool.place.home.len() > 1
    }

    /// After a short sleep: watches for longer the next time, by more than the watch before it took away.
    ///
    /// Watches that fail make the next one shorter, and where every item wakes somebody, each comes later
    /// than a short watch takes: without this, two who wait for one another's items could fall asleep
    /// between any two of them for ever.
    fn learn_from_sleep(&mut self, since: Option<Time>) {
        if since.is_some_and(|since| P::now() - since < SHORT_SLEEP) {
            self.spins = (self.spins * 4).min(MAX_SPINS);
        }
    }

    /// After a claim: learns how long to keep off the slots that a burst is being written to.
    ///
    /// Who looks at each slot as it is filled takes the line from under the producer's hands, and
    /// gets one item for each look. If what was watched for came in company, the next look comes
    /// later; if it came alone, sooner: a lone item is not kept waiting.
    pub(super) fn learn_to_gather(&mut self, came_in_company: bool) {
        if std::mem::take(&mut self.watched) {
            self.gather_spins = if came_in_company {
                (self.gather_spins * 2).clamp(1, MAX_GATHER_SPINS)
            } else {
                self.gather_spins / 2
            };
        }
    }

    /// Puts itself on a list of sleepers, unless there is work. Under the lock, so that whoever
    /// brings work later finds it there, and work that came before is found here.
    fn lie_down(&mut self, state: &mut State<P>) -> Rest {
        let pool = self.pool;
        state.rejoin(self.index);
        state.placement.rests(self.index);
        if state.active() > pool.place.limit && !state.stopping {
            // More run than should, since one came back from being blocked: the others do the
            // work. At the far end of the list, to be culled first.
            state.idle.insert(0, self.index);
            return Rest::Sleep;
        }
        if state.has_work(pool) && !planted(Canary::LostWakeup) {
            return Rest::None;
        }
        if state.stopping || self.is_rescuer() && state.idle_count() > 0 {
            return Rest::Leave;
        }
        match (&mut state.worklist, &pool.queue) {
            (Worklist::LockFree(takers), Some(queue)) => {
                let Ok(before) = queue.post(takers, self.index) else { return Rest::None };
                // The latest sleeper is the first to be woken; who was, sleeps on unposted. (If
                // that one is gone from the wake word, its producer has woken it.)
                state.designated = Some(self.index);
                state.idle.extend(before);
                // A job that was shared since the look at `has_work`, by a worker that saw no
                // designated waiter yet: it calls nobody. If another call was quicker, that one brings
                // the permit, and the look.
                if pool.has_forks() && state.recall_designated(pool).is_some() {
                    return Rest::None;
                }
            }
            _ => state.idle.push(self.index),
        }
        Rest::Sleep
    }

    /// Sleeps until somebody who chose this worker wakes it. False if the worker was idle for too
    /// long and is to leave.
    ///
    /// The cull race: a worker that was chosen but has not run yet must not leave. It leaves only
    /// after it has taken itself off its list under the lock, and whoever chooses a worker takes
    /// it off (or marks it) under the lock: so one of the two comes too late, and knows it.
    fn park(&mut self) -> bool {
        let pool = self.pool;
        let parker = &self.slot.parker;
        if pool.queue.is_none() && pool.may_spin {
            let seen = (0..self.spins).any(|_| {
                P::spin_hint();
                parker.has_permit()
            });
            self.spins = learn(self.spins, seen);
        }
        if parker.park_timeout(pool.idle_timeout) {
            return true;
        }
        // Nobody needed this worker for a while: nor, perhaps, the memory of the last burst.
        pool.queue.iter().for_each(Injectors::trim);
        let state = pool.lock();
        if self.may_leave(state) {
            return false;
        }
        parker.park();
        true
    }

    /// After the idle time: takes this worker off its list, unless it was chosen meanwhile, or is
    /// the last that sleeps.
    fn may_leave(&self, mut state: PoolGuard<'_, P>) -> bool {
        let pool = self.pool;
        let others_sleep =
            state.idle.iter().any(|idle| *idle != self.index && state.kicked != Some(*idle));
        if state.designated == Some(self.index) {
            if !others_sleep {
                return false;
            }
            // Another takes the place, if no producer has read the name yet.
            if state.recall_designated(pool).is_none() {
                return false;
            }
            state.let_go(self.index);
            let kick = state.appoint_designated(pool);
            pool.unlock_and_kick(state, kick);
            return true;
        }
        let listed = state.idle.contains(&self.index) && state.kicked != Some(self.index)
            || planted(Canary::CullRace);
        if !listed || !(others_sleep || state.designated.is_some()) {
            return false;
        }
        state.idle.retain(|idle| *idle != self.index);
        state.let_go(self.index);
        true
    }

    /// Comes home, if the kernel has moved this worker out of its pod.
    fn repatriate(&mut self) {
        let place = &self.pool.place;
        if place.home == place.roam || place.home.contains(P::current_cpu()) {
            return;
        }
        // To be moved by the narrow mask, and free to be moved again by the wide one.
        let moved = P::set_affinity(&place.home).and_then(|()| P::set_affinity(&place.roam));
        match moved {
            Ok(()) => self.repatriated += 1,
            Err(error) => {
                say(|| {
                    tracing::warn!(pod = %place.pod, %error, "a worker cannot be brought home");
                });
            }
        }
    }
}
