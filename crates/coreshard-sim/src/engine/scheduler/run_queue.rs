//! The threads of one CPU: the running one, waiting ones, their shares, and the choice of the next one.
//!
//! A run queue has a list of SCHED_FIFO threads, by priority, and fair threads. Fair threads share the CPU as
//! in Linux since 6.12 (Documentation/scheduler/sched-eevdf.rst). A thread's *virtual time* is its CPU time,
//! scaled by its weight. A thread is *eligible* while its virtual time is at most the average of all
//! contenders. Among eligible threads, the one with the earliest *deadline* runs; a deadline is one slice
//! after the virtual time at which it was granted. A thread's distance behind the average is its *lag*, which
//! it keeps while it sleeps. A thread that exceeds the average and goes to sleep stays in the contest, as
//! *delayed*, until it is picked or woken: sleeping does not cancel a debt.
//!
//! The running thread is protected from woken ones, but only as long as it is eligible. At each tick (the
//! interval is the machine's `slice`), the best thread of all continues. So a thread that works little
//! preempts at each wake-up, until it has had as much as its waker, and then not again before a tick.
//! `tests/simulated/preemption.rs` has the figures of a real machine.

use std::collections::VecDeque;

use super::task::{Share, Task};
use crate::machine::{NS, Ps};

#[derive(Default)]
pub(super) struct RunQueue {
    /// The time from tick to tick.
    slice: Ps,
    current: Option<usize>,
    /// Waiting FIFO threads, highest priority first, then in the order of arrival.
    fifo: Vec<usize>,
    /// Waiting fair threads.
    fair: VecDeque<usize>,
    /// Fair threads that sleep and are still in the contest for the CPU.
    delayed: Vec<usize>,
    /// The average virtual time of its fair threads, when the last one left.
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

    /// Returns the thread that runs here, or the one that is about to.
    pub(super) fn current_or_next(&self) -> Option<usize> {
        self.current.or(self.first_fifo()).or(self.fair.front().copied())
    }

    pub(super) fn first_fifo(&self) -> Option<usize> {
        self.fifo.first().copied()
    }

    /// Returns the waiting fair threads.
    pub(super) const fn fair(&self) -> &VecDeque<usize> {
        &self.fair
    }

    pub(super) fn waiting(&self) -> usize {
        self.fair.len() + self.fifo.len()
    }

    /// Returns true if the running thread is the only fair one.
    pub(super) fn has_no_contest(&self) -> bool {
        self.fair.is_empty() && self.delayed.is_empty()
    }

    /// Returns the first tick after `now`; ticks come at the same time on all CPUs.
    pub(super) fn next_tick(&self, now: Ps) -> Ps {
        let tick = self.slice.max(NS);
        (now / tick + 1) * tick
    }

