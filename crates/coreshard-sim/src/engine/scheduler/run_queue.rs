//! The threads of one CPU: which runs, which wait, which had how much of it, and which is to have it next.
//!
//! A run queue has a list of SCHED_FIFO threads, by priority, and fair ones. Fair threads share the CPU as Linux has it since
//! 6.12 (Documentation/scheduler/sched-eevdf.rst). A thread's *virtual time* is the CPU time that it has
//! had, in proportion to its weight. It is *eligible* while it has had no more than the average of all that contend for the
//! CPU; of the eligible ones, the one with the earliest *deadline* runs, a slice after what it had when it was granted one. How
//! far a thread is behind the average is its *lag*, which it keeps while it sleeps. One that has had more than the average
//! and goes to sleep stays in the contest, as *delayed*, until it is picked or woken: sleeping is no way out of a debt.
//!
//! The running thread is protected from woken ones, but only as long as it is eligible; and at each tick, whose distance is
//! the machine's `slice`, the best of all goes on. So a thread that works little takes the CPU as it is woken, wake-up for
//! wake-up, until it has had as much as the one that wakes it, and then not again before a tick. `tests/simulated/preemption.rs` has
//! the figures of a real machine.

use std::collections::VecDeque;

use super::task::{Share, Task};
use crate::machine::{NS, Ps};

#[derive(Default)]
pub(super) struct RunQueue {
    /// From tick to tick.
    slice: Ps,
    current: Option<usize>,
    /// FIFO threads that wait, highest priority first, then first come.
    fifo: Vec<usize>,
    /// Fair threads that wait.
    fair: VecDeque<usize>,
    /// Fair threads that sleep and are in the contest for the CPU all the same.
    delayed: Vec<usize>,
    /// The average of what its fair threads had, when the last one left.
    virtual_time: i64,
    /// Until when its current thread's time was counted.
    charged_until: Ps,
}

impl RunQueue {
    pub(super) fn new(slice: Ps) -> Self {
        Self { slice, ..Self::default() }
    }

    pub(super) const fn current(&self) -> Option<usize> {
        self.current
    }

    /// The thread that runs here, or the one that is about to.
    pub(super) fn current_or_next(&self) -> Option<usize> {
        self.current.or(self.first_fifo()).or(self.fair.front().copied())
    }

    pub(super) fn first_fifo(&self) -> Option<usize> {
        self.fifo.first().copied()
    }

    /// The fair threads that wait.
    pub(super) const fn fair(&self) -> &VecDeque<usize> {
        &self.fair
    }

    pub(super) fn waiting(&self) -> usize {
        self.fair.len() + self.fifo.len()
    }

    /// True if the running thread is the only fair one.
    pub(super) fn has_no_contest(&self) -> bool {
        self.fair.is_empty() && self.delayed.is_empty()
    }

    /// The first tick after `now`; they come at the same time on all CPUs.
    pub(super) fn next_tick(&self, now: Ps) -> Ps {
        let tick = self.slice.max(NS);
        (now / tick + 1) * tick
    }

