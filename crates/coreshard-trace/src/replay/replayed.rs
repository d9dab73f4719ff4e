//! One run of a recording on a machine.

use coreshard_sim::{Machine, Placement};

use super::engine::{Outcome, Replay};
use super::lines::Line;
use super::moved::Moves;
use super::plan::Plan;
use crate::recording::{Recording, RecordingError};

/// How a recording is replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Which CPUs the threads have.
    pub placement: Placement,
    /// How many threads, one after the other, share a CPU.
    pub threads_per_cpu: usize,
    /// How many lines get names, the costliest first.
    pub most_lines: usize,
    /// Fields that proposed layouts leave where they are: an interface's.
    pub pinned: Vec<String>,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            placement: Placement::default(),
            threads_per_cpu: 1,
            most_lines: 20,
            pinned: Vec::new(),
        }
    }
}

/// A replay's outcome with what it takes to give it names.
pub(super) struct Replayed {
    pub(super) plan: Plan,
    pub(super) outcome: Outcome,
}

/// Replays; with moves and the plan of what is not moved, with memory where the former put it.
pub(super) fn run(
    recording: &Recording,
    machine: &Machine,
    options: &ReplayOptions,
    moves: Option<(&Moves, &Plan)>,
) -> Result<Replayed, RecordingError> {
    let mut plan = Plan::of(recording, machine.line_bytes(), moves.map(|(moves, _)| moves))?;
    // The recorded addresses tell which thread had which memory.
    if let Some((_, unmoved)) = moves {
        plan.reuse = std::sync::Arc::clone(&unmoved.reuse);
    }
    let moves = moves.map(|(moves, _)| moves);
    let replay = Replay::new(
        recording,
        &mut plan,
        moves,
        machine,
        &options.placement,
        options.threads_per_cpu,
    );
    let outcome = replay.run()?;
    Ok(Replayed { plan, outcome })
}

/// The lines that cost most; of equal ones, that of the lower address.
pub(super) fn costliest(lines: &[Line], most: usize) -> Vec<&Line> {
    let mut all: Vec<_> = lines.iter().filter(|line| line.true_ps + line.false_ps > 0).collect();
    all.sort_by(|a, b| b.cost_ps.cmp(&a.cost_ps).then(a.address.cmp(&b.address)));
    all.truncate(most);
    all
}
