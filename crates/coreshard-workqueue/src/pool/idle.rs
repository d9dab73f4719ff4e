//! How a worker goes to sleep.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform};

use super::pool::Pool;
use super::sizes::Injectors;
use super::state::{Blocked, State, Worklist};
use super::worker::Worker;
use crate::base::canary::{Canary, planted};
use crate::insight::trouble::say;

/// How long a worker that was brought home may not be moved out again. It may be as soon as it sleeps after that: the kernel
/// moves it away from whoever else computes in its pod.
const STAY_AT_HOME: Duration = Duration::from_millis(5);

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
    /// until now; nor blocked or a hog, though it may have seemed so while it waited for the lock, or an item that is
    /// over has kept the guard by which it said so.
    #[inline]
    pub(super) fn rejoin(&mut self, worker: usize) {
        if self.blocked_as[worker] != Blocked::No {
            self.set_blocked(worker, Blocked::No);
        }
        if self.kicked == Some(worker) {
            self.kicked = None;
            self.idle.retain(|idle| *idle != worker);
        }
    }
}

impl<P: Platform> State<P> {
    /// Where others sleep beside the designated waiter, whoever calls several finds them.
    fn tell_of_more(&self, pool: &Pool<P>) {
        let are_more = !self.idle.is_empty() || self.runner_ups != 0;
        if are_more && pool.has_more_sleepers.load(Relaxed) == 0 {
            pool.has_more_sleepers.store(1, Relaxed);
        }
    }
}

impl<P: Platform> Worker<'_, P> {
    /// Sleeps until there may be work. False if the worker is let go: it is off all lists then.
    pub(super) fn sleep(&mut self) -> bool {
        let pool = self.pool;
        self.looked_ns = 0;
        let reactor = self.enter_reactor();
        let mut state = pool.lock();
        match self.lie_down(&mut state, reactor.is_some()) {
            Rest::None => return true,
            Rest::Leave => {
                state.let_go(self.index);
                // A rescuer leaves its pool to those who sleep: one of them is told of what comes.
                let kick = state.appoint_designated(pool);
                pool.unlock_and_kick(state, kick);
                return false;
            }
            Rest::Sleep => {
                state.tell_of_more(pool);
                state.tell_of_thieves(pool);
                let (kick, ending) = (state.choose_for_mail(pool), state.ending);
                pool.unlock_and_kick(state, kick);
                if ending {
                    // Perhaps this was the last that did something.
                    pool.end_team_if_over();
                }
            }
        }
        if let Some(reactor) = reactor {
            self.sleep_in(reactor);
            self.came();
            self.repatriate();
            return true;
        }
        let stays = self.park();
        if stays {
            pool.notice_drawn(self.index);
            self.came();
            self.repatriate();
        }
        stays
    }

    fn came(&mut self) {
        self.just_woke = true;
        self.context.forks.has_just_come.set(true);
        // Whether others sleep is to be seen anew.
        self.context.forks.uncalled.set((0, 0));
    }

    /// Puts itself on a list of sleepers, unless there is work. Under the lock, so that whoever
    /// brings work later finds it there, and work that came before is found here.
    fn lie_down(&mut self, state: &mut State<P>, in_reactor: bool) -> Rest {
        let pool = self.pool;
        state.rejoin(self.index);
        if in_reactor {
            state.in_reactor = Some(self.index);
        } else if state.in_reactor == Some(self.index) {
            state.in_reactor = None;
        }
        state.placement.rests(self.index);
        // Relaxed: a hint for who wakes it.
        self.slot.slept_at.store(pool.place.injector_here::<P>() as u32, Relaxed);
        if state.active() > pool.place.limit && !state.stopping {
            // More run than should, since one came back from being blocked: the others do the
            // work. At the far end of the list, to be culled first.
            state.idle.insert(0, self.index);
            return Rest::Sleep;
        }
        if (state.has_work_for(pool, 0) || self.slot.mail.has_jobs())
            && !planted(Canary::LostWakeup)
        {
            return Rest::None;
        }
        if state.stopping || self.is_rescuer() && state.idle_count() > 0 {
            return Rest::Leave;
        }
        if state.designated.is_some() && state.designated == state.in_reactor {
            // It stays: what it sees there is its own to run.
            state.idle.push(self.index);
            return Rest::Sleep;
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
                if state.may_steal(pool, 1)
                    && pool.has_forks()
                    && state.recall_designated(pool).is_some()
                {
                    return Rest::None;
                }
                state.appoint_runner_ups(pool, self.patience.runner_ups());
            }
            _ => {
                state.idle.push(self.index);
                P::touch_write(&raw const state.idle[state.idle.len() - 1]);
            }
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
        if self.park_timeout(pool.idle_timeout) {
            return true;
        }
        // Nobody needed this worker for a while: nor, perhaps, the memory of the last burst.
        pool.queue.iter().for_each(Injectors::trim);
        let state = pool.lock();
        if self.may_leave(state) {
            return false;
        }
        self.slot.parker.park();
        true
    }

    /// Comes home, if the kernel has moved this worker out of its pod, and stays for a while: where the one who wakes it keeps
    /// the pod's CPUs busy, as a producer does that waits for each item on a pool of its own CPU, each wake-up would lead
    /// it out again, at the price of two migrations and two calls.
    fn repatriate(&mut self) {
        let place = &self.pool.place;
        if place.home == place.roam {
            return;
        }
        let moved = if let Some(since) = self.stays_since {
            if P::now() - since < STAY_AT_HOME {
                return;
            }
            self.stays_since = None;
            P::set_affinity(&place.roam)
        } else if place.home.contains(P::current_cpu()) {
            return;
        } else {
            P::set_affinity(&place.home).map(|()| {
                self.repatriated += 1;
                self.stays_since = Some(P::now());
            })
        };
        if let Err(error) = moved {
            say(|| {
                tracing::warn!(pod = %place.pod, %error, "a worker cannot be brought home, or let out");
            });
        }
    }
}
