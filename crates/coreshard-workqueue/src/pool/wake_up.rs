//! Which worker is woken, started or designated for work that is left or will come. All of it under the pool's lock.

use coreshard_platform::Platform;

use super::idle_workers::Kick;
use super::roster::{RESCUER, Reserved};
use super::shared::PoolShared;
use super::state::State;
use super::waiting_items::Worklist;
use crate::intake::ItemWaits;

impl<P: Platform> State<P> {
    /// True if a worker that may run sleeps.
    #[inline]
    pub(super) fn can_kick(&self, pool: &PoolShared<P>) -> bool {
        self.idle.count() > 0 && self.active() < self.limit(pool)
    }

    /// Chooses the worker that went to sleep last, if one more may run. It counts as active from here on. So it is
    /// not chosen again, and does not exit, before it has run.
    #[inline]
    pub(super) fn choose_kick(&mut self, pool: &PoolShared<P>) -> Option<Kick> {
        if self.active() >= self.limit(pool) {
            return None;
        }
        self.idle.choose(pool.intake.as_ref(), pool.coalesces_wakes())
    }

    /// How many workers run, including one that was kicked and still sleeps.
    pub(super) fn active_soon(&self) -> usize {
        self.active() + usize::from(self.idle.kicked().is_some())
    }

    /// The waker continues its own work on this CPU, so the woken worker should wake up on another.
    fn steer(&mut self, kick: Kick, pool: &PoolShared<P>) -> Kick {
        let steer_to = self.placement.send_elsewhere(kick.worker, &pool.place);
        Kick { steer_to, ..kick }
    }

    /// Of a team: chooses a sleeper that has mail, if one more may run.
    #[inline]
    pub(super) fn choose_for_mail(&mut self, pool: &PoolShared<P>) -> Option<Kick> {
        if !pool.has_mail() || self.active() >= self.limit(pool) {
            return None;
        }
        self.idle
            .choose_addressee(pool.intake.as_ref(), |worker| pool.slots.get(worker).mail.has_jobs())
    }

    /// Makes sure that a worker does the remaining work, or is designated for new work.
    #[inline]
    pub(super) fn pass_on(&mut self, pool: &PoolShared<P>, left: bool) -> Option<Kick> {
        let mut kick = self.choose_for_mail(pool);
        if kick.is_none() && left {
            kick = self.choose_kick(pool);
        }
        match kick {
            Some(kick) => Some(self.steer(kick, pool)),
            None => self.appoint_designated(pool),
        }
    }

    /// As [`Self::pass_on`], counting remaining work only if a sleeper may take it.
    pub(super) fn pass_on_rest(&mut self, pool: &PoolShared<P>) -> Option<Kick> {
        let left = self.can_kick(pool) && self.has_work_for(pool, 1);
        self.pass_on(pool, left)
    }

    /// Posts an idle worker as the designated waiter, if one more may run. If an item arrived meanwhile, chooses a worker to
    /// be woken.
    #[inline]
    pub(super) fn appoint_designated(&mut self, pool: &PoolShared<P>) -> Option<Kick> {
        let intake = pool.intake.as_ref()?;
        if self.idle.designated().is_some() || self.active() >= self.limit(pool) {
            return None;
        }
        let worker = self.idle.candidate(Some(intake))?;
        let Worklist::LockFree(takers) = &mut self.worklist else { return None };
        match intake.post(takers, worker) {
            Ok(before) => {
                debug_assert_eq!(before, None, "there was no designated waiter");
                self.idle.designate(worker, None);
                None
            }
            Err(ItemWaits) => self.choose_kick(pool),
        }
    }

    /// Posts up to `most` sleepers that a burst wakes as well, after the designated waiter was posted.
    pub(super) fn appoint_runner_ups(&mut self, pool: &PoolShared<P>, most: u32) {
        if pool.is_team() {
            return;
        }
        // Named workers run as soon as they are woken.
        let may_run = self.limit(pool).saturating_sub(self.active() + 1);
        let more = self.idle.name_runner_ups(may_run.min(most as usize));
        if more != 0
            && let (Some(intake), Worklist::LockFree(takers)) = (&pool.intake, &mut self.worklist)
        {
            intake.post_runner_ups(takers, more, most.into());
        }
    }

    /// Takes named workers off their words, and lets them sleep on: the caller will see new work without them.
    pub(super) fn stand_down(&mut self, pool: &PoolShared<P>) {
        if self.idle.has_named() {
            // First: a worker that forks, and finds no sleeper to wake, sees it.
            pool.intake.iter().for_each(|intake| intake.set_unposted(true));
            self.idle.withdraw_all(pool.intake.as_ref());
        }
    }

    /// Makes sure that the next item is seen on the wake word. Returns false if one waits.
    #[cold]
    #[inline(never)]
    pub(super) fn arm_for_thieves(&mut self, pool: &PoolShared<P>) -> bool {
        match (&mut self.worklist, &pool.intake) {
            (Worklist::LockFree(takers), Some(intake)) => intake.arm_marked(takers).is_ok(),
            _ => false,
        }
    }

    /// Reserves an index for one more worker, which counts as alive from here on.
    pub(super) fn reserve_worker(&mut self, pool: &PoolShared<P>) -> Option<usize> {
        match self.roster.reserve(pool.settings.most_workers, &pool.slots) {
            Reserved::Index(index) => Some(index),
            Reserved::Refused => {
                self.cold_mut().counters.refused_workers += 1;
                None
            }
        }
    }

    /// Reserves an index for a spare worker, if all others are busy and one more may run.
    pub(super) fn reserve_spare(&mut self, pool: &PoolShared<P>) -> Option<usize> {
        let is_wanted = self.idle.count() == 0
            && self.roster.unblocked() < self.limit(pool)
            && !self.roster.stopping
            // A team has only its members.
            && !pool.is_team();
        if !is_wanted || self.roster.leave_to_starter() {
            return None;
        }
        let index = self.reserve_worker(pool)?;
        self.roster.starting += 1;
        Some(index)
    }

    /// Calls the rescuer, if a worker was refused since the last call.
    pub(super) fn call_rescuer(&mut self) -> Option<Kick> {
        if !self.roster.call_rescuer() {
            return None;
        }
        self.cold_mut().counters.rescues += 1;
        Some(Kick::new(RESCUER))
    }

    /// After a worker was blocked: chooses a worker that takes its place, for remaining or new work.
    pub(super) fn find_stand_in(&mut self, pool: &PoolShared<P>) -> (Option<Kick>, Option<usize>) {
        self.update_thieves(pool);
        let left = self.has_work_for(pool, 1);
        let kick = self.pass_on(pool, left);
        let spare = if kick.is_none() { self.reserve_spare(pool) } else { None };
        (kick.or_else(|| self.call_rescuer()), spare)
    }
}
