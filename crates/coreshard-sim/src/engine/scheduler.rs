//! Who runs where: run queues, wake-up placement, slices, idleness.
//!
//! A CPU has a list of SCHED_FIFO threads, by priority, and a queue of fair ones. A woken thread
//! goes to the CPU it ran on last if that is idle, else to an idle CPU of the same LLC, of the same
//! node, of the machine, else to its last CPU's queue; there it may take the CPU from the one that runs
//! (`fair`). A CPU that would be idle pulls a thread from another's queue, and one that is idle is sent for one at ticks
//! (`balance`). All of it is as Linux has it, in outline: `select_idle_sibling`, wake-up preemption, balancing.
//!
//! Waking a thread locks its CPU's run queue for the time `wake`; wakers of one CPU queue there. A
//! idle CPU is sent an interrupt, unless it polls, and leaves its idle state, before it switches.

mod balance;
mod fair;
mod priority;

use super::state::SimState;
use super::thread::{ThreadState, Wait};
use crate::machine::{IdleState, Ps};
use crate::profile::Profile;
use crate::report::Span;

/// The first member of all three sets, counted from `from` on, around.
fn first_of(from: usize, one: &[u64], two: &[u64], three: Option<&[u64]>) -> Option<usize> {
    let words = one.len();
    let word = |at: usize| one[at] & two[at] & three.map_or(u64::MAX, |three| three[at]);
    let low = (1_u64 << (from % 64)) - 1;
    let start = from / 64;
    let found =
        |at: usize, bits: u64| (bits != 0).then(|| at * 64 + bits.trailing_zeros() as usize);
    found(start, word(start) & !low)
        .or_else(|| {
            (1..words).map(|step| (start + step) % words).find_map(|at| found(at, word(at)))
        })
        .or_else(|| found(start, word(start) & low))
}

impl SimState {
    fn is_idle(&self, cpu: usize) -> bool {
        self.idle[cpu / 64] & (1 << (cpu % 64)) != 0
    }

    fn set_idle(&mut self, cpu: usize, idle: bool) {
        let bit = 1 << (cpu % 64);
        if idle {
            self.idle[cpu / 64] |= bit;
        } else {
            self.idle[cpu / 64] &= !bit;
        }
    }

    /// Where a woken thread goes, and how many CPUs were looked at for that.
    fn select_cpu(&self, woken: usize) -> (usize, u64) {
        let thread = &self.threads[woken];
        let last = thread.cpu;
        let allowed = &thread.affinity;
        if thread.may_run_on(last) && self.is_idle(last) {
            return (last, 0);
        }
        if self.costs.scheduler.is_some()
            && let Some(chosen) = self.stacks_on(woken)
        {
            return (chosen, 0);
        }
        let near = &self.cpus[last];
        let in_llc = self.scan(last, allowed);
        if let (Some(found), looked_at) = in_llc {
            return (found, looked_at);
        }
        let elsewhere = first_of(last, &self.idle, allowed, Some(&near.node))
            .or_else(|| first_of(last, &self.idle, allowed, None))
            .or_else(|| thread.may_run_on(last).then_some(last))
            .or_else(|| {
                (0..self.cpus.len())
                    .filter(|cpu| thread.may_run_on(*cpu))
                    .min_by_key(|cpu| self.cpus[*cpu].waiting())
            })
            .expect("an affinity names a CPU of the machine");
        (elsewhere, in_llc.1)
    }

    /// A thread that may run on one CPU alone goes there; one that a thread of that kind wakes on its own CPU, where
    /// nobody else waits, stays there (Linux' `select_idle_sibling`: a per-CPU thread is about to sleep).
    fn stacks_on(&self, woken: usize) -> Option<usize> {
        let thread = &self.threads[woken];
        let only =
            |affinity: &[u64]| affinity.iter().map(|word| word.count_ones()).sum::<u32>() == 1;
        if only(&thread.affinity) {
            return (0..self.cpus.len()).find(|cpu| thread.may_run_on(*cpu));
        }
        let waker = self.cpus[self.cpu].current?;
        let stacks = self.profile == Profile::InKernel
            && thread.cpu == self.cpu
            && only(&self.threads[waker].affinity)
            && self.cpus[self.cpu].waiting() == 0
            && thread.may_run_on(self.cpu);
        stacks.then_some(self.cpu)
    }

