//! Choosing whom to wake.

use coreshard_platform::Platform;

use super::patience::Patience;
use super::pool::Pool;
use super::sizes::Injectors;
use super::state::{Kick, MAX_NAMED, State, Worklist};
use crate::base::bits::bits;
use crate::base::rungs::Wake;
use crate::intake::ItemWaits;

impl<P: Platform> State<P> {
    /// True if an item waits in the intake, or was taken out and has not begun.
    #[inline]
    pub(super) fn has_queued(&mut self, pool: &Pool<P>) -> bool {
        if self.has_aside && self.cold().aside.has_items() {
            return true;
        }
        match &mut self.worklist {
            Worklist::Locked(list) => !list.is_empty(),
            Worklist::LockFree(taker) => {
                pool.queue.as_ref().is_some_and(|queue| queue.ready(taker))
            }
        }
    }

    /// True if somebody sleeps who may run.
    #[inline]
    pub(super) fn can_kick(&self, pool: &Pool<P>) -> bool {
        self.idle_count() > 0 && self.active() < pool.place.limit
    }

    /// Chooses the worker that went to sleep last, if one more may run.
    ///
    /// It counts as active from here on, so that it is not chosen, and not culled, before it has
    /// run. Only on the coalesced rung it stays where it is, marked, and further kicks do
    /// nothing: the one wake-up on its way will find the work, and pass on what is left of it.
    #[inline]
    pub(super) fn choose_kick(&mut self, pool: &Pool<P>) -> Option<Kick> {
        if self.active() >= pool.place.limit {
            return None;
        }
        if let Some(kick) = self.recall_designated(pool).or_else(|| self.recall_a_runner_up(pool)) {
            return Some(kick);
        }
        if pool.attributes.wake == Wake::Coalesced {
            if self.kicked.is_some() {
                self.coalesced_kicks += 1;
                return None;
            }
            let worker = *self.idle.last()?;
            self.kicked = Some(worker);
            self.kicks += 1;
            return Some(Kick::new(worker));
        }
        P::touch_read(&raw const *self.idle.last()?);
        let worker = self.idle.pop()?;
        self.kicks += 1;
        Some(Kick::new(worker))
    }

    /// How many run, with the one who was kicked and sleeps yet.
    pub(super) fn active_soon(&self) -> usize {
        self.active() + usize::from(self.kicked.is_some())
    }

    /// True if somebody sleeps who may run, and so much waits that all who run would be busy with it for longer than a wake-up takes. Only on
    /// the coalesced rung: the others are what they were.
    pub(super) fn is_worth_another(&self, pool: &Pool<P>, patience: &Patience) -> bool {
        let active = self.active_soon();
        let (Some(queue), Worklist::LockFree(takers)) = (&pool.queue, &self.worklist) else {
            return false;
        };
        patience.are_worth_counting()
            && pool.calls_several()
            && self.idle_count() > usize::from(self.kicked.is_some())
            && active < pool.place.limit
            && !pool.is_team()
            && patience.are_worth_another(queue.waiting(takers), active)
    }

    /// Where that [is worth it](Self::is_worth_another), chooses one more sleeper, though another may be on its way: so those who run double with each wake-up, where they would be one
    /// more.
    #[cold]
    pub(super) fn choose_another(&mut self, pool: &Pool<P>) -> Option<Kick> {
        let mut kick = self.choose_unnamed(pool)?;
        kick.steer_to = self.placement.send_elsewhere(kick.worker, &pool.place);
        Some(kick)
    }

    /// Chooses the sleeper that lay down last, of those that nobody is on his way to wake; a runner-up where there is no other.
    pub(super) fn choose_unnamed(&mut self, pool: &Pool<P>) -> Option<Kick> {
        match self.idle.iter().rposition(|worker| self.kicked != Some(*worker)) {
            Some(at) => {
                self.kicks += 1;
                Some(Kick::new(self.idle.remove(at)))
            }
            None => self.recall_a_runner_up(pool),
        }
    }

