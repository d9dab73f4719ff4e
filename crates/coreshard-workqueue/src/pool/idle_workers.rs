//! The workers that sleep, and which of them is woken next.

use coreshard_platform::Platform;

use super::placement::FreeCpus;
use super::slots::Injectors;
use crate::base::bits::bits;
use crate::base::canary::{Canary, planted};

/// Workers with a smaller index may be runners-up: each has a bit.
const MAX_NAMED: usize = u64::BITS as usize;

/// A worker that was chosen under the lock: the holder wakes it, exactly once.
#[must_use]
pub(super) struct Kick {
    pub(super) worker: usize,
    /// The CPUs it should wake up on, if not on its last one; see `placement`.
    pub(super) steer_to: Option<FreeCpus>,
}

impl Kick {
    pub(super) fn new(worker: usize) -> Self {
        Self { worker, steer_to: None }
    }
}

/// Sleeping workers. Each is listed here, or named on one of the intake's two words, for a producer to wake. When a
/// producer has taken one off its word, the next holder of the lock notices.
#[repr(C)]
pub(super) struct IdleWorkers {
    /// Sleeping workers that are not named on a word, the latest last.
    listed: Vec<usize>,
    /// Sleepers that the producer of a burst wakes in addition to the designated waiter, a bit each.
    runner_ups: u64,
    /// The worker that the next producer wakes (lock-free intake only).
    designated: Option<u32>,
    /// The listed worker that was kicked and has not run yet (coalesced wake-ups only).
    kicked: Option<u32>,
    /// Wake-ups that were decided on, and suppressed ones; see `PoolStats`.
    kicks: u64,
    coalesced_kicks: u64,
}

impl IdleWorkers {
    pub(super) fn new() -> Self {
        Self {
            listed: Vec::new(),
            runner_ups: 0,
            designated: None,
            kicked: None,
            kicks: 0,
            coalesced_kicks: 0,
        }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.listed.len()
            + usize::from(self.designated.is_some())
            + self.runner_ups.count_ones() as usize
    }

    /// Wake-ups that were decided on, and suppressed ones.
    pub(super) fn kicks(&self) -> (u64, u64) {
        (self.kicks, self.coalesced_kicks)
    }

    pub(super) fn designated(&self) -> Option<usize> {
        self.designated.map(|worker| worker as usize)
    }

    pub(super) fn kicked(&self) -> Option<usize> {
        self.kicked.map(|worker| worker as usize)
    }

    /// True if workers sleep that no producer would wake.
    pub(super) fn has_listed(&self) -> bool {
        !self.listed.is_empty()
    }

    /// True if workers sleep besides the designated waiter.
    pub(super) fn has_more(&self) -> bool {
        self.has_listed() || self.runner_ups != 0
    }

    /// True if workers are named for producers to wake.
    #[inline]
    pub(super) fn has_named(&self) -> bool {
        self.designated.is_some() || self.runner_ups != 0
    }

    /// Workers that are listed or named, each as often as it is.
    pub(super) fn sleepers(&self) -> impl Iterator<Item = usize> {
        self.listed.iter().copied().chain(self.designated()).chain(bits(self.runner_ups))
    }

    pub(super) fn is_asleep(&self, worker: usize) -> bool {
        self.sleepers().any(|sleeper| sleeper == worker)
    }

    /// True if another worker sleeps, and was not kicked.
    fn has_other(&self, worker: usize) -> bool {
        self.sleepers().any(|sleeper| sleeper != worker && self.kicked() != Some(sleeper))
    }

    pub(super) fn is_kicked_listed(&self) -> bool {
        self.kicked().is_none_or(|kicked| self.listed.contains(&kicked))
    }

    /// The worker takes the lock again. If it was kicked, it was left in the list until now.
    #[inline]
    pub(super) fn rejoin(&mut self, worker: usize) {
        if self.kicked() == Some(worker) {
            self.kicked = None;
            self.listed.retain(|listed| *listed != worker);
        }
    }

    /// Lists the worker as the first to be woken.
    pub(super) fn push<P: Platform>(&mut self, worker: usize) {
        self.listed.push(worker);
        P::touch_write(&raw const self.listed[self.listed.len() - 1]);
    }

    /// Lists the worker as the last to be woken and the first to exit.
    pub(super) fn push_coldest(&mut self, worker: usize) {
        self.listed.insert(0, worker);
    }

    /// Records that the worker was posted as the designated waiter, in place of `before`, which sleeps on.
    pub(super) fn designate(&mut self, worker: usize, before: Option<usize>) {
        self.listed.retain(|listed| *listed != worker);
        self.designated = Some(worker as u32);
        self.listed.extend(before);
    }

