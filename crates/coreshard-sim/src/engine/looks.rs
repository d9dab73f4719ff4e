//! Watching for a while without simulating each look.
//!
//! A thread that looks again and again whether something has come does nothing else meanwhile: a turn whose looks all hit its
//! CPU's cache comes out as the one before, as long as nobody takes one of those lines. So its CPU sleeps on them, and goes on at
//! the first look after one was taken, or at the last look of all. All looks before count as done: it sees what it would have
//! seen, at the time at which it would have. (Where a turn looks at several words, the first of its looks may be as late as the
//! write to another one.)
//!
//! How many looks there are to be is known here, as the program says so; a loop that only calls `spin_hint` is seen to by `spin`.

use super::calls::spin_hint;
use super::looking::Looking;
use super::state::{Pause, SimState, current};
use super::turn::{suspend, with};
use crate::machine::Ps;
use crate::memory::{Access, Outcome, Place, Source};
use crate::space::in_host;

/// Looks of a turn, at most; where there are more, each is simulated.
const MOST_LOOKS: usize = 16;

impl SimState {
    /// A load of a turn was done.
    #[cold]
    pub(super) fn note_look(&mut self, place: Place, access: Access, outcome: &Outcome) {
        let hits = access == Access::Load && outcome.source == Source::Hit;
        let line = self.line_of(place);
        let is_pure = hits && self.memory.has(self.cpu, line);
        let lines = &mut self.cpus[self.cpu].looks_at;
        if is_pure && lines.len() < MOST_LOOKS {
            in_host(|| lines.push(line));
        } else {
            self.spin_detector.notes_looks = false;
        }
    }

    fn begin_turn(&mut self) -> Ps {
        self.spin_detector.notes_looks = true;
        self.cpus[self.cpu].looks_at.clear();
        self.now
    }

    /// After a turn that began at `since`, in vain: until when the CPU may sleep, if `left` turns like this one are to follow.
    fn sleep_over_looks(&mut self, since: Ps, left: u32) -> Option<Ps> {
        let notes_looks = std::mem::take(&mut self.spin_detector.notes_looks);
        let lines = std::mem::take(&mut self.cpus[self.cpu].looks_at);
        let looks = lines.len() as u64 * (self.costs.l1_hit + self.costs.compute);
        let turn = self.costs.spin_hint + looks;
        // It did nothing else, and neither lost its CPU nor the lines.
        let is_pure = notes_looks
            && looks > 0
            && self.now == since + turn
            && lines.iter().all(|line| self.memory.has(self.cpu, *line));
        let until = (is_pure && left > 1).then(|| {
            for line in &lines {
                self.sleep_on(*line);
            }
            let first_at = self.now + self.costs.spin_hint;
            let drawn =
                self.noise.as_mut().map(|noise| noise.turns_before_interruption(left, turn));
            let (turns, interrupted) = drawn.unwrap_or((left, false));
            let until = first_at + u64::from(turns - 1) * turn;
            let interrupted_at = interrupted.then_some(until);
            let cpu = &mut self.cpus[self.cpu];
            cpu.looking = Looking { first_at, turn, interrupted_at };
            until.min(cpu.preempts_at()).max(self.now)
        });
        self.cpus[self.cpu].looks_at = lines;
        until
    }

    /// The CPU goes on at `time`: its thread is told how many turns are over.
    pub(super) fn end_looking(&mut self, cpu: usize, time: Ps) {
        let looking = std::mem::take(&mut self.cpus[cpu].looking);
        if looking.turn == 0 {
            return;
        }
        let over = looking.over_at(time);
        self.accesses += over * self.cpus[cpu].looks_at.len() as u64;
        if let Some(thread) = self.cpus[cpu].current {
            self.threads[thread].turns_over = over;
            if looking.interrupted_at == Some(time) {
                self.threads[thread].is_interrupted = true;
            }
        }
    }

    /// The running thread looks again, after its CPU slept: how many turns were over by then.
    fn go_on_looking(&mut self) -> u64 {
        let thread = &mut self.threads[self.thread];
        let over = std::mem::take(&mut thread.turns_over);
        if std::mem::take(&mut thread.is_interrupted)
            && let Some(noise) = &self.noise
        {
            self.now += noise.interruption();
        }
        over
    }
}

/// The running thread looks up to `looks` times whether it is `done`, and spins before each look.
pub(crate) fn watch(looks: u32, mut done: impl FnMut() -> bool) -> bool {
    let sim = current().filter(|sim| {
        with(*sim, |sim| sim.injector.is_none() && !sim.mode.at_waits && !sim.mode.uniform_memory)
    });
    let mut left = looks;
    while left > 0 {
        let since = sim.map(|sim| with(sim, SimState::begin_turn));
        spin_hint();
        if done() {
            // What it does next is no look.
            sim.inspect(|sim| with(*sim, |sim| sim.spin_detector.notes_looks = false));
            return true;
        }
        left -= 1;
        let Some((sim, since)) = sim.zip(since) else { continue };
        if let Some(until) = with(sim, |sim| sim.sleep_over_looks(since, left)) {
            suspend(sim, Pause::Spins { until });
            let over = with(sim, SimState::go_on_looking);
            // The last one is done by whoever asked for it.
            left -= u32::try_from(over).unwrap_or(u32::MAX).min(left - 1);
            if done() {
                return true;
            }
            left -= 1;
        }
    }
    false
}
