//! Load balancing: which waiting threads move to another CPU, and when.
//!
//! A CPU that would become idle takes a thread that waits elsewhere, unless that thread ran there within the
//! last half millisecond. Its data in that CPU's caches is then considered more valuable
//! (`sched_migration_cost`, `task_hot`). So threads that frequently sleep and are woken, beside others, stay
//! on their CPU. CPUs that are already idle are fetched by the ticks of a CPU with more than one thread
//! (`nohz_balancer_kick`), at an interval of as many milliseconds as their LLC has CPUs. From the third
//! failed attempt on, they also take hot threads (`cache_nice_tries`).

use super::Scheduler;
use crate::cpu_mask::CpuMask;
use crate::engine::hardware::{Event, Hardware};
use crate::machine::{NS, Ps};

/// Linux' default (`/sys/kernel/debug/sched/migration_cost_ns`).
const MIGRATION_COST: Ps = 500_000 * NS;

/// The interval of an LLC's balancing, per CPU of the LLC (`sd_init` in kernel/sched/topology.c).
const INTERVAL_FOR_EACH_CPU: Ps = 1_000_000 * NS;

/// The number of failed attempts after which hot threads are also taken (`cache_nice_tries` within an LLC).
const NICE_TRIES: u32 = 1;

impl Scheduler {
    /// Returns whether a waiting thread ran on its CPU recently.
    fn is_hot(&self, thread: usize, now: Ps) -> bool {
        self.tasks[thread].ran_here_until.is_some_and(|until| now < until + MIGRATION_COST)
    }

    /// Takes a fair thread that waits on another CPU, may run here, and has not run there recently. Prefers
    /// the longest queue of the LLC, then of the machine.
    pub(super) fn pull_for(&mut self, cpu: usize, now: Ps) -> Option<usize> {
        if self.queued == 0 {
            return None;
        }
        let may_come =
            |thread: &usize| self.tasks[*thread].affinity.has(cpu) && !self.is_hot(*thread, now);
        let near = &self.cpus[cpu].llc;
        let (_, _, from, at) = self
            .crowded
            .iter()
            // A CPU that is being woken will run its thread soon enough.
            .filter(|from| *from != cpu && self.current(*from).is_some())
            .filter_map(|from| {
                let queue = &self.cpus[from].queue;
                let at = queue.fair().iter().position(may_come)?;
                Some((near.has(from), queue.waiting(), from, at))
            })
            .max_by_key(|(is_near, waiting, from, _)| {
                (*is_near, *waiting, std::cmp::Reverse(*from))
            })?;
        Some(self.take_away(from, at, now))
    }

    /// Removes a waiting thread from its CPU's queue and contest.
    fn take_away(&mut self, from: usize, at: usize, now: Ps) -> usize {
        let taken = self.cpus[from].queue.take_fair(&mut self.tasks, at, now);
        self.note_queue(from);
        taken
    }

    /// Schedules the tick of a CPU on which threads wait, as long as an idle CPU could run them.
    pub(super) fn expect_tick(&mut self, hw: &mut Hardware, number: usize, now: Ps) {
        let cpu = &mut self.cpus[number];
        if cpu.tick_is_expected || cpu.queue.current().is_none() || self.at_waits {
            return;
        }
        let could_go = |thread: &usize| {
            let allowed = &self.tasks[*thread].affinity;
            CpuMask::first_common(number, &[&self.idle, allowed]).is_some()
        };
        if cpu.queue.fair().iter().any(could_go) {
            cpu.tick_is_expected = true;
            hw.agenda.push(cpu.queue.next_tick(now), Event::Tick(number));
        }
    }

    /// Schedules ticks after a CPU has become idle.
    pub(super) fn expect_ticks(&mut self, hw: &mut Hardware, now: Ps) {
        if self.queued > 0 {
            let crowded = std::mem::take(&mut self.crowded);
            crowded.iter().for_each(|cpu| self.expect_tick(hw, cpu, now));
            self.crowded = crowded;
        }
    }

    /// Handles the scheduled tick.
    pub(crate) fn tick(&mut self, hw: &mut Hardware, cpu: usize, now: Ps) {
        self.cpus[cpu].tick_is_expected = false;
        let other = std::mem::replace(&mut hw.cpu, cpu);
        self.balance(hw, cpu, now);
        hw.cpu = other;
        self.expect_tick(hw, cpu, now);
    }

    /// At a tick of a CPU on which threads wait: lets an idle CPU fetch one of them.
    fn balance(&mut self, hw: &mut Hardware, number: usize, now: Ps) {
        let cpu = &self.cpus[number];
        if now < cpu.balances_at || cpu.queue.fair().is_empty() {
            return;
        }
        let idle_for = |thread: usize| {
            let allowed = &self.tasks[thread].affinity;
            CpuMask::first_common(number, &[&self.idle, allowed, &cpu.llc])
                .or_else(|| CpuMask::first_common(number, &[&self.idle, allowed]))
        };
        let takes_hot = cpu.balances_in_vain > NICE_TRIES;
        let (mut found, mut is_in_vain) = (None, false);
        for (at, thread) in cpu.queue.fair().iter().enumerate() {
            let Some(to) = idle_for(*thread) else { continue };
            if takes_hot || !self.is_hot(*thread, now) {
                found = Some((at, to));
                break;
            }
            is_in_vain = true;
        }
        if found.is_none() && !is_in_vain {
            return;
        }
        let cpu = &mut self.cpus[number];
        cpu.balances_at = now + cpu.llc.len() as Ps * INTERVAL_FOR_EACH_CPU;
        let Some((at, to)) = found else {
            cpu.balances_in_vain += 1;
            return;
        };
        cpu.balances_in_vain = 0;
        let taken = self.take_away(number, at, now);
        self.queued -= 1;
        let (_, begin) = self.rouse(hw, to, now);
        self.enqueue(taken, to, now);
        hw.agenda.step_at(to, begin + hw.costs.wake);
    }
}
