//! How a worker finds items (its own claims, the intake, other workers' claims) and forked jobs.

use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Platform};

use super::Worker;
use crate::pool::blocking::blocking;
use crate::pool::forked_jobs::any_shares;
use crate::pool::placement::FreeCpus;
use crate::pool::pool::{Pool, PoolGuard};
use crate::pool::roster::Blocked;
use crate::pool::shared::PoolShared;
use crate::pool::slots::{Claim, Injectors, MAX_CLAIMS, Takers};
use crate::pool::state::State;
use crate::pool::waiting_items::{TaggedItem, Worklist};

/// How long a worker runs job after job without taking the pool's lock.
const LOOK_EVERY_NS: u64 = 400_000;

/// Items that a worker took under the lock.
struct Taken<P: Platform> {
    /// A single item.
    item: Option<TaggedItem>,
    /// Items at one injector.
    claim: Option<Claim<P>>,
    /// Items at other injectors, which are already open to thieves.
    more: usize,
}

/// True if an item may wait, and no other thief is on its way to it: this worker becomes its lookout.
fn is_to_look<P: Platform>(pool: &PoolShared<P>, is_lookout: &mut bool) -> bool {
    let is_marked = || pool.intake.as_ref().is_none_or(Injectors::is_marked);
    *is_lookout |= is_marked() && pool.thieves.begin_lookout();
    *is_lookout
}