    /// Of a team: chooses a sleeper that has mail, if one more may run.
    #[inline]
    pub(super) fn choose_for_mail(&mut self, pool: &Pool<P>) -> Option<Kick> {
        if pool.has_mail() { self.choose_addressee(pool) } else { None }
    }

    #[cold]
    fn choose_addressee(&mut self, pool: &Pool<P>) -> Option<Kick> {
        if self.active() >= pool.place.limit {
            return None;
        }
        let has_mail = |worker: usize| pool.slot(worker).mail.has_jobs();
        if self.designated.is_some_and(has_mail) {
            return self.recall_designated(pool);
        }
        let is_kicked = |worker: usize| self.kicked == Some(worker);
        let at = self.idle.iter().position(|worker| !is_kicked(*worker) && has_mail(*worker))?;
        self.kicks += 1;
        Some(Kick::new(self.idle.remove(at)))
    }

    /// Sees to it that somebody does what is left, or is told of what comes.
    #[inline]
    pub(super) fn pass_on(&mut self, pool: &Pool<P>, left: bool) -> Option<Kick> {
        let mut kick = self.choose_for_mail(pool);
        if kick.is_none() && left {
            kick = self.choose_kick(pool);
        }
        if let Some(kick) = &mut kick {
            // Whoever passes work on goes on with its own, on this CPU.
            kick.steer_to = self.placement.send_elsewhere(kick.worker, &pool.place);
        }
        kick.or_else(|| self.appoint_designated(pool))
    }

    /// Takes the designated waiter off the wake word, to wake it for other work. Where a producer was quicker,
    /// it is awake anyway.
    pub(super) fn recall_designated(&mut self, pool: &Pool<P>) -> Option<Kick> {
        let worker = self.withdraw_designated(pool)?;
        self.kicks += 1;
        Some(Kick::new(worker))
    }

    /// Takes this runner-up off its word, as [`Self::recall_designated`].
    pub(super) fn recall_runner_up(&mut self, pool: &Pool<P>, worker: usize) -> Option<Kick> {
        let worker = self.withdraw_runner_up(pool, worker)?;
        self.kicks += 1;
        Some(Kick::new(worker))
    }

    /// The same, for any of them.
    pub(super) fn recall_a_runner_up(&mut self, pool: &Pool<P>) -> Option<Kick> {
        let worker = self.withdraw_a_runner_up(pool)?;
        self.kicks += 1;
        Some(Kick::new(worker))
    }

    /// Takes the designated waiter off the wake word. It sleeps on, on no list; or a producer was quicker.
    fn withdraw_designated(&mut self, pool: &Pool<P>) -> Option<usize> {
        let worker = self.designated.take()?;
        self.withdrawn(worker, pool.queue.as_ref().and_then(Injectors::recall))
    }

    /// Takes this runner-up off its word, as [`Self::withdraw_designated`].
    fn withdraw_runner_up(&mut self, pool: &Pool<P>, worker: usize) -> Option<usize> {
        self.runner_ups &= !(1 << worker);
        self.withdrawn(worker, pool.queue.as_ref().and_then(|queue| queue.take_runner_up(worker)))
    }

