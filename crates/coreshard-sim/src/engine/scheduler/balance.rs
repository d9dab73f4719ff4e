//! Which waiting threads are taken to another CPU, and when.
//!
//! A CPU that would be idle takes one that waits elsewhere, unless that has run there within the last half millisecond: what
//! it has in that CPU's caches is held to be worth more (`sched_migration_cost`, `task_hot`). So threads that sleep and
//! are woken all the time, beside others, stay where they are. CPUs that are idle already are sent for what waits by the ticks
//! of a CPU that has more than one thread (`nohz_balancer_kick`), each as many milliseconds as their LLC has CPUs; from the third time
//! in vain on, they take what is hot, too (`cache_nice_tries`).

use super::{SimState, first_of};
use crate::engine::events::Event;
use crate::machine::{NS, Ps};

/// Linux' default (`/sys/kernel/debug/sched/migration_cost_ns`).
const MIGRATION_COST: Ps = 500_000 * NS;

/// The interval of an LLC's balancing, for each of its CPUs (`sd_init` in kernel/sched/topology.c).
const INTERVAL_FOR_EACH_CPU: Ps = 1_000_000 * NS;

/// Balancing in vain after which hot threads are taken, too (`cache_nice_tries` within an LLC).
const NICE_TRIES: u32 = 1;

/// The places of a word's bits, from the lowest on.
fn bits_of(word: u64) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)))
        .take_while(|word| *word != 0)
        .map(|word| word.trailing_zeros() as usize)
}

impl SimState {
    /// Whether a thread that waits has run on its CPU of late.
    fn is_hot(&self, thread: usize, now: Ps) -> bool {
        self.threads[thread].ran_here_until.is_some_and(|until| now < until + MIGRATION_COST)
    }

    /// A fair thread that waits on another CPU, may run here, and has not run there of late, from the longest queue of the
    /// LLC, else of the machine.
    pub(super) fn pull_for(&mut self, cpu: usize, now: Ps) -> Option<usize> {
        if self.queued == 0 {
            return None;
        }
        let waits = |from: usize| {
            let may_come =
                |thread: usize| self.threads[thread].may_run_on(cpu) && !self.is_hot(thread, now);
            self.cpus[from].queue.iter().position(|thread| may_come(*thread))
        };
        let near = &self.cpus[cpu].llc;
        let words = self.crowded.iter().enumerate();
        let (_, _, from, at) = words
            .flat_map(|(word, bits)| bits_of(*bits).map(move |bit| 64 * word + bit))
            // One whose CPU is only being woken runs there soon enough.
            .filter(|from| *from != cpu && self.cpus[*from].current.is_some())
            .filter_map(|from| {
                let at = waits(from)?;
                let is_near = near[from / 64] & (1 << (from % 64)) != 0;
                Some((is_near, self.cpus[from].waiting(), from, at))
            })
            .max_by_key(|(is_near, waiting, from, _)| {
                (*is_near, *waiting, std::cmp::Reverse(*from))
            })?;
        Some(self.take_away(from, at, now))
    }

    /// A thread that waits leaves its CPU's queue and contest.
    fn take_away(&mut self, from: usize, at: usize, now: Ps) -> usize {
        self.charge_running(from, now);
        self.note_lag(from, self.cpus[from].queue[at]);
        let taken = self.cpus[from].queue.remove(at).expect("it was seen there");
        self.note_queue(from);
        self.threads[taken].ran_here_until = None;
        taken
    }

    /// A CPU on which threads wait will have its tick, whatever its own thread does: as long as one rests that could run them.
    pub(super) fn expect_tick(&mut self, cpu: usize, now: Ps) {
        let known = &self.cpus[cpu];
        if known.tick_is_expected || known.current.is_none() || self.mode.at_waits {
            return;
        }
        let could_go = |thread: &usize| {
            first_of(cpu, &self.idle, &self.threads[*thread].affinity, None).is_some()
        };
        if known.queue.iter().any(could_go) {
            self.cpus[cpu].tick_is_expected = true;
            let tick = self.next_tick(now);
            self.events.push(tick, Event::Tick(cpu));
        }
    }

    /// A CPU has come to rest.
    pub(super) fn expect_ticks(&mut self, now: Ps) {
        if self.queued == 0 {
            return;
        }
        for word in 0..self.crowded.len() {
            for bit in bits_of(self.crowded[word]) {
                self.expect_tick(64 * word + bit, now);
            }
        }
    }

    /// The tick that was expected.
    pub(in crate::engine) fn tick(&mut self, cpu: usize, now: Ps) {
        self.cpus[cpu].tick_is_expected = false;
        let other = std::mem::replace(&mut self.cpu, cpu);
        self.balance(cpu, now);
        self.cpu = other;
        self.expect_tick(cpu, now);
    }

    /// At a tick of a CPU on which threads wait: an idle one is sent for one of them.
    fn balance(&mut self, cpu: usize, now: Ps) {
        let known = &self.cpus[cpu];
        if now < known.balances_at || known.queue.is_empty() {
            return;
        }
        let near = &known.llc;
        let idle_for = |thread: usize| {
            let affinity = &self.threads[thread].affinity;
            first_of(cpu, &self.idle, affinity, Some(near))
                .or_else(|| first_of(cpu, &self.idle, affinity, None))
        };
        let takes_hot = known.balances_in_vain > NICE_TRIES;
        let (mut found, mut is_in_vain) = (None, false);
        for (at, thread) in known.queue.iter().enumerate() {
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
        let cpus: u32 = near.iter().map(|word| word.count_ones()).sum();
        let known = &mut self.cpus[cpu];
        known.balances_at = now + Ps::from(cpus) * INTERVAL_FOR_EACH_CPU;
        let Some((at, to)) = found else {
            known.balances_in_vain += 1;
            return;
        };
        known.balances_in_vain = 0;
        let taken = self.take_away(cpu, at, now);
        self.queued -= 1;
        let (_, begin) = self.rouse(to, now);
        self.enqueue(taken, to, now);
        self.step_at(to, begin + self.costs.wake);
    }
}
