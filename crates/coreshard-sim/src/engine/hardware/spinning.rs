//! CPUs that spin, without simulating each turn.
//!
//! A thread that checks a word, finds it unchanged, and spins, changes nothing outside its CPU. Its first
//! turns are simulated exactly, so that code which gives up after a number of turns takes the right time.
//! From [`EXACT_TURNS`] on, the CPU sleeps on the line. It continues when the line is written, or after a
//! time that grows with the number of turns. A loop of N turns on a line that no CPU writes takes exactly its
//! time up to twice [`EXACT_TURNS`], and at most (N / EXACT_TURNS) times that beyond.
//!
//! If the program states how often it will check (`Platform::watch`), no turn need be simulated. A turn whose
//! checks all hit its CPU's cache has the same result as the previous one, as long as no other CPU takes one
//! of those lines. So the CPU sleeps on them, and continues at the first check after one was taken, or at the
//! last check. All earlier checks count as done: the thread sees the same values at the same time as if they
//! had been simulated. (If a turn checks several words, its first check may be as late as the write to
//! another one.)

use crate::machine::Ps;
use crate::memory::{Access, ByPlace, Memory, Place};
use crate::space::in_host;

/// The number of turns that are simulated one by one. A worker spins for up to twice as many before it
/// sleeps.
const EXACT_TURNS: u32 = 1_024;

/// The most checks of a turn; if there are more, each is simulated.
const MOST_LOOKS: usize = 16;

/// The last word that the running thread checked, and how often it has spun since.
#[derive(Clone, Copy, Debug, Default)]
struct Detector {
    place: Option<Place>,
    /// Turns of spinning with no other access between them.
    turns: u32,
    /// When the loaded value arrives, if the CPU continues meanwhile.
    comes_at: Ps,
    /// Whether its accesses are recorded as a turn of checks.
    notes_looks: bool,
}

/// The checks of a CPU that sleeps on lines.
#[derive(Clone, Copy, Debug, Default)]
struct Looking {
    /// The first check that is not simulated.
    first_at: Ps,
    /// The time from one turn to the next; 0 for a CPU that continues whenever a line is written.
    turn: Ps,
    /// The check at which the CPU is interrupted, if it gets that far.
    interrupted_at: Option<Ps>,
}

impl Looking {
    /// Returns the number of turns whose checks have ended at `time`.
    fn over_at(&self, time: Ps) -> u64 {
        if self.turn == 0 { 0 } else { time.saturating_sub(self.first_at).div_ceil(self.turn) }
    }
}

/// The checks that a CPU has slept through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SleptOver {
    pub(crate) turns: u64,
    pub(super) accesses: u64,
    /// Whether its CPU is interrupted at the last of them.
    pub(crate) is_interrupted: bool,
}

#[derive(Clone, Debug, Default)]
struct Spinner {
    /// The detector's state when the CPU's last turn ended.
    detector: Detector,
    /// The lines that it sleeps on, while its thread checks them repeatedly; then the timing of these checks.
    sleeps_on: Vec<Place>,
    looking: Looking,
    /// The lines of the checks of its thread's turn.
    looks_at: Vec<Place>,
}

/// Which CPUs spin on which lines.
pub(crate) struct Spinning {
    /// The running CPU's detector.
    detector: Detector,
    cpus: Vec<Spinner>,
    /// Sleeping CPUs, by the line that they check.
    by_line: ByPlace<Vec<usize>>,
}

impl Spinning {
    pub(super) fn new(cpus: usize) -> Self {
        let cpus = vec![Spinner::default(); cpus];
        Self { detector: Detector::default(), cpus, by_line: ByPlace::default() }
    }

    pub(super) fn begin_turn(&mut self, cpu: usize) {
        self.detector = self.cpus[cpu].detector;
    }

    pub(super) fn end_turn(&mut self, cpu: usize) {
        self.cpus[cpu].detector = self.detector;
    }

    #[inline]
    pub(super) fn note_access(&mut self, place: Place, access: Access) {
        if access != Access::Load || self.detector.place != Some(place) {
            let place = if access == Access::Load { Some(place) } else { None };
            self.detector = Detector { place, turns: 0, comes_at: 0, ..self.detector };
        }
    }

    /// Returns true if the running thread's last access was a load of this word.
    #[inline]
    pub(super) fn looked_at(&self, place: Place) -> bool {
        self.detector.place == Some(place)
    }

    /// Returns when the loaded value arrives that the running CPU does not wait for; 0 if it has everything.
    #[inline]
    pub(super) const fn comes_at(&self) -> Ps {
        self.detector.comes_at
    }

    #[inline]
    pub(super) fn set_comes_at(&mut self, time: Ps) {
        self.detector.comes_at = time;
    }