    /// Returns all fair threads that contend for the CPU, the running one first.
    fn rivals<'a>(&'a self, tasks: &'a [Task]) -> impl Iterator<Item = (usize, &'a Share)> {
        let runs = self.current.filter(|thread| tasks[*thread].is_fair());
        let all = runs.into_iter().chain(self.fair.iter().copied());
        all.chain(self.delayed.iter().copied()).map(|thread| (thread, &tasks[thread].share))
    }

    /// Returns the average virtual time of the rivals, and their weight.
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

    /// Returns true if a rival's virtual time is at most the average.
    fn is_eligible(&self, tasks: &[Task], thread: usize) -> bool {
        let had = tasks[thread].share.had;
        let ahead = |share: &Share| i128::from(share.had - had) * i128::from(share.weight);
        self.rivals(tasks).map(|(_, share)| ahead(share)).sum::<i128>() >= 0
    }

    /// Returns the eligible rival with the earliest deadline; the first of several.
    fn best_rival(&self, tasks: &[Task]) -> Option<usize> {
        let eligible = self.rivals(tasks).filter(|(thread, _)| self.is_eligible(tasks, *thread));
        eligible.min_by_key(|(_, share)| share.deadline).map(|(thread, _)| thread)
    }

    /// Counts the CPU time of the running thread until `at`.
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

    /// Adds a thread to the contest, with its lag if others are in it.
    pub(super) fn enter(&self, tasks: &mut [Task], thread: usize) {
        let (average, others) = self.average(tasks);
        let share = &mut tasks[thread].share;
        // The average moves when the thread enters, which would lose a part of its lag, so it gets more.
        let owed = if others == 0 {
            0
        } else {
            i128::from(share.lag) * i128::from(others + share.weight) / i128::from(others)
        };
        share.had = average - owed as i64;
        share.deadline = share.had + share.virtual_of(self.slice);
        share.is_delayed = false;
    }

    /// Adds the running thread, which was not fair, to the contest.
    pub(super) fn enter_current(&mut self, tasks: &mut [Task]) {
        if let Some(thread) = self.current.take() {
            self.enter(tasks, thread);
            self.current = Some(thread);
        }
    }

    /// Records the lag of a rival that is about to leave the contest.
    pub(super) fn note_lag(&mut self, tasks: &mut [Task], thread: usize) {
        let (average, _) = self.average(tasks);
        self.virtual_time = average;
        let share = &mut tasks[thread].share;
        let most = share.virtual_of(self.slice);
        share.lag = (average - share.had).clamp(-most, most);
    }

    /// Adds a woken thread to the contest at `at`. Linux does not read the clock for a thread that sleeps in
    /// the contest, so the running thread's time since it was switched in is not counted yet.
    pub(super) fn wake(&mut self, tasks: &mut [Task], thread: usize, at: Ps) {
        if tasks[thread].share.is_delayed {
            let (average, _) = self.average(tasks);
            self.delayed.retain(|other| *other != thread);
            let share = &mut tasks[thread].share;
            share.is_delayed = false;
            if average > share.had {
                // It has paid its debt, and gains nothing from having slept.
                share.lag = 0;
                self.enter(tasks, thread);
            }
        } else if tasks[thread].is_fair() {
            self.charge(tasks, at);
            self.enter(tasks, thread);
        }
    }

    /// Lets a thread in the contest, or a FIFO thread, wait for the CPU.
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

    /// Removes a waiting thread. Returns false if it was not waiting.
    pub(super) fn remove(&mut self, thread: usize) -> bool {
        let before = self.waiting();
        self.fifo.retain(|other| *other != thread);
        self.fair.retain(|other| *other != thread);
        self.waiting() < before
    }

    /// Removes the waiting fair thread at this position.
    pub(super) fn take_fair(&mut self, tasks: &mut [Task], at: usize, now: Ps) -> usize {
        self.charge(tasks, now);
        self.note_lag(tasks, self.fair[at]);
        let taken = self.fair.remove(at).expect("it was seen there");
        tasks[taken].ran_here_until = None;
        taken
    }

    /// Removes all waiting threads.
    pub(super) fn take_all(&mut self, tasks: &mut [Task], now: Ps) -> Vec<usize> {
        self.charge(tasks, now);
        for at in 0..self.fair.len() {
            self.note_lag(tasks, self.fair[at]);
        }
        let threads = self.fifo.drain(..).chain(self.fair.drain(..)).collect();
        self.end_delays(tasks);
        threads
    }

    /// Removes a thread that sleeps in the contest from it.
    fn end_delay(&mut self, tasks: &mut [Task], thread: usize) {
        self.note_lag(tasks, thread);
        let share = &mut tasks[thread].share;
        share.lag = share.lag.min(0);
        share.is_delayed = false;
        self.delayed.retain(|other| *other != thread);
    }

    /// Removes all threads that sleep in the contest from it.
    pub(super) fn end_delays(&mut self, tasks: &mut [Task]) {
        while let Some(thread) = self.delayed.last().copied() {
            self.end_delay(tasks, thread);
        }
    }

    /// Returns the next fair thread among the waiting ones and the running one. Threads that would be next
    /// but sleep leave the contest.
    fn next_fair(&mut self, tasks: &mut [Task]) -> Option<usize> {
        loop {
            let best = self.best_rival(tasks)?;
            if !tasks[best].share.is_delayed {
                return Some(best);
            }
            self.end_delay(tasks, best);
        }
    }

    /// Returns true if a thread that has just entered the contest preempts the running one.
    pub(super) fn takes_the_cpu(&mut self, tasks: &mut [Task], woken: usize, at: Ps) -> bool {
        self.charge(tasks, at);
        let Some(runs) = self.current else { return false };
        !self.is_eligible(tasks, runs) && self.best_rival(tasks) == Some(woken)
    }

    /// Returns true if the running thread continues, although others may wait.
    pub(super) fn keeps(&mut self, tasks: &mut [Task], thread: usize, now: Ps) -> bool {
        self.charge(tasks, now);
        let first = self.first_fifo().map_or(0, |first| tasks[first].fifo_priority);
        let own = tasks[thread].fifo_priority;
        first <= own && (own > 0 || self.next_fair(tasks) == Some(thread))
    }

    /// Lets others go first: the running thread forfeits the rest of its slice.
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

    /// Takes the running thread off the CPU. It may stay in the contest if it `sleeps_here`.
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

    /// Removes the next thread from the waiting ones, while none runs.
    pub(super) fn pick(&mut self, tasks: &mut [Task]) -> Option<usize> {
        if !self.fifo.is_empty() {
            return Some(self.fifo.remove(0));
        }
        let next = self.next_fair(tasks);
        self.fair.retain(|thread| Some(*thread) != next);
        next
    }

    /// Switches a thread in. The switch, which begins at `now`, counts as its time.
    pub(super) fn run(&mut self, thread: usize, now: Ps) {
        self.current = Some(thread);
        self.charged_until = now;
    }
}