    /// The next idle CPU of an LLC, and how many were looked at: none, where few are idle (`SIS_UTIL`).
    fn scan(&self, last: usize, allowed: &[u64]) -> (Option<usize>, u64) {
        let llc = &self.cpus[last].llc;
        let found = first_of(last, &self.idle, allowed, Some(llc));
        if self.costs.scheduler.is_none() {
            return (found, 0);
        }
        let count = |one: &[u64], two: &[u64]| -> u64 {
            one.iter().zip(two).map(|(one, two)| u64::from((one & two).count_ones())).sum()
        };
        let cpus = count(llc, allowed).max(1);
        let idle = self.idle.iter().zip(&**llc).zip(allowed);
        let idle: u64 =
            idle.map(|((one, two), all)| u64::from((one & two & all).count_ones())).sum();
        // On average so many are busy between two idle ones; and where most are, the kernel looks at few.
        let busy = cpus - idle.min(cpus);
        let most = (cpus * cpus).saturating_sub(busy * busy) / cpus;
        let looked_at =
            if idle == 0 { most.min(cpus) } else { cpus.div_ceil(idle).min(most.max(1)) };
        (found, looked_at)
    }

    /// Since when a CPU is idle, if it is.
    pub(super) fn idle_since(&self, cpu: usize) -> Option<Ps> {
        self.is_idle(cpu).then(|| self.cpus[cpu].idle_since)
    }

    /// A CPU's queue of fair threads has changed.
    fn note_queue(&mut self, cpu: usize) {
        let bit = 1 << (cpu % 64);
        if self.cpus[cpu].queue.is_empty() {
            self.crowded[cpu / 64] &= !bit;
        } else {
            self.crowded[cpu / 64] |= bit;
        }
    }

    /// Takes all threads off a CPU's run queue.
    pub(super) fn take_queue(&mut self, number: usize, now: Ps) -> Vec<usize> {
        self.charge_running(number, now);
        for at in 0..self.cpus[number].queue.len() {
            self.note_lag(number, self.cpus[number].queue[at]);
        }
        let cpu = &mut self.cpus[number];
        let threads: Vec<usize> = cpu.fifo.drain(..).chain(cpu.queue.drain(..)).collect();
        self.queued -= threads.len();
        self.note_queue(number);
        self.end_delays(number);
        threads
    }

    /// Makes a thread runnable at `at`. Returns when the waker is done with it.
    pub(super) fn make_runnable(&mut self, thread: usize, at: Ps) -> Ps {
        self.wakeups += 1;
        self.threads[thread].state = ThreadState::Runnable;
        self.threads[thread].deadline = None;
        // One that is in a CPU's contest still is woken there, without a look for another CPU.
        let (target, looked_at) = if self.threads[thread].share.is_delayed {
            (self.threads[thread].cpu, 0)
        } else {
            self.select_cpu(thread)
        };
        let remote = if target == self.cpu { 0 } else { self.costs.wake_remote };
        let wake = self.costs.wake + remote;
        // A timer's interrupt has its lines at hand.
        let way = if target == self.cpu { 0 } else { self.memory.latency(self.cpu, target) };
        let detail = self.costs.scheduler;
        let at = at + detail.map_or(0, |costs| looked_at * costs.scan);
        let locked = at.max(self.cpus[target].runqueue_free);
        let mut done =
            locked + self.call_takes(wake) + detail.map_or(0, |costs| costs.wake_lines * way);
        self.cpus[target].runqueue_free = done;
        if self.is_idle(target) {
            let (sent, begin) = self.rouse(target, done);
            done = sent;
            self.enqueue(thread, target, done);
            self.step_at(target, begin);
        } else {
            self.enqueue(thread, target, done);
            self.consider_preemption(thread, target, done);
        }
        done
    }

    /// An idle CPU is idle no longer: when whoever rouses it is done with that, and when it can begin.
    fn rouse(&mut self, target: usize, at: Ps) -> (Ps, Ps) {
        self.set_idle(target, false);
        let idle_from = self.cpus[target].idle_from;
        if at < idle_from {
            // It is not idle yet, and looks for work before it is.
            return (at, idle_from);
        }
        let (mut sent, mut begin) = (at, at);
        let polls = |state: &IdleState| state.polls;
        // An idle CPU runs no waker: if it is this one, its own timer has come.
        if target != self.cpu && !self.costs.idle_state(at - idle_from).is_some_and(polls) {
            let (send, way) = self.costs.interrupt();
            self.ipis += 1;
            sent += send;
            begin = sent + way;
        }
        let exit = self.costs.idle_state(begin - idle_from).map_or(0, |state| state.exit);
        (sent, begin + self.exit_takes(exit))
    }

