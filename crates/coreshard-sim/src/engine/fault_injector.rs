//! What goes wrong in a run, drawn from its seed.

use std::time::Duration;

use super::faults::{FailedStarts, Faults, Schedule};
use super::pct::Pct;
use crate::machine::{NS, Ps, ps};
use crate::random::{Random, mix};

/// The longest turn of a thread where CPUs may stall or threads be held back: a few accesses.
const LONGEST_TURN: Ps = 50 * NS;

/// Draws, at each chance for a fault, whether it happens.
pub(super) struct FaultInjector {
    faults: Faults,
    random: Random,
    /// Where the schedule is [`Schedule::Pct`].
    pct: Option<Pct>,
    /// How many more starts fail, after one that has,
    starts_to_fail: u64,
    /// or until when all do.
    starts_fail_until: Ps,
}

const MILLION: u64 = 1_000_000;

impl FaultInjector {
    pub(super) fn new(faults: Faults, seed: u64, cpus: usize) -> Self {
        // Another sequence than the one that breaks ties.
        let mut random = Random::new(mix(!seed));
        let pct = match faults.schedule {
            Schedule::Timed => None,
            Schedule::Pct { depth, turns } => Some(Pct::new(depth, turns, cpus, &mut random)),
        };
        Self { faults, random, pct, starts_to_fail: 0, starts_fail_until: 0 }
    }

    fn happens(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.random.below(MILLION) < u64::from(per_million)
    }

    /// Between a picosecond and `most`.
    fn up_to(&mut self, most: Duration) -> Ps {
        self.random.below(ps(most).max(1)) + 1
    }

    /// How long a thread goes on before the next chance to stop it; for ever where nothing stops threads.
    pub(super) fn turn(&mut self) -> Ps {
        if self.pct.is_some() || self.faults.stalls_per_million > 0 {
            self.random.below(LONGEST_TURN) + 1
        } else {
            Ps::MAX
        }
    }

    /// How long a CPU stalls, if it does.
    pub(super) fn stall(&mut self) -> Option<Ps> {
        let stalls = self.happens(self.faults.stalls_per_million);
        stalls.then(|| self.up_to(self.faults.longest_stall))
    }

    /// How long a CPU stalls at a point of preemption, if it does.
    pub(super) fn stall_at_point(&mut self) -> Option<Ps> {
        let stalls = self.happens(self.faults.stalls_at_points_per_million);
        stalls.then(|| self.up_to(self.faults.longest_stall))
    }

    #[inline]
    pub(super) const fn may_buffer_stores(&self) -> bool {
        self.faults.held_stores_per_million > 0
    }

    /// How long a store stays in the CPU's store buffer, if it does.
    pub(super) fn store_delay(&mut self) -> Option<Ps> {
        let delayed = self.happens(self.faults.held_stores_per_million);
        delayed.then(|| self.up_to(self.faults.longest_hold))
    }

    /// How long a CPU with buffered stores stalls after a load, if it does.
    pub(super) fn stall_after_load(&mut self) -> Option<Ps> {
        let stalls = self.random.below(4) == 0;
        stalls.then(|| self.up_to(self.faults.longest_hold))
    }

    /// After how long a wait returns though nobody woke it, if it does; 0: at once.
    pub(super) fn spurious_wakeup(&mut self) -> Option<Ps> {
        let wakes = self.happens(self.faults.spurious_wakeups_per_million);
        wakes.then(|| match self.faults.longest_delay {
            Duration::ZERO => 0,
            _ if self.random.below(2) == 0 => 0,
            longest => self.up_to(longest),
        })
    }

    /// How much later a woken thread becomes runnable, if it does.
    pub(super) fn wakeup_delay(&mut self) -> Option<Ps> {
        let late = self.happens(self.faults.delayed_wakeups_per_million);
        late.then(|| self.up_to(self.faults.longest_delay))
    }

    /// How long it takes until the start of a thread fails, if it does.
    pub(super) fn failed_spawn(&mut self, now: Ps) -> Option<Ps> {
        let FailedStarts { at_most, longest, longest_try } = self.faults.failed_starts;
        let lasts = self.starts_to_fail > 0 || now < self.starts_fail_until;
        self.starts_to_fail = self.starts_to_fail.saturating_sub(1);
        if !lasts {
            if !self.happens(self.faults.failed_spawns_per_million) {
                return None;
            }
            self.starts_to_fail = self.random.below(u64::from(at_most) + 1);
            self.starts_fail_until = if longest.is_zero() { 0 } else { now + self.up_to(longest) };
        }
        Some(if longest_try.is_zero() { 0 } else { self.up_to(longest_try) })
    }

    /// How far the clock jumps, if it does.
    pub(super) fn clock_jump(&mut self) -> Option<Ps> {
        let jumps = self.happens(self.faults.clock_jumps_per_million);
        jumps.then(|| self.up_to(self.faults.longest_jump))
    }

    /// When the next CPU goes offline, from now on; `None` where none ever does.
    pub(super) fn next_offline(&mut self) -> Option<Ps> {
        let every = self.faults.offline_every;
        (!every.is_zero()).then(|| self.up_to(every * 2))
    }

    /// Which of `cpus` goes offline, and for how long.
    pub(super) fn offline(&mut self, cpus: usize) -> (usize, Ps) {
        let which = self.random.below(cpus as u64) as usize;
        (which, self.up_to(self.faults.longest_offline))
    }

    /// The running thread spins; see [`Pct::thread_spins`].
    pub(super) fn thread_spins(&mut self, thread: usize) {
        if let Some(pct) = &mut self.pct {
            pct.thread_spins(thread);
        }
    }

    /// Until when `thread`, whose turn it is on `cpu`, is held back by the schedule; `others` are the
    /// threads that could go on, on other CPUs.
    pub(super) fn held_back_until(
        &mut self,
        thread: usize,
        cpu: usize,
        now: Ps,
        others: impl Iterator<Item = usize>,
    ) -> Option<Ps> {
        self.pct.as_mut()?.held_back_until(thread, cpu, now, others, &mut self.random)
    }
}