    /// The same, for one of them that no producer was quicker to take.
    fn withdraw_a_runner_up(&mut self, pool: &Pool<P>) -> Option<usize> {
        while self.runner_ups != 0 {
            let worker = self.runner_ups.trailing_zeros() as usize;
            let taken = self.withdraw_runner_up(pool, worker);
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// Who was on the word, if anybody: else the producer who took it wakes it.
    fn withdrawn(&mut self, worker: usize, taken: Option<usize>) -> Option<usize> {
        debug_assert!(taken.is_none_or(|taken| taken == worker), "only this one was posted");
        self.kicks += u64::from(taken.is_none());
        taken
    }

    /// Who is named for producers to wake and is not there any more was woken by one, and is active.
    #[inline]
    pub(super) fn notice_woken(&mut self, pool: &Pool<P>) {
        let queue = pool.queue.as_ref();
        if let Some(designated) = self.designated
            && queue.and_then(Injectors::designated) != Some(designated)
        {
            self.designated = None;
            self.comes(designated);
        }
        let woken = self.runner_ups & !queue.map_or(0, Injectors::runner_ups);
        self.runner_ups &= !woken;
        bits(woken).for_each(|worker| self.comes(worker));
    }

    fn comes(&mut self, woken: usize) {
        self.kicks += 1;
        self.placement.comes(woken);
    }

    /// Names sleepers that a burst is to wake as well, after the designated waiter was posted: up to so many.
    pub(super) fn appoint_runner_ups(&mut self, pool: &Pool<P>, most: u32) {
        if pool.is_team() {
            return;
        }
        let mut more = 0_u64;
        // Those who were named run as soon as they are woken.
        let may_run = pool.place.limit.saturating_sub(self.active() + 1);
        while (self.runner_ups | more).count_ones() < most.min(may_run as u32)
            && let Some(worker) =
                self.idle.pop_if(|worker| self.kicked != Some(*worker) && *worker < MAX_NAMED)
        {
            more |= 1 << worker;
        }
        if more != 0
            && let (Some(queue), Worklist::LockFree(takers)) = (&pool.queue, &mut self.worklist)
        {
            queue.post_runner_ups(takers, more, most.into());
        }
        self.runner_ups |= more;
    }

    /// Takes those who are named for producers off their words, and lets them sleep: what comes next is seen to
    /// without them.
    pub(super) fn stand_down(&mut self, pool: &Pool<P>) {
        if self.designated.is_none() && self.runner_ups == 0 {
            return;
        }
        // First: whoever forks, and finds nobody to call, sees it.
        pool.queue.iter().for_each(|queue| queue.set_unposted(true));
        while let Some(runner_up) = self.withdraw_a_runner_up(pool) {
            self.idle.push(runner_up);
        }
        let designated = self.withdraw_designated(pool);
        self.idle.extend(designated);
    }

    /// Posts an idle worker as the designated waiter, if one more may run. If an item came meanwhile, a
    /// worker is to be kicked.
    #[inline]
    pub(super) fn appoint_designated(&mut self, pool: &Pool<P>) -> Option<Kick> {
        let Some(queue) = &pool.queue else { return None };
        if self.designated.is_some() || self.active() >= pool.place.limit {
            return None;
        }
        let idle = self.idle.iter().rev().find(|worker| self.kicked != Some(**worker));
        let worker = match idle {
            Some(worker) => *worker,
            None => {
                // It steps up, unless a burst wakes it just now.
                let worker = self.withdraw_a_runner_up(pool)?;
                self.idle.push(worker);
                worker
            }
        };
        let Worklist::LockFree(takers) = &mut self.worklist else { return None };
        match queue.post(takers, worker) {
            Ok(before) => {
                debug_assert_eq!(before, None, "there was no designated");
                self.idle.retain(|idle| *idle != worker);
                self.designated = Some(worker);
                None
            }
            Err(ItemWaits) => self.choose_kick(pool),
        }
    }

    /// Everybody who sleeps, taken off all lists.
    pub(super) fn all_sleepers(&mut self, pool: &Pool<P>) -> Vec<usize> {
        let mut sleepers = std::mem::take(&mut self.idle);
        // One who was kicked has its wake-up on the way.
        if let Some(kicked) = self.kicked.take() {
            sleepers.retain(|worker| *worker != kicked);
        }
        sleepers.extend(self.recall_designated(pool).map(|kick| kick.worker));
        sleepers.extend(std::iter::from_fn(|| Some(self.recall_a_runner_up(pool)?.worker)));
        sleepers
    }
}