    /// All fair threads that contend for the CPU, the running one first.
    fn rivals<'a>(&'a self, tasks: &'a [Task]) -> impl Iterator<Item = (usize, &'a Share)> {
        let runs = self.current.filter(|thread| tasks[*thread].is_fair());
        let all = runs.into_iter().chain(self.fair.iter().copied());
        all.chain(self.delayed.iter().copied()).map(|thread| (thread, &tasks[thread].share))
    }

    /// The average of what the rivals have had, and their weight.
    fn average(&self, tasks: &[Task]) -> (i64, i64) {
        let Some((_, first)) = self.rivals(tasks).next() else { return (self.virtual_time, 0) };
        let base = first.had;
        let (mut sum, mut weight) = (0_i128, 0_i64);
        for (_, share) in self.rivals(tasks) {
            sum += i128::from(share.had - base) * i128::from(share.weight);
            weight += share.weight;
        }
        (base + sum.div_euclid(i128::from(weight)) as i64, weight)
    }

    /// True if a rival has had no more than the average.
    fn is_eligible(&self, tasks: &[Task], thread: usize) -> bool {
        let had = tasks[thread].share.had;
        let ahead = |share: &Share| i128::from(share.had - had) * i128::from(share.weight);
        self.rivals(tasks).map(|(_, share)| ahead(share)).sum::<i128>() >= 0
    }

    /// Of the eligible rivals the one with the earliest deadline; the first of several.
    fn best_rival(&self, tasks: &[Task]) -> Option<usize> {
        let eligible = self.rivals(tasks).filter(|(thread, _)| self.is_eligible(tasks, *thread));
        eligible.min_by_key(|(_, share)| share.deadline).map(|(thread, _)| thread)
    }

    /// Counts the CPU time that the running thread has had until `at`.
    pub(super) fn charge(&mut self, tasks: &mut [Task], at: Ps) {
        let Some(thread) = self.current else { return };
        let passed = at.saturating_sub(self.charged_until);
        self.charged_until += passed;
        if !tasks[thread].is_fair() {
            return;
        }
        let share = &mut tasks[thread].share;
        share.had += share.virtual_of(passed);
        if share.had >= share.deadline {
            share.deadline = share.had + share.virtual_of(self.slice);
        }
    }

    /// A thread comes to the contest, with what it is owed if others are in it.
    pub(super) fn enter(&self, tasks: &mut [Task], thread: usize) {
        let (average, others) = self.average(tasks);
        let share = &mut tasks[thread].share;
        // As it comes the average moves, so that a part of its lag is lost again: it is given more.
        let owed = if others == 0 {
            0
        } else {
            i128::from(share.lag) * i128::from(others + share.weight) / i128::from(others)
        };
        share.had = average - owed as i64;
        share.deadline = share.had + share.virtual_of(self.slice);
        share.is_delayed = false;
    }

    /// The running thread, which was none of the fair ones, comes to their contest.
    pub(super) fn enter_current(&mut self, tasks: &mut [Task]) {
        if let Some(thread) = self.current.take() {
            self.enter(tasks, thread);
            self.current = Some(thread);
        }
    }

    /// Notes what a rival is owed that is about to leave the contest.
    pub(super) fn note_lag(&mut self, tasks: &mut [Task], thread: usize) {
        let (average, _) = self.average(tasks);
        self.virtual_time = average;
        let share = &mut tasks[thread].share;
        let most = share.virtual_of(self.slice);
        share.lag = (average - share.had).clamp(-most, most);
    }

    /// A woken thread comes to the contest at `at`. Linux does not look at the clock for one that sleeps in the contest: what
    /// the running thread has had since it came on is not counted yet.
    pub(super) fn wake(&mut self, tasks: &mut [Task], thread: usize, at: Ps) {
        if tasks[thread].share.is_delayed {
            let (average, _) = self.average(tasks);
            self.delayed.retain(|other| *other != thread);
            let share = &mut tasks[thread].share;
            share.is_delayed = false;
            if average > share.had {
                // It has paid its debt, and earns nothing by having slept.
                share.lag = 0;
                self.enter(tasks, thread);
            }
        } else if tasks[thread].is_fair() {
            self.charge(tasks, at);
            self.enter(tasks, thread);
        }
    }

    /// A thread in the contest, or a FIFO thread, waits for the CPU.
    pub(super) fn line_up(&mut self, tasks: &[Task], thread: usize) {
        let priority = tasks[thread].fifo_priority;
        if priority == 0 {
            self.fair.push_back(thread);
        } else {
            let lower = |other: &usize| tasks[*other].fifo_priority < priority;
            let at = self.fifo.iter().position(lower).unwrap_or(self.fifo.len());
            self.fifo.insert(at, thread);
        }
    }

    /// Removes a thread that waits. False if it was not there.
    pub(super) fn remove(&mut self, thread: usize) -> bool {
        let before = self.waiting();
        self.fifo.retain(|other| *other != thread);
        self.fair.retain(|other| *other != thread);
        self.waiting() < before
    }

    /// Removes the fair thread at this place among those that wait.
    pub(super) fn take_fair(&mut self, tasks: &mut [Task], at: usize, now: Ps) -> usize {
        self.charge(tasks, now);
        self.note_lag(tasks, self.fair[at]);
        let taken = self.fair.remove(at).expect("it was seen there");
        tasks[taken].ran_here_until = None;
        taken
    }

    /// Removes all threads that wait.
    pub(super) fn take_all(&mut self, tasks: &mut [Task], now: Ps) -> Vec<usize> {
        self.charge(tasks, now);
        for at in 0..self.fair.len() {
            self.note_lag(tasks, self.fair[at]);
        }
        let threads = self.fifo.drain(..).chain(self.fair.drain(..)).collect();
        self.end_delays(tasks);
        threads
    }

    /// One that sleeps in the contest leaves it.
    fn end_delay(&mut self, tasks: &mut [Task], thread: usize) {
        self.note_lag(tasks, thread);
        let share = &mut tasks[thread].share;
        share.lag = share.lag.min(0);
        share.is_delayed = false;
        self.delayed.retain(|other| *other != thread);
    }

    /// All that sleep in the contest leave it.
    pub(super) fn end_delays(&mut self, tasks: &mut [Task]) {
        while let Some(thread) = self.delayed.last().copied() {
            self.end_delay(tasks, thread);
        }
    }

    /// The fair thread that is next, of those that wait and the running one. Threads that are next and sleep leave the contest.
    fn next_fair(&mut self, tasks: &mut [Task]) -> Option<usize> {
        loop {
            let best = self.best_rival(tasks)?;
            if !tasks[best].share.is_delayed {
                return Some(best);
            }
            self.end_delay(tasks, best);
        }
    }

    /// True if a thread that has just come to the contest takes the CPU from the one that runs.
    pub(super) fn takes_the_cpu(&mut self, tasks: &mut [Task], woken: usize, at: Ps) -> bool {
        self.charge(tasks, at);
        let Some(runs) = self.current else { return false };
        !self.is_eligible(tasks, runs) && self.best_rival(tasks) == Some(woken)
    }

    /// True if the running thread goes on, though others may wait.
    pub(super) fn keeps(&mut self, tasks: &mut [Task], thread: usize, now: Ps) -> bool {
        self.charge(tasks, now);
        let first = self.first_fifo().map_or(0, |first| tasks[first].fifo_priority);
        let own = tasks[thread].fifo_priority;
        first <= own && (own > 0 || self.next_fair(tasks) == Some(thread))
    }

    /// The running thread lets others go first: it forfeits what is left of its slice.
    pub(super) fn forfeit(&mut self, tasks: &mut [Task], at: Ps) {
        self.charge(tasks, at);
        let Some(thread) = self.current else { return };
        if self.fair.is_empty() || !tasks[thread].is_fair() {
            return;
        }
        let eligible = self.is_eligible(tasks, thread);
        let share = &mut tasks[thread].share;
        if eligible {
            share.had = share.deadline;
        }
        share.deadline += share.virtual_of(self.slice);
    }

    /// The running thread leaves the CPU; it may stay in the contest if it `sleeps_here`.
    pub(super) fn leave(&mut self, tasks: &mut [Task], thread: usize, sleeps_here: bool) {
        if tasks[thread].is_fair() {
            if sleeps_here && !self.is_eligible(tasks, thread) {
                tasks[thread].share.is_delayed = true;
                self.delayed.push(thread);
            } else {
                self.note_lag(tasks, thread);
            }
        }
        self.current = None;
    }

    /// Removes the next thread from those that wait, while none runs.
    pub(super) fn pick(&mut self, tasks: &mut [Task]) -> Option<usize> {
        if !self.fifo.is_empty() {
            return Some(self.fifo.remove(0));
        }
        let next = self.next_fair(tasks);
        self.fair.retain(|thread| Some(*thread) != next);
        next
    }

    /// A thread comes on; the switch, which begins at `now`, counts as its time.
    pub(super) fn run(&mut self, thread: usize, now: Ps) {
        self.current = Some(thread);
        self.charged_until = now;
    }
}
