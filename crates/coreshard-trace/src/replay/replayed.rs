//! One replay of a recording on a machine.

use coreshard_sim::{Machine, Placement};

use super::accessor::Seen;
use super::engine::{EarlyUnlocks, Outcome, Replay};
use super::lines::Line;
use super::moved::Moves;
use super::names::Names;
use super::owners::NOBODY;
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
    /// A change of the program to predict: fields on lines of their own, by the ends of their paths. `[]` stands for any index.
    pub apart: Vec<String>,
    /// A change of the program to predict: locks that are released earlier.
    pub early_unlock: Option<EarlyUnlock>,
}

/// Locks that a replay releases earlier than the recorded program did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlyUnlock {
    /// A part of the name of the objects that the locks are in.
    pub object: String,
    /// The function before which a thread releases them.
    pub function: String,
}

impl EarlyUnlock {
    /// Finds the locks and the function.
    fn find(&self, plan: &Plan) -> EarlyUnlocks {
        let mut names = Names::new(plan);
        let seen = Seen { ticket: u64::MAX, owner: NOBODY };
        let mut is_it = |lock: u64| names.thing(lock, seen, &[]).name.contains(&self.object);
        let locks = plan.locks.iter().copied().filter(|lock| is_it(*lock)).collect();
        EarlyUnlocks { locks, code: names.code_of(&self.function) }
    }
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            placement: Placement::default(),
            threads_per_cpu: 1,
            most_lines: 20,
            pinned: Vec::new(),
            apart: Vec::new(),
            early_unlock: None,
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
    let early = options.early_unlock.as_ref().map(|early| early.find(&plan));
    let mut replay = Replay::new(
        recording,
        &mut plan,
        moves,
        machine,
        &options.placement,
        options.threads_per_cpu,
    );
    replay.early = early.unwrap_or_default();
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
