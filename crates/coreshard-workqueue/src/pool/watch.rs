//! A worker that found nothing watches for work for a while, before it sleeps.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform, WatchLength};

use super::crowd::Crowd;
use super::pool::Pool;
use super::sizes::{Injectors, Watches};
use super::worker::Worker;
use crate::base::latch::Latch;

/// Looks of a team's member before it lets others run.
const SPINS_TO_A_ROUND: u32 = 32;

/// A yield that takes longer has let somebody compute who needs the CPU more. (One that nobody waits for takes 0.3 µs, and a
/// thread that brings jobs from outside sleeps or watches sooner.)
const LONG_YIELD_NS: u64 = 20_000;

/// A yield that is over sooner has let nobody run.
const IDLE_YIELD_NS: u64 = 1_000;

/// Yields of a thread outside before it sleeps: some members may have to run on its CPU, one after the other.
const MAX_YIELDS: u32 = 4;

/// How long a worker keeps its eyes off a burst, at most, so that it claims many items at once.
const MAX_GATHER_SPINS: u32 = 32;

impl<P: Platform> Pool<P> {
    /// Waits, on a thread that is none of its workers, until `done` is open: watches first, for as long as has been worth it
    /// of late, then lets those run that need its CPU, and sleeps then. False in a process that was forked since: there it
    /// stays closed.
    pub(crate) fn wait_outside(&self, done: &Latch<P>) -> bool {
        if !self.may_spin {
            return done.wait();
        }
        let before = self.outside_watch.load(Relaxed);
        let mut length = WatchLength::of_bits(before);
        let seen = P::watch(length.looks(), || done.is_open());
        length.watched(seen);
        let is_open = seen || self.yield_outside(done) || {
            let since = P::now();
            let is_open = done.wait();
            length.slept(P::now() - since);
            is_open
        };
        // Others may have learned meanwhile: what one of them has is as good.
        if length.to_bits() != before {
            self.outside_watch.store(length.to_bits(), Relaxed);
        }
        is_open
    }

    /// Yields its CPU, as long as that lets somebody run for a short while, and tells whether `done` is open then: where the member
    /// that is to open it needs this very CPU, that takes the place of going to sleep and being woken.
    fn yield_outside(&self, done: &Latch<P>) -> bool {
        let before = self.outside_crowd.load(Relaxed);
        let mut crowd = Crowd::of_bits(before);
        let is_open = !crowd.is_here() && Self::yield_until_open(done, &mut crowd);
        if crowd.to_bits() != before {
            self.outside_crowd.store(crowd.to_bits(), Relaxed);
        }
        is_open
    }

    fn yield_until_open(done: &Latch<P>, crowd: &mut Crowd) -> bool {
        for _ in 0..MAX_YIELDS {
            let since_ns = P::rough_ns();
            P::yield_now();
            let took_ns = P::rough_ns().wrapping_sub(since_ns);
            crowd.learn(took_ns);
            if done.is_open() {
                return true;
            }
            if !(IDLE_YIELD_NS..=LONG_YIELD_NS).contains(&took_ns) {
                break;
            }
        }
        false
    }
}

