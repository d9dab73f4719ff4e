//! CPUs that go offline and come back.
//!
//! As on Linux: a CPU that goes offline preempts its thread as soon as that may be preempted, and
//! its run queue moves to other CPUs; a thread all of whose CPUs are offline may run on any,
//! until one of its own is back. One CPU stays online.

use super::events::Event;
use super::fault_injector::FaultInjector;
use super::state::SimState;
use crate::machine::Ps;
use crate::space::in_host;

impl SimState {
    pub(super) fn is_offline(&self, cpu: usize) -> bool {
        self.offline[cpu / 64] & (1 << (cpu % 64)) != 0
    }

    /// Of the CPUs that a thread asked for, those that are online; all that are where there is
    /// none.
    pub(super) fn online_of(&self, asked: &[u64]) -> Box<[u64]> {
        let online = |mask: &[u64]| -> Box<[u64]> {
            mask.iter().zip(&self.offline).map(|(asked, offline)| asked & !offline).collect()
        };
        let own = online(asked);
        if own.iter().any(|word| *word != 0) { own } else { online(&self.all_cpus) }
    }

    fn renew_affinities(&mut self) {
        for thread in 0..self.threads.len() {
            self.threads[thread].affinity = self.online_of(&self.threads[thread].asked);
        }
    }

    /// A random CPU goes offline. Ends the event that is handled.
    pub(super) fn some_cpu_goes_offline(&mut self, now: Ps) {
        let online: Vec<usize> =
            (0..self.cpus.len()).filter(|cpu| !self.is_offline(*cpu)).collect();
        let injector = self.injector.as_mut().expect("CPUs go offline where things go wrong");
        let next = injector.next_offline();
        if online.len() > 1 {
            let (which, duration) = injector.offline(online.len());
            let cpu = online[which];
            self.events.push(now + duration, Event::Online(cpu));
            self.background += 1;
            self.go_offline(cpu, now);
        }
        match next {
            Some(next) => self.events.end_with(now + next, Event::Offline),
            None => self.end_background(),
        }
    }

    fn go_offline(&mut self, cpu: usize, now: Ps) {
        self.offline[cpu / 64] |= 1 << (cpu % 64);
        self.idle[cpu / 64] &= !(1 << (cpu % 64));
        self.renew_affinities();
        for thread in self.take_queue(cpu, now) {
            self.make_runnable(thread, now);
        }
        if self.cpus[cpu].current.is_some() {
            self.cpus[cpu].resched = true;
            if !self.cpus[cpu].spins_on.is_empty() {
                // A sleeping spinner has no turns at which it would notice.
                let from = self.cpus[cpu].clock;
                self.step_at(cpu, now.max(from));
            }
        }
    }

    /// A CPU is back. Ends the event that is handled.
    pub(super) fn come_online(&mut self, cpu: usize, now: Ps) {
        self.offline[cpu / 64] &= !(1 << (cpu % 64));
        self.renew_affinities();
        self.end_background();
        if self.cpus[cpu].current.is_none() && self.cpus[cpu].step_at.is_none() {
            // It looks for a thread to run, and is idle if there is none.
            self.step_at(cpu, now);
        }
    }

    /// An event that is no part of the program is over.
    pub(super) fn end_background(&mut self) {
        self.background -= 1;
        self.events.end();
    }

    pub(super) fn begin_faults(&mut self) {
        let first = self.injector.as_mut().and_then(FaultInjector::next_offline);
        if let Some(first) = first {
            in_host(|| self.events.push(first, Event::Offline));
            self.background += 1;
        }
    }
}
