//! How the looks of a CPU go on while it sleeps on the lines that it looks at.

use crate::machine::Ps;

/// How a CPU that sleeps on lines would look at them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looking {
    /// The first look that is not simulated.
    pub(super) first_at: Ps,
    /// From one turn to the next; 0 for a CPU that goes on whenever a line is written.
    pub(super) turn: Ps,
    /// At this look, if it comes to that, the CPU is interrupted.
    pub(super) interrupted_at: Option<Ps>,
}

impl Looking {
    /// Turns whose looks are over at `time`.
    pub(super) fn over_at(&self, time: Ps) -> u64 {
        if self.turn == 0 { 0 } else { time.saturating_sub(self.first_at).div_ceil(self.turn) }
    }

    /// When it sees that a line was taken at `taken`, and is at its new place at `done`.
    pub(super) fn sees_at(&self, taken: Ps, done: Ps) -> Ps {
        if self.turn == 0 { done } else { self.first_at + self.over_at(taken) * self.turn }
    }
}