impl<P: Platform> Worker<'_, P> {
    /// Watches the slots of the next items for a short while; one worker of a pool at a time.
    /// True if it is worth looking again.
    pub(super) fn watch(&mut self) -> bool {
        let pool = self.pool;
        let Some(queue) = &pool.queue else { return false };
        if self.excess || !pool.may_spin {
            return false;
        }
        // What it waits for comes to the reactor, too: it goes there.
        if pool.attributes.hooks.reactor.as_ref().is_some_and(|reactor| !reactor.is_taken()) {
            return false;
        }
        if !self.is_member && self.may_steal && pool.forking.load(Relaxed) > 0 {
            return self.watch_for_forks();
        }
        let Some(places) = self.next_slots.take() else {
            // It has only stolen of late: it looks at the intake before it sleeps.
            return std::mem::take(&mut self.looked_ns) != 0;
        };
        if self.is_member {
            return self.watch_as_member(queue, &places);
        }
        if self.crowd.is_here() {
            return false;
        }
        if places[0].is_none() {
            // Work came from this worker's own CPU alone. Its producer may be waiting for that
            // very CPU: let it run, once.
            if std::mem::replace(&mut self.yielded, true) {
                return false;
            }
            let since_ns = P::rough_ns();
            P::yield_now();
            self.crowd.learn(P::rough_ns().wrapping_sub(since_ns));
            return true;
        }
        if pool.watchers.swap(1, Acquire) != 0 {
            return false;
        }
        let since_ns = P::rough_ns();
        (0..self.gather_spins).for_each(|_| P::spin_hint());
        let seen = P::watch(self.watch_length.looks(), || queue.seen(&places));
        self.crowd.learn(P::rough_ns().wrapping_sub(since_ns));
        pool.watchers.store(0, Release);
        self.watch_length.watched(seen);
        self.watched = seen;
        seen
    }

    /// Watches the stacks of those who fork, as well; everybody who has nothing to do does so, for
    /// the next job may be shared at any moment. That there was one says little where all of them saw it: who
    /// gets it learns from that, see `run_fork`. (Where all learned, seventy idle workers never slept
    /// again, and those who had work waited for them at the pool's lock.)
    fn watch_for_forks(&mut self) -> bool {
        let (mut forks, mut items) = (false, false);
        let _ = P::watch(self.watch_length.looks(), || {
            // Not `has_forks`: who begins to fork and who stops would take that line from all who watch.
            forks = self.pool.any_shares();
            items = self.is_to_look();
            forks || items
        });
        if items || !forks {
            self.watch_length.watched(items);
        }
        self.saw_forks = forks;
        forks || items
    }

    /// Watches for all that may come to a member. Between the looks others have the CPU: a team has as many members as there are
    /// CPUs, and what comes from outside comes by one thread more.
    fn watch_as_member(&mut self, queue: &Injectors<P>, places: &Watches<P>) -> bool {
        let has_more = || self.slot.mail.has_jobs() || self.pool.has_forks() || queue.seen(places);
        let rounds = self.watch_length.looks() / SPINS_TO_A_ROUND;
        for _ in 0..=rounds {
            let seen = P::watch(SPINS_TO_A_ROUND, has_more);
            let since_ns = P::rough_ns();
            if !seen {
                P::yield_now();
            }
            if seen || has_more() {
                // Whether it is this one that gets it tells more than that it was seen, as in `watch_for_forks`.
                self.saw_forks = true;
                return true;
            }
            let others_ran = P::rough_ns().wrapping_sub(since_ns) > LONG_YIELD_NS;
            if others_ran || self.pool.is_ending.load(Relaxed) != 0 {
                break;
            }
        }
        self.watch_length.watched(false);
        false
    }

    /// True if items may come from another CPU than the worker's, which can be seen. Where they come from its
    /// own, whoever brings the next one needs the CPU.
    fn can_watch_others(&self) -> bool {
        self.pool.may_spin && self.pool.place.home.len() > 1
    }

    /// On the locked rung nothing can be watched but what a worker that has lain down is woken by. True if that is there.
    fn watch_permit(&mut self) -> bool {
        if self.pool.queue.is_some() || !self.can_watch_others() {
            return false;
        }
        let parker = &self.slot.parker;
        let seen = P::watch(self.watch_length.looks(), || parker.has_permit());
        self.watch_length.watched(seen);
        seen
    }

    /// Sleeps until its permit is there, or for `timeout`, and learns whether that should have been a watch. True if the
    /// permit was taken.
    pub(super) fn park_timeout(&mut self, timeout: Duration) -> bool {
        let parker = &self.slot.parker;
        if self.watch_permit() || !self.can_watch_others() {
            return parker.park_timeout(timeout);
        }
        let since = P::now();
        let woken = parker.park_timeout(timeout);
        if woken {
            self.watch_length.slept(P::now() - since);
        }
        woken
    }

    /// Waits before a claim, so that the producers are some items ahead, see [`Lead`](super::lead::Lead).
    #[cold]
    #[inline(never)]
    pub(super) fn let_ahead(&mut self) {
        let since_ns = P::rough_ns();
        while P::rough_ns().saturating_sub(since_ns) < self.lead.ns() {
            P::spin_hint();
        }
        // That was not the time of its items.
        self.patience.begin(P::rough_ns());
    }

    /// After a claim: learns how long to keep off the slots that a burst is being written to.
    ///
    /// Who looks at each slot as it is filled takes the line from under the producer's hands, and
    /// gets one item for each look. If what was watched for came in company, the next look comes
    /// later; if it came alone, sooner: a lone item is not kept waiting.
    #[inline]
    pub(super) fn learn_to_gather(&mut self, came_in_company: bool) {
        if std::mem::take(&mut self.watched) {
            self.gather_spins = if came_in_company {
                (self.gather_spins * 2).clamp(1, MAX_GATHER_SPINS)
            } else {
                self.gather_spins / 2
            };
        }
    }
}
