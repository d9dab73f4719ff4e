//! Fair threads: who has had how much of a CPU, and who is to have it next.
//!
//! As Linux does since 6.12 (Documentation/scheduler/sched-eevdf.rst). A thread's *virtual time* is the CPU time that it has
//! had, in proportion to its weight. It is *eligible* while it has had no more than the average of all that contend for the
//! CPU; of those who are, the one with the earliest *deadline* runs, a slice after what it had when it was granted one. How
//! far a thread is behind the average is its *lag*, which it keeps while it sleeps. One that has had more than the average
//! and goes to sleep stays in the contest, as *delayed*, until it is picked or woken: sleeping is no way out of a debt.
//!
//! Who runs is protected from those who are woken, but only as long as it is eligible; and at each tick, whose distance is
//! the machine's `slice`, the best of all goes on. So a thread that works little takes the CPU as it is woken, wake-up for
//! wake-up, until it has had as much as the one that wakes it, and then not again before a tick. `tests/simulated/preemption.rs` has
//! the figures of a real machine.

use super::SimState;
use crate::engine::share::Share;
use crate::machine::{NS, Ps};

impl SimState {
    fn share(&self, thread: usize) -> &Share {
        &self.threads[thread].share
    }

    /// All fair threads that contend for a CPU, the running one first.
    fn rivals(&self, cpu: usize) -> impl Iterator<Item = usize> + '_ {
        let cpu = &self.cpus[cpu];
        let runs = cpu.current.filter(|thread| self.threads[*thread].is_fair());
        runs.into_iter().chain(cpu.queue.iter().copied()).chain(cpu.delayed.iter().copied())
    }

    /// The average of what the rivals have had, and their weight.
    fn average(&self, cpu: usize) -> (i64, i64) {
        let Some(first) = self.rivals(cpu).next() else { return (self.cpus[cpu].virtual_time, 0) };
        let base = self.share(first).had;
        let (mut sum, mut weight) = (0_i128, 0_i64);
        for share in self.rivals(cpu).map(|thread| self.share(thread)) {
            sum += i128::from(share.had - base) * i128::from(share.weight);
            weight += share.weight;
        }
        (base + sum.div_euclid(i128::from(weight)) as i64, weight)
    }

    /// True if a rival has had no more than the average.
    fn is_eligible(&self, cpu: usize, thread: usize) -> bool {
        let had = self.share(thread).had;
        let ahead = self.rivals(cpu).map(|rival| {
            let rival = self.share(rival);
            i128::from(rival.had - had) * i128::from(rival.weight)
        });
        ahead.sum::<i128>() >= 0
    }

    /// Of the eligible rivals the one with the earliest deadline; the first of several.
    fn best_rival(&self, cpu: usize) -> Option<usize> {
        let eligible = self.rivals(cpu).filter(|thread| self.is_eligible(cpu, *thread));
        eligible.min_by_key(|thread| self.share(*thread).deadline)
    }

    /// The running thread has had its CPU until `at`.
    pub(in crate::engine) fn charge_running(&mut self, cpu: usize, at: Ps) {
        let slice = self.costs.slice;
        let Some(thread) = self.cpus[cpu].current else { return };
        let passed = at.saturating_sub(self.cpus[cpu].charged_until);
        self.cpus[cpu].charged_until += passed;
        if !self.threads[thread].is_fair() {
            return;
        }
        let share = &mut self.threads[thread].share;
        share.had += share.virtual_of(passed);
        if share.had >= share.deadline {
            share.deadline = share.had + share.virtual_of(slice);
        }
    }

    /// A thread that is not in a CPU's contest comes to it, with what it is owed where others are there.
    pub(super) fn enter_contest(&mut self, cpu: usize, thread: usize) {
        let slice = self.costs.slice;
        let (average, others) = self.average(cpu);
        let share = &mut self.threads[thread].share;
        // As it comes the average moves, so that a part of its lag is lost again: it is given more.
        let owed = if others == 0 {
            0
        } else {
            i128::from(share.lag) * i128::from(others + share.weight) / i128::from(others)
        };
        share.had = average - owed as i64;
        share.deadline = share.had + share.virtual_of(slice);
        share.is_delayed = false;
    }

    /// A rival is about to leave the contest: what it is owed is noted.
    pub(super) fn note_lag(&mut self, cpu: usize, thread: usize) {
        let (average, _) = self.average(cpu);
        self.cpus[cpu].virtual_time = average;
        let slice = self.costs.slice;
        let share = &mut self.threads[thread].share;
        let most = share.virtual_of(slice);
        share.lag = (average - share.had).clamp(-most, most);
    }

    /// The running thread goes to sleep. True if it stays in the contest.
    pub(super) fn sleeps_delayed(&mut self, cpu: usize, thread: usize) -> bool {
        let delayed = !self.is_eligible(cpu, thread);
        if delayed {
            self.threads[thread].share.is_delayed = true;
        } else {
            self.note_lag(cpu, thread);
        }
        delayed
    }

    /// One that sleeps in the contest is woken. Linux does not look at the clock first: what the running thread has had
    /// since it came on is not counted yet.
    pub(super) fn wake_delayed(&mut self, cpu: usize, thread: usize) {
        let (average, _) = self.average(cpu);
        self.cpus[cpu].delayed.retain(|other| *other != thread);
        self.threads[thread].share.is_delayed = false;
        if average > self.share(thread).had {
            // It has paid its debt, and earns nothing by having slept.
            self.threads[thread].share.lag = 0;
            self.enter_contest(cpu, thread);
        }
    }

    /// One that sleeps in the contest leaves it.
    fn end_delay(&mut self, cpu: usize, thread: usize) {
        self.note_lag(cpu, thread);
        let share = &mut self.threads[thread].share;
        share.lag = share.lag.min(0);
        share.is_delayed = false;
        self.cpus[cpu].delayed.retain(|other| *other != thread);
    }

    /// All that sleep in a CPU's contest leave it.
    pub(super) fn end_delays(&mut self, cpu: usize) {
        while let Some(thread) = self.cpus[cpu].delayed.last().copied() {
            self.end_delay(cpu, thread);
        }
    }

    /// Whose turn it is: of those who wait and of the running thread. Those whose turn it is and who sleep leave the contest.
    pub(super) fn next_fair(&mut self, cpu: usize) -> Option<usize> {
        loop {
            let best = self.best_rival(cpu)?;
            if !self.share(best).is_delayed {
                return Some(best);
            }
            self.end_delay(cpu, best);
        }
    }

    /// The first tick after `now`; they come at the same time on all CPUs.
    pub(super) fn next_tick(&self, now: Ps) -> Ps {
        let tick = self.costs.slice.max(NS);
        (now / tick + 1) * tick
    }

    /// True if a thread that has just come to a CPU's contest takes the CPU from the one that runs.
    pub(super) fn takes_the_cpu(&mut self, cpu: usize, woken: usize, at: Ps) -> bool {
        self.charge_running(cpu, at);
        let Some(runs) = self.cpus[cpu].current else { return false };
        !self.is_eligible(cpu, runs) && self.best_rival(cpu) == Some(woken)
    }

    /// The running thread lets others go first: it forfeits what is left of its slice.
    pub(in crate::engine) fn forfeit(&mut self, cpu: usize, at: Ps) {
        self.charge_running(cpu, at);
        let slice = self.costs.slice;
        let Some(thread) = self.cpus[cpu].current else { return };
        if self.cpus[cpu].queue.is_empty() || !self.threads[thread].is_fair() {
            return;
        }
        let eligible = self.is_eligible(cpu, thread);
        let share = &mut self.threads[thread].share;
        if eligible {
            share.had = share.deadline;
        }
        share.deadline += share.virtual_of(slice);
    }
}