    /// Records a turn of spinning. If the running CPU should sleep on the line, returns the line and the
    /// longest time.
    pub(super) fn spin_turn(&mut self, cpu: usize, memory: &mut Memory) -> Option<(Place, Ps)> {
        let place = self.detector.place?;
        self.detector.turns += 1;
        let more = self.detector.turns.checked_sub(EXACT_TURNS)?;
        // If the line was written since the check, the next check is due now.
        let turns = Ps::from((more / EXACT_TURNS).min(4_096));
        memory.has(cpu, place).then(|| (memory.line_of(place), turns))
    }

    /// Returns true for a CPU that sleeps until a line is written, so that it has no turns at which it would
    /// notice anything else.
    pub(crate) fn is_asleep(&self, cpu: usize) -> bool {
        !self.cpus[cpu].sleeps_on.is_empty()
    }

    /// Returns the line that a CPU sleeps on, or one of them.
    pub(crate) fn first_line(&self, cpu: usize) -> Option<Place> {
        self.cpus[cpu].sleeps_on.first().copied()
    }

    /// Puts the CPU to sleep on a line.
    pub(super) fn sleep_on(&mut self, cpu: usize, line: Place, memory: &mut Memory) {
        let lines = &mut self.cpus[cpu].sleeps_on;
        if !lines.contains(&line) {
            in_host(|| {
                lines.push(line);
                self.by_line.entry(line).or_default().push(cpu);
            });
            memory.watch(line, true);
        }
    }

    /// Ends the CPU's sleep on all lines.
    pub(super) fn stop(&mut self, cpu: usize, memory: &mut Memory) {
        while let Some(line) = self.cpus[cpu].sleeps_on.pop() {
            let Some(others) = self.by_line.get_mut(&line) else { continue };
            others.retain(|other| *other != cpu);
            if others.is_empty() {
                self.by_line.remove(&line);
                memory.watch(line, false);
            }
        }
    }

    pub(super) fn sleepers(&self, line: Place) -> Vec<usize> {
        self.by_line.get(&line).cloned().unwrap_or_default()
    }

    /// Returns when a CPU sees that a line was taken at `taken`, with the transfer complete at `done`.
    pub(super) fn sees_at(&self, cpu: usize, taken: Ps, done: Ps) -> Ps {
        let looking = &self.cpus[cpu].looking;
        if looking.turn == 0 {
            done
        } else {
            looking.first_at + looking.over_at(taken) * looking.turn
        }
    }

    #[inline]
    pub(super) const fn notes_looks(&self) -> bool {
        self.detector.notes_looks
    }

    /// Begins to record the running thread's accesses as a turn of checks.
    pub(super) fn begin_looks(&mut self, cpu: usize) {
        self.detector.notes_looks = true;
        self.cpus[cpu].looks_at.clear();
    }

    /// Ends the recording: the running thread's next access is not a check.
    pub(crate) fn end_looks(&mut self) {
        self.detector.notes_looks = false;
    }

    /// Records a check of the running thread. `is_pure` says that it hit the line in its CPU's cache.
    #[cold]
    pub(super) fn note_look(&mut self, cpu: usize, line: Place, is_pure: bool) {
        let lines = &mut self.cpus[cpu].looks_at;
        if is_pure && lines.len() < MOST_LOOKS {
            in_host(|| lines.push(line));
        } else {
            self.detector.notes_looks = false;
        }
    }

    /// Returns the checks of the running thread's turn; none if it has done anything else.
    pub(super) fn looks(&self, cpu: usize) -> &[Place] {
        if self.detector.notes_looks { &self.cpus[cpu].looks_at } else { &[] }
    }

    /// Puts the CPU to sleep on the lines that its turn checked. The next check is at `first_at`.
    pub(super) fn sleep_over_looks(
        &mut self,
        cpu: usize,
        memory: &mut Memory,
        first_at: Ps,
        turn: Ps,
        interrupted_at: Option<Ps>,
    ) {
        for at in 0..self.cpus[cpu].looks_at.len() {
            self.sleep_on(cpu, self.cpus[cpu].looks_at[at], memory);
        }
        self.cpus[cpu].looking = Looking { first_at, turn, interrupted_at };
    }

    /// Called when the CPU continues at `time`. Returns the checks that it has slept through, if any.
    pub(super) fn take_slept_over(&mut self, cpu: usize, time: Ps) -> Option<SleptOver> {
        let cpu = &mut self.cpus[cpu];
        let looking = std::mem::take(&mut cpu.looking);
        let turns = looking.over_at(time);
        let accesses = turns * cpu.looks_at.len() as u64;
        let is_interrupted = looking.interrupted_at == Some(time);
        (looking.turn > 0).then_some(SleptOver { turns, accesses, is_interrupted })
    }
}
