//! The results of a replay.

use serde::Serialize;

use super::locks::LockWaits;
use crate::replay::lines::Line;

const PS_PER_NS: f64 = 1_000.0;

pub(crate) fn ns(ps: u64) -> f64 {
    ps as f64 / PS_PER_NS
}

/// The outcome of a replay.
pub(crate) struct Outcome {
    pub(crate) lines: Vec<Line>,
    pub(crate) virtual_ps: u64,
    /// Running time of all threads: until each ended, without its waits for other threads.
    pub(crate) running_ps: u64,
    /// Time that all threads waited for lines.
    pub(crate) lost_ps: u64,
    pub(crate) threads: Vec<ThreadView>,
    /// By the lock's address.
    pub(crate) locks: Vec<(u64, LockWaits)>,
    pub(crate) edges_broken: u64,
    pub(crate) lines_left_out: u64,
    /// Pieces of memory that passed between threads.
    pub(crate) pieces_reused: usize,
    /// The number of these pieces in another slot than the first.
    pub(crate) pieces_moved: u64,
}

impl Outcome {
    /// Returns how long an average thread takes.
    pub(crate) fn mean_ns(&self) -> f64 {
        let all: f64 = self.threads.iter().map(|thread| thread.ended_ns).sum();
        all / self.threads.len().max(1) as f64
    }
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadView {
    /// Its number.
    pub thread: u32,
    /// Its CPU.
    pub cpu: u32,
    /// How often it accessed memory.
    pub accesses: u64,
    /// Time that it waited for lines, in nanoseconds.
    pub lost_ns: f64,
    /// Time that it waited for other threads, in nanoseconds.
    pub waited_ns: f64,
    /// Time of its end, in nanoseconds.
    pub ended_ns: f64,
}