    /// Removes a listed worker from the list, if it was not kicked or `even_kicked` is set. Returns false if it is not listed.
    pub(super) fn remove(&mut self, worker: usize, even_kicked: bool) -> bool {
        if self.kicked() == Some(worker) && !even_kicked {
            return false;
        }
        let before = self.listed.len();
        self.listed.retain(|listed| *listed != worker);
        self.listed.len() < before
    }

    fn is_runner_up(&self, worker: usize) -> bool {
        worker < MAX_NAMED && self.runner_ups & 1 << worker != 0
    }

    /// Chooses the worker that went to sleep last. It no longer counts as a sleeper.
    ///
    /// With `is_coalesced` a listed worker stays in the list, marked, and further calls choose none: the single wake-up on its
    /// way will find the work, and pass on the rest.
    #[inline]
    pub(super) fn choose<P: Platform>(
        &mut self,
        intake: Option<&Injectors<P>>,
        is_coalesced: bool,
    ) -> Option<Kick> {
        if let Some(kick) =
            self.recall_designated(intake).or_else(|| self.recall_a_runner_up(intake))
        {
            return Some(kick);
        }
        if is_coalesced && self.kicked.is_some() {
            self.coalesced_kicks += 1;
            return None;
        }
        let worker = *self.listed.last()?;
        if is_coalesced {
            self.kicked = Some(worker as u32);
        } else {
            P::touch_read(&raw const self.listed[self.listed.len() - 1]);
            self.listed.pop();
        }
        self.kicks += 1;
        Some(Kick::new(worker))
    }

    /// Chooses the sleeper that parked last and that no thread is about to wake; if none is left, a runner-up.
    pub(super) fn choose_unnamed<P: Platform>(
        &mut self,
        intake: Option<&Injectors<P>>,
    ) -> Option<Kick> {
        match self.listed.iter().rposition(|worker| self.kicked() != Some(*worker)) {
            Some(at) => Some(self.take_listed(at)),
            None => self.recall_a_runner_up(intake),
        }
    }

    /// Chooses a sleeper that has mail.
    pub(super) fn choose_addressee<P: Platform>(
        &mut self,
        intake: Option<&Injectors<P>>,
        has_mail: impl Fn(usize) -> bool,
    ) -> Option<Kick> {
        if self.designated().is_some_and(&has_mail) {
            return self.recall_designated(intake);
        }
        let is_addressee = |worker: &usize| self.kicked() != Some(*worker) && has_mail(*worker);
        let at = self.listed.iter().position(is_addressee)?;
        Some(self.take_listed(at))
    }

    fn take_listed(&mut self, at: usize) -> Kick {
        self.kicks += 1;
        Kick::new(self.listed.remove(at))
    }

    /// Takes a worker that was idle for too long off its list, so that it may exit. Returns false if it must stay: it was
    /// chosen meanwhile, or is the last sleeper.
    pub(super) fn leave<P: Platform>(
        &mut self,
        intake: Option<&Injectors<P>>,
        worker: usize,
    ) -> bool {
        if !self.has_other(worker) {
            return false;
        }
        if self.designated() == Some(worker) {
            // The caller designates another worker, if no producer has read this name yet.
            self.recall_designated(intake).is_some()
        } else if self.is_runner_up(worker) {
            // If none is designated, the previous one is being woken, or a worker runs: the next holder of the lock designates
            // another.
            self.designated.is_some() && self.recall_runner_up(intake, worker).is_some()
        } else {
            self.remove(worker, planted(Canary::CullRace))
        }
    }

    /// Takes the designated waiter off the wake word, for the caller to wake. `None` if a producer was quicker, and wakes it.
    pub(super) fn recall_designated<P: Platform>(
        &mut self,
        intake: Option<&Injectors<P>>,
    ) -> Option<Kick> {
        let worker = self.withdraw_designated(intake)?;
        self.kicks += 1;
        Some(Kick::new(worker))
    }

    /// The same, for this runner-up.
    fn recall_runner_up<P: Platform>(
        &mut self,
        intake: Option<&Injectors<P>>,
        worker: usize,
    ) -> Option<Kick> {
        let worker = self.withdraw_runner_up(intake, worker)?;
        self.kicks += 1;
        Some(Kick::new(worker))
    }

    /// The same, for any of them.
    fn recall_a_runner_up<P: Platform>(&mut self, intake: Option<&Injectors<P>>) -> Option<Kick> {
        let worker = self.withdraw_a_runner_up(intake)?;
        self.kicks += 1;
        Some(Kick::new(worker))
    }

