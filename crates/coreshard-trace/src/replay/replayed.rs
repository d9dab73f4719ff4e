//! One replay of a recording on a machine.

use coreshard_sim::{Machine, Placement};

use super::engine::{Outcome, Replay};
use super::lines::Line;
use super::moved::Moves;
use super::plan::Plan;
use crate::recording::{Recording, RecordingError};

/// Options of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// The placement of threads on CPUs.
    pub placement: Placement,
    /// The number of consecutive threads that share a CPU.
    pub threads_per_cpu: usize,
    /// The number of lines that get names, the costliest first.
    pub most_lines: usize,
    /// Fields that proposed layouts do not move because they are part of an interface.
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

/// The outcome of a replay, with the data that names depend on.
pub(super) struct Replayed {
    pub(super) plan: Plan,
    pub(super) outcome: Outcome,
}

/// Replays a recording. If `moves` has new addresses, it also has the plan of a replay without them.
pub(super) fn run(
    recording: &Recording,
    machine: &Machine,
    options: &ReplayOptions,
    moves: Option<(&Moves, &Plan)>,
) -> Result<Replayed, RecordingError> {
    let mut plan = Plan::of(recording, machine.line_bytes(), moves.map(|(moves, _)| moves))?;
    // Only the recorded addresses show which memory passed between threads.
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

/// Returns the costliest lines, and among lines of equal cost the one with the lower address first.
pub(super) fn costliest(lines: &[Line], most: usize) -> Vec<&Line> {
    let mut all: Vec<_> = lines.iter().filter(|line| line.true_ps + line.false_ps > 0).collect();
    all.sort_by(|a, b| b.cost_ps.cmp(&a.cost_ps).then(a.address.cmp(&b.address)));
    all.truncate(most);
    all
}