    /// A thread comes to a CPU's run queue.
    fn enqueue(&mut self, thread: usize, target: usize, at: Ps) {
        if self.threads[thread].cpu != target {
            self.threads[thread].ran_here_until = None;
        }
        self.threads[thread].cpu = target;
        if self.threads[thread].share.is_delayed {
            self.wake_delayed(target, thread);
        } else if self.threads[thread].is_fair() {
            self.charge_running(target, at);
            self.enter_contest(target, thread);
        }
        self.line_up(thread, target);
    }

    /// A thread waits for a CPU in whose contest it is.
    fn line_up(&mut self, thread: usize, target: usize) {
        self.queued += 1;
        let cpu = &mut self.cpus[target];
        let priority = self.threads[thread].fifo_priority;
        if priority == 0 {
            cpu.queue.push_back(thread);
        } else {
            let threads = &self.threads;
            let at = cpu.fifo.iter().position(|other| threads[*other].fifo_priority < priority);
            cpu.fifo.insert(at.unwrap_or(cpu.fifo.len()), thread);
        }
        self.note_queue(target);
    }

    /// A thread was queued behind the one that runs on `target`.
    fn consider_preemption(&mut self, thread: usize, target: usize, at: Ps) {
        let Some(current) = self.cpus[target].current else { return };
        let (woken, runs) = (&self.threads[thread], &self.threads[current]);
        let preempts = if woken.fifo_priority != runs.fifo_priority {
            woken.fifo_priority > runs.fifo_priority
        } else {
            // Code of a kernel goes on until it sleeps, or its slice is over (lazy preemption).
            woken.is_fair()
                && self.profile == Profile::Futex
                && self.takes_the_cpu(target, thread, at)
        };
        self.expect_tick(target, at);
        let tick = self.next_tick(at);
        let cpu = &mut self.cpus[target];
        cpu.resched |= preempts;
        // While nobody waits, no tick is looked at.
        if cpu.slice_end <= at {
            cpu.slice_end = tick;
        }
        let leaves = if preempts { at } else { cpu.preempts_at() };
        if target == self.cpu {
            if self.profile == Profile::Futex {
                self.set_horizon(leaves);
            }
        } else if !cpu.spins_on.is_empty() && leaves != Ps::MAX && self.profile == Profile::Futex {
            // A sleeping spinner has no turns at which it would notice.
            let time = leaves.max(cpu.clock).max(at);
            if cpu.step_at.is_none_or(|step| step > time) {
                self.step_at(target, time);
            }
        }
    }

    /// How long a thread has been on CPUs so far.
    pub(super) fn cpu_time_of(&self, thread: usize) -> Ps {
        let known = &self.threads[thread];
        let cpu = &self.cpus[known.cpu];
        let running = (cpu.current == Some(thread)).then(|| self.now.saturating_sub(cpu.on_since));
        known.on_cpu + running.unwrap_or(0)
    }

    /// True if the running thread must make room now.
    pub(super) fn must_leave(&self) -> bool {
        self.now >= self.cpus[self.cpu].preempts_at()
    }

    /// The running thread may have to make room: true if it goes on.
    pub(super) fn goes_on(&mut self, cpu: usize, now: Ps) -> bool {
        let Some(thread) = self.cpus[cpu].current else { return false };
        if !self.threads[thread].may_run_on(cpu) || self.is_offline(cpu) {
            return false;
        }
        self.charge_running(cpu, now);
        let first =
            self.cpus[cpu].fifo.first().map_or(0, |first| self.threads[*first].fifo_priority);
        let own = self.threads[thread].fifo_priority;
        let goes_on = first <= own && (own > 0 || self.next_fair(cpu) == Some(thread));
        if goes_on {
            self.cpus[cpu].resched = false;
            self.cpus[cpu].slice_end = self.next_tick(now);
        }
        goes_on
    }

    /// The running thread lets others go first: true if there are none, and it goes on without a switch.
    pub(super) fn yields_to_nobody(&mut self, cpu: usize, now: Ps) -> bool {
        self.forfeit(cpu, now);
        self.cpus[cpu].fifo.is_empty() && self.goes_on(cpu, now)
    }

