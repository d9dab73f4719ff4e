//! Injects the faults of a run: randomly, from its seed, or by a call's number.

use std::io;
use std::time::Duration;

use coreshard_platform::{AffinityError, SpawnError, ThreadSpec};

use super::failing::Call;
use super::numbered::{CallCounts, NumberedCalls};
use super::pct::Pct;
use super::{FailedStarts, Faults, Schedule};
use crate::machine::{NS, Ps, ps};
use crate::random::{Random, mix};

/// The longest turn of a thread if CPUs may stall or threads be held back: a few accesses.
const LONGEST_TURN: Ps = 50 * NS;
/// The duration of an interrupted wait.
const INTERRUPTED_AFTER: Ps = 30_000 * NS;
/// The delay of a late wake-up.
const LATE_BY: Ps = 300_000 * NS;
/// The additional time of a start that fails for a while: the kernel first searches for memory.
const SLOW_FAILURE: Ps = 100_000 * NS;

const MILLION: u64 = 1_000_000;

/// Returns the error of a failing call: a limit is reached.
pub(crate) fn refusal() -> io::Error {
    io::ErrorKind::WouldBlock.into()
}

/// Decides at each opportunity for a fault whether it happens.
pub(crate) struct FaultInjector {
    faults: Faults,
    random: Random,
    /// Set if the schedule is [`Schedule::Pct`].
    pct: Option<Pct>,
    /// How many more starts fail after a failed one,
    starts_to_fail: u64,
    /// or until when all do.
    starts_fail_until: Ps,
    /// Starts that have failed, for any reason.
    failed_starts: usize,
    calls: NumberedCalls,
}

impl FaultInjector {
    pub(crate) fn new(faults: Faults, seed: u64, cpus: usize) -> Self {
        // A sequence different from the one that breaks ties.
        let mut random = Random::new(mix(!seed));
        let pct = match faults.schedule {
            Schedule::Timed => None,
            Schedule::Pct { depth, turns } => Some(Pct::new(depth, turns, cpus, &mut random)),
        };
        let calls = NumberedCalls::new(faults.failing);
        Self {
            faults,
            random,
            pct,
            starts_to_fail: 0,
            starts_fail_until: 0,
            failed_starts: 0,
            calls,
        }
    }

    /// Returns true if any fault can happen.
    pub(crate) fn is_active(&self) -> bool {
        self.faults != Faults::NONE
    }

    /// Counts a call of the running thread. Returns true if it must fail.
    pub(crate) fn call_fails(&mut self, call: Call, now: Ps) -> bool {
        self.calls.fails(call, now)
    }

    pub(crate) const fn call_counts(&self) -> &CallCounts {
        self.calls.counts()
    }

    /// Returns when a call last failed by its number, or a start for any reason.
    pub(crate) const fn last_failure(&self) -> Option<Ps> {
        self.calls.last_failure()
    }

    /// Records that a thread was not started.
    pub(crate) fn note_failed_start(&mut self, now: Ps) {
        self.failed_starts += 1;
        self.calls.note_failure(now);
    }

    pub(crate) const fn failed_starts(&self) -> usize {
        self.failed_starts
    }

    fn happens(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.random.below(MILLION) < u64::from(per_million)
    }

    /// Draws a time between a picosecond and `most`.
    fn up_to(&mut self, most: Duration) -> Ps {
        self.random.below(ps(most).max(1)) + 1
    }

    /// Draws a time between a picosecond and `most`, if the fault happens.
    fn drawn(&mut self, per_million: u32, most: Duration) -> Option<Ps> {
        self.happens(per_million).then(|| self.up_to(most))
    }

    /// Returns how long a thread continues before the next opportunity to stop it; forever if nothing stops
    /// threads.
    pub(crate) fn turn(&mut self) -> Ps {
        if self.pct.is_some() || self.faults.stalls_per_million > 0 {
            self.random.below(LONGEST_TURN) + 1
        } else {
            Ps::MAX
        }
    }

    /// Returns how long a CPU stalls, if it does.
    pub(crate) fn stall(&mut self) -> Option<Ps> {
        self.drawn(self.faults.stalls_per_million, self.faults.longest_stall)
    }

    /// Returns how long a CPU stalls at a preemption point, if it does.
    pub(crate) fn stall_at_point(&mut self) -> Option<Ps> {
        self.drawn(self.faults.stalls_at_points_per_million, self.faults.longest_stall)
    }