    /// Takes the designated waiter off the wake word. It sleeps on, on no list, unless a producer was quicker.
    fn withdraw_designated<P: Platform>(&mut self, intake: Option<&Injectors<P>>) -> Option<usize> {
        let worker = self.designated.take()? as usize;
        let taken = intake.and_then(Injectors::recall);
        debug_assert!(taken.is_none_or(|taken| taken == worker), "only this one was posted");
        self.kicks += u64::from(taken.is_none());
        taken
    }

    fn withdraw_runner_up<P: Platform>(
        &mut self,
        intake: Option<&Injectors<P>>,
        worker: usize,
    ) -> Option<usize> {
        self.runner_ups &= !(1 << worker);
        let taken = intake.and_then(|intake| intake.take_runner_up(worker));
        self.kicks += u64::from(taken.is_none());
        taken
    }

    /// The same, for a runner-up that no producer has taken.
    fn withdraw_a_runner_up<P: Platform>(
        &mut self,
        intake: Option<&Injectors<P>>,
    ) -> Option<usize> {
        while self.runner_ups != 0 {
            let worker = self.runner_ups.trailing_zeros() as usize;
            let taken = self.withdraw_runner_up(intake, worker);
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// Calls `mark_running` with each worker that producers have taken off their words: it was woken, and is active.
    #[inline]
    pub(super) fn notice_woken<P: Platform>(
        &mut self,
        intake: Option<&Injectors<P>>,
        mut mark_running: impl FnMut(usize),
    ) {
        if let Some(designated) = self.designated()
            && intake.and_then(Injectors::designated) != Some(designated)
        {
            self.designated = None;
            self.kicks += 1;
            mark_running(designated);
        }
        let woken = self.runner_ups & !intake.map_or(0, Injectors::runner_ups);
        self.runner_ups &= !woken;
        self.kicks += u64::from(woken.count_ones());
        bits(woken).for_each(mark_running);
    }

    /// Makes listed workers runners-up, so that there are up to `most`. Returns the new ones, a bit each, which the caller
    /// posts.
    pub(super) fn name_runner_ups(&mut self, most: usize) -> u64 {
        let mut more = 0_u64;
        while ((self.runner_ups | more).count_ones() as usize) < most
            && let kicked = self.kicked()
            && let Some(worker) =
                self.listed.pop_if(|worker| kicked != Some(*worker) && *worker < MAX_NAMED)
        {
            more |= 1 << worker;
        }
        self.runner_ups |= more;
        more
    }

    /// Takes all named workers off their words, and lets them sleep on.
    pub(super) fn withdraw_all<P: Platform>(&mut self, intake: Option<&Injectors<P>>) {
        while let Some(runner_up) = self.withdraw_a_runner_up(intake) {
            self.listed.push(runner_up);
        }
        let designated = self.withdraw_designated(intake);
        self.listed.extend(designated);
    }

    /// The sleeper to post as the designated waiter: a listed one, else a runner-up, which is then listed.
    pub(super) fn candidate<P: Platform>(
        &mut self,
        intake: Option<&Injectors<P>>,
    ) -> Option<usize> {
        let listed = self.listed.iter().rev().find(|worker| self.kicked() != Some(**worker));
        listed.copied().or_else(|| {
            // Unless a burst wakes it at this moment.
            let worker = self.withdraw_a_runner_up(intake)?;
            self.listed.push(worker);
            Some(worker)
        })
    }

    /// All sleepers, taken off all lists, for the caller to wake.
    pub(super) fn take_all<P: Platform>(&mut self, intake: Option<&Injectors<P>>) -> Vec<usize> {
        let mut sleepers = std::mem::take(&mut self.listed);
        // The wake-up of a kicked worker is on its way.
        if let Some(kicked) = self.kicked.take() {
            sleepers.retain(|worker| *worker != kicked as usize);
        }
        sleepers.extend(self.recall_designated(intake).map(|kick| kick.worker));
        sleepers.extend(std::iter::from_fn(|| Some(self.recall_a_runner_up(intake)?.worker)));
        sleepers
    }

    /// Lists the designated waiter, which is no longer on a word, as after a bug.
    #[cfg(all(test, not(loom)))]
    pub(super) fn forget_designated(&mut self) {
        self.listed.extend(self.designated.take().map(|worker| worker as usize));
    }

    /// The lists in text, for a report on a broken invariant.
    pub(super) fn books(&self) -> String {
        let Self { listed, runner_ups, .. } = self;
        let (designated, kicked) = (self.designated(), self.kicked());
        format!(
            "idle {listed:?}, designated {designated:?}, runners-up {runner_ups:#b}, kicked {kicked:?}"
        )
    }
}
