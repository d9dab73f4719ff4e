//! Spinning without simulating each turn.
//!
//! A thread that looks at a word, finds it as before, and spins, changes nothing outside its CPU.
//! Its first turns take what they take, so that code which gives up after some number of them
//! takes the right time; from [`EXACT_TURNS`] on the CPU sleeps on the line and goes on when the
//! line is written, or after a time that grows with the number of turns. A loop of N turns on a
//! line that nobody writes takes exactly its time up to twice [`EXACT_TURNS`], and at most (N /
//! EXACT_TURNS) times that beyond.

use super::state::SimState;
use crate::machine::Ps;
use crate::memory::Place;
use crate::space::in_host;

/// Turns that are simulated one by one. A worker watches for up to twice as many before it sleeps.
const EXACT_TURNS: u32 = 1_024;

impl SimState {
    fn line_of(&self, place: Place) -> Place {
        Place(place.0 & !(self.memory.line_bytes() as u64 - 1))
    }

    /// One turn of spinning, where that lets others go first.
    pub(super) fn spin_once(&mut self) {
        self.wait_for_loaded();
        self.now += self.costs.spin_hint;
        if let Some(injector) = &mut self.injector {
            injector.thread_spins(self.thread);
        }
        self.looks_around(1);
    }

    /// One turn of spinning; if the CPU is to sleep on the line, until when at the latest.
    pub(super) fn spin_turn(&mut self) -> Option<Ps> {
        self.wait_for_loaded();
        self.now += self.costs.spin_hint;
        if let Some(injector) = &mut self.injector {
            injector.thread_spins(self.thread);
        }
        let place = self.spin_detector.place?;
        self.spin_detector.turns += 1;
        let more = self.spin_detector.turns.checked_sub(EXACT_TURNS)?;
        // If the line was written since the look, the next look is due now.
        if !self.memory.has(self.cpu, place) {
            return None;
        }
        let line = self.line_of(place);
        self.memory.watch(line, true);
        in_host(|| self.spinners.entry(line).or_default().push(self.cpu));
        self.cpus[self.cpu].spins_on = Some(line);
        Some(self.now + self.costs.spin_hint * Ps::from((more / EXACT_TURNS).min(4_096)))
    }

    /// A line was written, and will be there for all to see at `done`.
    #[cold]
    pub(super) fn wake_spinners(&mut self, place: Place, done: Ps) {
        in_host(|| {
            let line = self.line_of(place);
            self.memory.watch(line, false);
            for cpu in self.spinners.remove(&line).unwrap_or_default() {
                self.cpus[cpu].spins_on = None;
                let from = self.cpus[cpu].clock;
                self.step_at(cpu, done.max(from));
            }
        });
    }

    /// A CPU ceases to spin for another reason than a write.
    pub(super) fn stop_spinning(&mut self, cpu: usize) {
        let Some(line) = self.cpus[cpu].spins_on.take() else { return };
        if let Some(others) = self.spinners.get_mut(&line) {
            others.retain(|other| *other != cpu);
            if others.is_empty() {
                self.spinners.remove(&line);
                self.memory.watch(line, false);
            }
        }
    }
}
