//! Spinning without simulating each turn.
//!
//! A thread that looks at a word, finds it as before, and spins, changes nothing outside its CPU.
//! Its first turns take what they take, so that code which gives up after some number of them
//! takes the right time; from [`EXACT_TURNS`] on the CPU sleeps on the line and goes on when the
//! line is written, or after a time that grows with the number of turns. A loop of N turns on a
//! line that nobody writes takes exactly its time up to twice [`EXACT_TURNS`], and at most (N /
//! EXACT_TURNS) times that beyond. Where the program says how often it will look, see `looks`.

use super::state::SimState;
use crate::machine::Ps;
use crate::memory::Place;
use crate::space::in_host;

/// Turns that are simulated one by one. A worker watches for up to twice as many before it sleeps.
const EXACT_TURNS: u32 = 1_024;

impl SimState {
    pub(super) fn line_of(&self, place: Place) -> Place {
        Place(place.0 & !(self.memory.line_bytes() as u64 - 1))
    }

    /// One turn of spinning, where that lets others go first.
    pub(super) fn spin_once(&mut self) {
        self.wait_for_loaded();
        self.run_for(self.costs.spin_hint);
        if let Some(injector) = &mut self.injector {
            injector.thread_spins(self.thread);
        }
        self.looks_around(1);
    }

    /// One turn of spinning; if the CPU is to sleep on the line, until when at the latest.
    pub(super) fn spin_turn(&mut self) -> Option<Ps> {
        self.wait_for_loaded();
        self.run_for(self.costs.spin_hint);
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
        self.sleep_on(self.line_of(place));
        Some(self.now + self.costs.spin_hint * Ps::from((more / EXACT_TURNS).min(4_096)))
    }

    /// The running CPU is to sleep on a line.
    pub(super) fn sleep_on(&mut self, line: Place) {
        let lines = &mut self.cpus[self.cpu].spins_on;
        if !lines.contains(&line) {
            in_host(|| {
                lines.push(line);
                self.spinners.entry(line).or_default().push(self.cpu);
            });
            self.memory.watch(line, true);
        }
    }

    /// A line was taken at `since` to be written, and will be there for all to see at `done`.
    #[cold]
    pub(super) fn wake_spinners(&mut self, place: Place, since: Ps, done: Ps) {
        in_host(|| {
            let line = self.line_of(place);
            for cpu in self.spinners.get(&line).cloned().unwrap_or_default() {
                self.stop_spinning(cpu);
                let sees_at = self.cpus[cpu].looking.sees_at(since, done);
                let from = self.cpus[cpu].clock;
                self.step_at(cpu, sees_at.max(from));
            }
        });
    }

    /// A CPU sleeps on no line any more.
    pub(super) fn stop_spinning(&mut self, cpu: usize) {
        while let Some(line) = self.cpus[cpu].spins_on.pop() {
            let Some(others) = self.spinners.get_mut(&line) else { continue };
            others.retain(|other| *other != cpu);
            if others.is_empty() {
                self.spinners.remove(&line);
                self.memory.watch(line, false);
            }
        }
    }
}
