//! What a replay found out.

use crate::replay::lines::Line;

/// What a replay found out.
pub(crate) struct Outcome {
    pub(crate) lines: Vec<Line>,
    pub(crate) virtual_ps: u64,
    pub(crate) threads: Vec<ThreadOutcome>,
    pub(crate) edges_broken: u64,
    pub(crate) lines_left_out: u64,
    /// Pieces of memory that several threads had.
    pub(crate) pieces_reused: usize,
    /// Those of them that have another place than in the recording.
    pub(crate) pieces_moved: u64,
}

impl Outcome {
    /// What all threads together waited for lines.
    pub(crate) fn lost_ps(&self) -> u64 {
        self.threads.iter().map(|thread| thread.lost_ps).sum()
    }
}

/// What a thread spent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadOutcome {
    pub(crate) number: u32,
    pub(crate) accesses: u64,
    /// Waiting for lines.
    pub(crate) lost_ps: u64,
    /// Waiting for other threads.
    pub(crate) waited_ps: u64,
    pub(crate) ended_ps: u64,
    pub(crate) cpu: usize,
}