    /// Takes the current thread off its CPU. It stays runnable where it says so.
    pub(super) fn switch_out(&mut self, cpu: usize, now: Ps) {
        self.drain_stores(cpu);
        self.charge_running(cpu, now);
        let Some(thread) = self.cpus[cpu].current else { return };
        let since = self.cpus[cpu].on_since;
        self.threads[thread].on_cpu += now.saturating_sub(since);
        self.threads[thread].ran_here_until = Some(now);
        if let Some(recorder) = &mut self.recorder {
            recorder.span(Span { cpu, thread, start: since, end: now });
        }
        let waits = matches!(self.threads[thread].state, ThreadState::Waiting { .. });
        let stays = self.threads[thread].may_run_on(cpu) && !self.is_offline(cpu);
        let is_fair = self.threads[thread].is_fair();
        if is_fair && waits && stays && self.sleeps_delayed(cpu, thread) {
            self.cpus[cpu].delayed.push(thread);
        } else if is_fair && !(waits && stays) {
            self.note_lag(cpu, thread);
        }
        self.cpus[cpu].current = None;
        if self.threads[thread].state == ThreadState::Runnable {
            if self.threads[thread].may_run_on(cpu) {
                self.line_up(thread, cpu);
            } else {
                self.make_runnable(thread, now);
            }
        }
    }

    /// Puts the next thread on a CPU that has none. Returns when it begins; `None` where there is
    /// nothing to do, and the CPU is idle.
    pub(super) fn switch_in(&mut self, cpu: usize, now: Ps) -> Option<Ps> {
        self.cpus[cpu].resched = false;
        if self.is_offline(cpu) {
            return None;
        }
        let mut begin = now;
        let next = if self.cpus[cpu].fifo.is_empty() {
            let next = self.next_fair(cpu);
            self.cpus[cpu].queue.retain(|thread| Some(*thread) != next);
            next
        } else {
            Some(self.cpus[cpu].fifo.remove(0))
        };
        self.note_queue(cpu);
        let next = match next {
            Some(next) => next,
            None => {
                let Some(pulled) = self.pull_for(cpu, now) else {
                    self.cpus[cpu].idle_since = now;
                    self.cpus[cpu].idle_from = now + self.costs.context_switch;
                    self.set_idle(cpu, true);
                    self.expect_ticks(now);
                    return None;
                };
                begin += self.costs.wake;
                self.enter_contest(cpu, pulled);
                pulled
            }
        };
        self.queued -= 1;
        self.context_switches += 1;
        begin += self.call_takes(self.costs.context_switch);
        self.threads[next].cpu = cpu;
        let slice_end = self.next_tick(begin);
        let target = &mut self.cpus[cpu];
        target.current = Some(next);
        target.on_since = begin;
        // The switch counts as time of the thread that comes on.
        target.charged_until = now;
        target.slice_end = slice_end;
        self.expect_tick(cpu, now);
        Some(begin)
    }

    /// The time of a thread has run out, or its timer is stale.
    pub(super) fn timer(&mut self, thread: usize, time: Ps) {
        let waiting = &mut self.threads[thread];
        if waiting.timer_at != Some(time) {
            return;
        }
        waiting.timer_at = None;
        let Some(deadline) = waiting.deadline else { return };
        if deadline > time {
            self.set_timer(thread, deadline);
            return;
        }
        waiting.deadline = None;
        let ends_by_chance = std::mem::take(&mut waiting.wakes_by_chance);
        waiting.timed_out = !ends_by_chance
            && !matches!(waiting.state, ThreadState::Waiting { wait: Wait::Woken, .. });
        if let ThreadState::Waiting { wait: Wait::Futex { place, .. }, .. } = waiting.state {
            self.futexes.remove(place, thread);
        }
        // The timer's interrupt comes to the CPU where the thread was: none is sent.
        let running = std::mem::replace(&mut self.cpu, self.threads[thread].cpu);
        self.make_runnable(thread, time);
        self.cpu = running;
    }

    /// A thread that was woken becomes runnable only later.
    pub(super) fn delay_wakeup(&mut self, thread: usize, delay: Ps) {
        let ThreadState::Waiting { since, .. } = self.threads[thread].state else { return };
        self.threads[thread].state = ThreadState::Waiting { wait: Wait::Woken, since };
        self.threads[thread].wakes_by_chance = false;
        self.set_timer(thread, self.now + delay);
    }

    /// Sees to it that a thread's timer comes at `deadline` or before.
    pub(super) fn set_timer(&mut self, thread: usize, deadline: Ps) {
        let waiting = &mut self.threads[thread];
        waiting.deadline = Some(deadline);
        if waiting.timer_at.is_none_or(|known| known > deadline) {
            waiting.timer_at = Some(deadline);
            self.events.push(deadline, super::events::Event::Timer(thread));
        }
    }
}