impl<P: Platform> Worker<'_, P> {
    #[inline]
    pub(super) fn next_item(&mut self) -> Option<TaggedItem> {
        loop {
            if let Some(item) = self.claims.next(self.pool) {
                return Some(item);
            }
            if self.is_member {
                self.run_team_jobs();
            }
            if self.items_before_look.is_some() {
                self.look_now_and_then();
            }
            if self.is_called_home() {
                return None;
            }
            let claimed = if self.only_steals() { None } else { self.claim() };
            if let Some(item) = claimed.or_else(|| self.steal()) {
                return Some(item);
            }
            if self.home_pool.is_some() || !self.run_fork() && !self.visit() && !self.watch() {
                return None;
            }
        }
    }

    /// True for a guest whose own pool has work.
    #[inline]
    fn is_called_home(&self) -> bool {
        self.home_pool.is_some_and(|pool| {
            pool.intake.as_ref().is_some_and(Injectors::is_marked) || pool.guests.are_wanted()
        })
    }

    /// Takes items out of the intake, under the lock, and wakes or designates workers for the rest.
    #[inline]
    fn claim(&mut self) -> Option<TaggedItem> {
        let pool = self.pool;
        self.estimator.look(P::rough_ns());
        let mut waited_ns = 0;
        let mut state = pool.try_lock_state().unwrap_or_else(|| {
            let state = pool.lock_state();
            waited_ns = self.estimator.begin(P::rough_ns());
            state
        });
        let was_lookout = std::mem::take(&mut self.is_lookout);
        if was_lookout {
            pool.thieves.end_lookout();
        }
        self.come_by(&mut state);
        let aside = if state.has_aside { state.take_aside(pool) } else { None };
        self.excess = state.active() > state.limit(pool);
        if self.excess && aside.is_none() {
            return None;
        }
        self.may_steal = state.may_steal(pool, 0);
        let home = pool.place.injector_here::<P>();
        if self.home_pool.is_none() {
            state.placement.runs_at(self.index, home);
        }
        let taken = if aside.is_some() {
            Taken { item: aside, claim: None, more: 0 }
        } else {
            match self.take(&mut state, home, waited_ns) {
                Some(taken) => taken,
                None => {
                    self.find_nothing(state, home);
                    return None;
                }
            }
        };
        let item = self.begin(state, taken, home, was_lookout);
        item.or_else(|| self.claims.next(pool))
    }

    /// The worker has the lock: it is neither idle nor blocked.
    #[inline]
    fn come_by(&mut self, state: &mut State<P>) {
        let was_hog = state.roster.blocked_as(self.index) == Blocked::Hog;
        state.rejoin(self.index);
        if was_hog {
            state.update_thieves(self.pool);
        }
        self.slot.count_look();
        let came_back = self.home.take_count();
        if came_back > 0 {
            state.cold_mut().counters.repatriated += came_back;
        }
    }

    /// Takes items out of the intake. `None` if there are none.
    #[inline]
    fn take(&mut self, state: &mut State<P>, home: usize, waited_ns: u64) -> Option<Taken<P>> {
        match (&mut state.worklist, &self.pool.intake) {
            (Worklist::Locked(list), _) => {
                P::touch_read(&raw const *list.front()?);
                Some(Taken { item: list.pop_front(), claim: None, more: 0 })
            }
            (Worklist::LockFree(takers), Some(intake)) => {
                let most = self.estimator.most();
                let claim = if self.estimator.are_long() {
                    intake.claim_oldest(takers, most, home)
                } else {
                    intake.claim(takers, most, home)
                }?;
                let mut more = 0;
                // A worker that waits for a contended lock as long as a wake-up takes its caller claims items at one more
                // injector. So it takes the lock less often.
                let claims = self.estimator.calls_in(waited_ns);
                if claims > 0 {
                    more = self.take_more(intake, takers, most - claim.items(), claims);
                }
                Some(Taken { item: None, claim: Some(claim), more })
            }
            (Worklist::LockFree(_), None) => unreachable!("the lock-free worklist has an intake"),
        }
    }

    /// Claims up to `most` more items at several more injectors, and opens them to thieves. Returns how many items.
    #[cold]
    #[inline(never)]
    fn take_more(
        &mut self,
        intake: &Injectors<P>,
        takers: &mut Takers<P>,
        most: usize,
        claims: usize,
    ) -> usize {
        let mut more = [const { None }; MAX_CLAIMS - 1];
        let claims = claims.min(more.len());
        intake.claim_more(takers, most, &mut more[..claims]);
        let mut items = 0;
        for claim in more.into_iter().flatten() {
            items += claim.items();
            self.estimator.claimed(claim.items());
            self.claims.open_one_more(self.pool, &claim);
        }
        items
    }

    /// Under the lock, when no item waits: goes on stealing, or notes the slots of the next items.
    fn find_nothing(&mut self, mut state: PoolGuard<'_, P>, home: usize) {
        let pool = self.pool;
        pool.guests.want_none();
        let (Worklist::LockFree(takers), Some(intake)) = (&mut state.worklist, &pool.intake) else {
            return;
        };
        if !self.is_member && self.may_steal && pool.thieves.may_have_forks() {
            return self.begin_to_steal(state);
        }
        self.spin.set_next_slots(intake.watch(takers, home));
        if self.is_member {
            self.look_for_jobs(state);
        }
    }

    /// Begins the taken items: opens them to thieves. Then wakes other workers for the rest, or designates one for new items.
    /// Returns the first item, if it is not open to thieves.
    #[inline]
    fn begin(
        &mut self,
        mut state: PoolGuard<'_, P>,
        taken: Taken<P>,
        home: usize,
        was_lookout: bool,
    ) -> Option<TaggedItem> {
        let pool = self.pool;
        let Taken { item, claim, more } = taken;
        let items = more + claim.as_ref().map_or(0, Claim::items);
        let suppresses = items > 0 && self.suppresses_wake(&mut state, items);
        let spare = if suppresses { None } else { state.reserve_spare(pool) };
        let (item, mut left) = match claim {
            None => (item, false),
            Some(claim) => {
                self.estimator.claimed(claim.items());
                // While this worker starts another, all its items are open.
                (self.claims.open(pool, claim, spare.is_none()), items > 1)
            }
        };
        self.spin.has_work();
        let just_woke = std::mem::take(&mut self.just_woke) && !suppresses;
        let away = if just_woke { self.other_here(&mut state, home, left) } else { None };
        // Counting the items at the injectors takes cache lines from their producers: only if a worker can be sent. The claims
        // of other workers count as well: one kick may have stood for two blocked workers, and the claims of both are
        // left to the one that was woken.
        let (mut kick, mut guests) = (None, None);
        if suppresses {
            state.stand_down(pool);
        } else {
            left |= state.can_kick(pool) && state.has_work_for(pool, 1);
            kick = state.pass_on(pool, left).or_else(|| state.call_rescuer());
            if self.estimator.are_worth_counting() && !self.current().neighbours().is_empty() {
                guests = Some(state.wanted_guests(pool, &self.estimator));
            }
            if was_lookout {
                // For the other thieves, which read the marks.
                state.arm_for_thieves(pool);
            }
        }
        let sees_to_others = spare.is_some() || away.is_some() || kick.is_some();
        pool.unlock_and_kick(state, kick);
        if let Some((other, free)) = away {
            // Not under the lock: the other one needs it on its way, and would fall asleep on it and be woken on this CPU again.
            // It runs or was just woken, and exits only after a long idle time.
            pool.steer(other, free, || ());
        }
        if let Some(guests) = guests {
            self.invite(guests);
        }
        // After the lock was released: see the monitor's `run`.
        pool.monitor.notice_work();
        if let Some(spare) = spare {
            pool.start_spare(spare);
        }
        if sees_to_others {
            // That took some microseconds, which do not count as the items' time.
            self.estimator.begin(P::rough_ns());
        }
        item
    }

    /// Sets how many guests the pool wants from here on, and wakes sleepers of the neighbours for the additional ones.
    fn invite(&self, guests: u32) {
        let more = self.pool.guests.want(guests);
        if more > 0 {
            let most = more.min(self.pool.wake_cost().fan_out()) as usize;
            Pool::call_several_of(self.current().neighbours(), most);
        }
    }

    /// Helps the nearest neighbour that wants guests, if there is one and the own pool can spare this worker.
    pub(super) fn visit(&mut self) -> bool {
        let pool = self.pool;
        if self.is_rescuer() || !pool.shares_workers() {
            return false;
        }
        let neighbours = self.current().neighbours();
        let Some(host) = neighbours.iter().find(|host| host.guests.are_wanted()) else {
            return false;
        };
        if self.excess || !pool.lock_state().can_lend(pool) || !host.guests.claim() {
            return false;
        }
        self.settle_items();
        let Some(index) = host.lock_state().receive_guest(host) else {
            host.guests.want_none();
            return false;
        };
        // The CPU time from here on belongs to the host.
        pool.accounts.close(self.slot);
        blocking::<P, _>(|| super::be_guest(host, index, pool));
        pool.accounts.open(self.slot, self.index, false);
        true
    }

    /// True if this worker will finish its new claim before another worker could help. Then it wakes none.
    #[inline]
    fn suppresses_wake(&mut self, state: &mut State<P>, items: usize) -> bool {
        let Self { estimator, .. } = self;
        estimator.learn_most(items);
        self.may_suppress
            && estimator.has_no_long_ones_beside(&mut state.since_long)
            && state.leaves_reactor_to(self.index)
            && estimator.suppresses_wake(items)
    }

    /// A worker that waits for this CPU, and the CPUs that it is to be sent to, to take the rest. One that was only just woken
    /// is sent only if the rest is worth the move.
    #[inline]
    fn other_here(
        &mut self,
        state: &mut State<P>,
        home: usize,
        left: bool,
    ) -> Option<(usize, FreeCpus)> {
        let (other, is_coming) = state.placement.other_at(self.index, home)?;
        let is_worth_it = left && !is_coming
            || self.estimator.are_worth_counting() && state.has_work_for(self.pool, 1);
        let free = is_worth_it.then(|| state.placement.send_elsewhere(other, &self.pool.place));
        Some((other, free.flatten()?))
    }

    /// Steals items that another worker of the pool has claimed and not yet run.
    fn steal(&mut self) -> Option<TaggedItem> {
        let pool = self.pool;
        if self.excess || !pool.slots.has_open_claims() {
            return None;
        }
        let (item, items) = self.claims.steal(pool, self.index)?;
        self.estimator.claimed(items);
        let mut state = pool.lock_state();
        state.cold_mut().counters.stolen += 1;
        // Published before the lock was taken: a worker that goes to sleep after this sees it.
        let kick = state.pass_on_rest(pool);
        pool.unlock_and_kick(state, kick);
        Some(item)
    }

    /// Runs a job that another worker has forked, if there is one. As after a claim, another worker is first woken for the
    /// rest or designated for new work.
    fn run_fork(&mut self) -> bool {
        let (pool, worker) = (self.pool, self.current());
        if self.excess || !self.may_steal {
            return false;
        }
        if self.is_member {
            // A worker was designated already: see `run_team_jobs`.
            let ran = worker.run_any(true);
            pool.count_ran(ran.into());
            return ran;
        }
        let job = worker.steal(false);
        self.spin.learn_of_forks(job.is_some());
        let Some(job) = job else { return false };
        // The job may take long, and a caller may wait for the items that this worker has run.
        self.settle_items();
        if self.looked_ns == 0 {
            let mut state = pool.lock_state();
            let spare = state.reserve_spare(pool);
            let kick = state.pass_on_rest(pool);
            self.looked_ns = P::rough_ns();
            pool.unlock_and_kick(state, kick);
            if let Some(spare) = spare {
                pool.start_spare(spare);
            }
        }
        pool.monitor.notice_work();
        self.slot.set_steals();
        worker.run_found(job);
        true
    }

    /// True if it may go on from one job to the next without the pool's lock, which each thief would take twice per job:
    /// no item waits, or another thief is the lookout; and a worker is designated for the next item, or that was ensured just
    /// now.
    #[inline]
    fn only_steals(&mut self) -> bool {
        self.looked_ns != 0 && self.goes_on_stealing()
    }

    #[cold]
    #[inline(never)]
    fn goes_on_stealing(&mut self) -> bool {
        self.slot.is_called_back.load(Relaxed) == 0
            && P::rough_ns().wrapping_sub(self.looked_ns) < LOOK_EVERY_NS
            && !is_to_look(self.pool, &mut self.is_lookout)
    }

    /// Under the lock, when no item waits: designates a worker for the next item; if it cannot, the item is seen on the wake
    /// word.
    #[cold]
    #[inline(never)]
    fn begin_to_steal(&mut self, mut state: PoolGuard<'_, P>) {
        let pool = self.pool;
        let kick = state.pass_on(pool, false);
        let is_armed = state.arm_for_thieves(pool);
        // It may have to start another worker, and take the lock again for that.
        let may_start = state.idle.count() == 0 && state.active() < state.limit(pool);
        self.looked_ns = if is_armed && !may_start { P::rough_ns() } else { 0 };
        self.slot.is_called_back.store(0, Relaxed);
        pool.unlock_and_kick(state, kick);
    }

    /// Runs the team's jobs, one after the other, as long as the pool's state need not be checked.
    ///
    /// It must be checked after a sleep, so that the next sleeper is designated before this worker begins anything, and if
    /// it counts as blocked.
    fn run_team_jobs(&mut self) {
        let worker = self.current();
        let mut ran = 0;
        while !self.just_woke
            && !self.excess
            && self.slot.is_called_back.load(Relaxed) == 0
            && worker.run_any(true)
        {
            ran += 1;
        }
        if ran > 0 {
            self.pool.count_ran(ran);
        }
        self.spin.learn_of_forks(ran > 0);
    }

    /// Under the lock, before a look for jobs: designates a worker for new work.
    fn look_for_jobs(&self, mut state: PoolGuard<'_, P>) {
        let pool = self.pool;
        self.slot.is_called_back.store(0, Relaxed);
        let kick = state.pass_on_rest(pool);
        pool.unlock_and_kick(state, kick);
        pool.monitor.notice_work();
    }

    /// Spins for a short while. Returns true if it is worth looking again.
    fn watch(&mut self) -> bool {
        let pool = self.pool;
        let Some(intake) = &pool.intake else { return false };
        if self.excess || !pool.settings.may_spin {
            return false;
        }
        // The work that it waits for also arrives at the reactor: it goes there.
        if pool.attributes.hooks.reactor.as_ref().is_some_and(|reactor| !reactor.is_taken()) {
            return false;
        }
        if !self.is_member && self.may_steal && pool.thieves.may_have_forks() {
            let Self { spin, is_lookout, .. } = self;
            return spin
                .watch_for_forks(|| any_shares(&pool.slots), || is_to_look(pool, is_lookout));
        }
        let Some(places) = self.spin.take_next_slots() else {
            // It has only stolen recently: it checks the intake before it sleeps.
            return std::mem::take(&mut self.looked_ns) != 0;
        };
        if self.is_member {
            self.spin.watch_as_member(pool, self.slot, intake, &places)
        } else {
            self.spin.watch_slots(pool, intake, &places)
        }
    }
}