    #[inline]
    pub(crate) const fn may_buffer_stores(&self) -> bool {
        self.faults.held_stores_per_million > 0
    }

    /// Returns how long a store stays in the CPU's store buffer, if it does.
    pub(crate) fn store_delay(&mut self) -> Option<Ps> {
        self.drawn(self.faults.held_stores_per_million, self.faults.longest_hold)
    }

    /// Returns how long a CPU with buffered stores stalls after a load, if it does.
    pub(crate) fn stall_after_load(&mut self) -> Option<Ps> {
        let stalls = self.random.below(4) == 0;
        stalls.then(|| self.up_to(self.faults.longest_hold))
    }

    /// Returns after how long a wait returns without a wake-up, if it does; 0 means at once.
    pub(crate) fn wait_ends_after(&mut self, now: Ps) -> Option<Ps> {
        // All are drawn and counted at each wait, so that a run's other random decisions do not depend on
        // them.
        let wakes = self.happens(self.faults.spurious_wakeups_per_million);
        let by_chance = wakes.then(|| match self.faults.longest_delay {
            Duration::ZERO => 0,
            _ if self.random.below(2) == 0 => 0,
            longest => self.up_to(longest),
        });
        let at_once = self.call_fails(Call::Wait, now).then_some(0);
        let later = self.call_fails(Call::Interrupt, now).then_some(INTERRUPTED_AFTER);
        at_once.or(later).or(by_chance)
    }

    /// Returns the delay until a woken thread becomes runnable, if there is one.
    pub(crate) fn wakeup_delay(&mut self, now: Ps) -> Option<Ps> {
        let rate = self.faults.delayed_wakeups_per_million;
        let by_chance = self.drawn(rate, self.faults.longest_delay);
        self.call_fails(Call::Wake, now).then_some(LATE_BY).or(by_chance)
    }

    /// Returns why a thread is not started, and how long that takes, if its start fails. A start that
    /// `is_spared` does not fail randomly.
    pub(crate) fn refuse_start(
        &mut self,
        spec: &ThreadSpec,
        is_spared: bool,
        now: Ps,
    ) -> Option<(Ps, SpawnError)> {
        let refused = || SpawnError::refused(spec.name.clone(), refusal());
        if let Some(delay) = self.failed_spawn(now).filter(|_| !is_spared) {
            return Some((delay, refused()));
        }
        if self.call_fails(Call::Start, now) {
            let delay = if self.calls.fail_for_a_while() { SLOW_FAILURE } else { 0 };
            return Some((delay, refused()));
        }
        if spec.nice.is_some() && self.call_fails(Call::Nice, now) {
            return Some((0, refused()));
        }
        match &spec.affinity {
            Some(cpus) if self.call_fails(Call::Affinity, now) => {
                let reason = AffinityError::refused(cpus.clone(), refusal());
                Some((0, SpawnError::affinity(spec.name.clone(), reason)))
            }
            _ => None,
        }
    }

    /// Returns how long it takes until the start of a thread fails, if it does.
    fn failed_spawn(&mut self, now: Ps) -> Option<Ps> {
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

    /// Returns how far the clock jumps, if it does.
    pub(crate) fn clock_jump(&mut self) -> Option<Ps> {
        self.drawn(self.faults.clock_jumps_per_million, self.faults.longest_jump)
    }

    /// Returns when the next CPU goes offline; `None` if none ever does.
    pub(crate) fn next_offline(&mut self) -> Option<Ps> {
        let every = self.faults.offline_every;
        (!every.is_zero()).then(|| self.up_to(every * 2))
    }

    /// Chooses which of `cpus` goes offline, and for how long.
    pub(crate) fn offline(&mut self, cpus: usize) -> (usize, Ps) {
        let which = self.random.below(cpus as u64) as usize;
        (which, self.up_to(self.faults.longest_offline))
    }

    /// Records that the running thread spins; see [`Pct::thread_spins`].
    pub(crate) fn thread_spins(&mut self, thread: usize) {
        if let Some(pct) = &mut self.pct {
            pct.thread_spins(thread);
        }
    }

    /// Returns until when the schedule holds back `thread`, whose turn it is on `cpu`. `others` are the
    /// threads on other CPUs that could continue.
    pub(crate) fn held_back_until(
        &mut self,
        thread: usize,
        cpu: usize,
        now: Ps,
        others: impl Iterator<Item = usize>,
    ) -> Option<Ps> {
        self.pct.as_mut()?.held_back_until(thread, cpu, now, others, &mut self.random)
    }
}
