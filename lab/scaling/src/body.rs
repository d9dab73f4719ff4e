//! What each element of a loop does.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Padded, Platform};
use coreshard_sim::Sim;

#[derive(Clone)]
pub(crate) enum Body {
    /// Each element computes for this long.
    Compute(Duration),
    /// Each element is a row of the grid.
    Update(Arc<Grid>),
}

impl Body {
    pub(crate) fn run(&self, elements: Range<u32>) {
        match self {
            Self::Compute(each) => Sim::compute(*each * elements.len() as u32),
            Self::Update(grid) => elements.for_each(|row| grid.update(row as usize)),
        }
    }

    /// How long an element takes whose memory is in the cache.
    pub(crate) fn each(&self) -> Duration {
        match self {
            Self::Compute(each) => *each,
            Self::Update(_) => LINE * LINES_TO_A_ROW as u32,
        }
    }
}

const LINES_TO_A_ROW: usize = 8;

/// The computation of one line.
const LINE: Duration = Duration::from_nanos(20);

/// A grid in simulated memory, for stencils.
pub(crate) struct Grid(Vec<[Padded<<Sim as Platform>::AtomicU32>; LINES_TO_A_ROW]>);

impl Grid {
    pub(crate) fn new(rows: u32) -> Arc<Self> {
        let line = |_| Padded::new(<Sim as Platform>::AtomicU32::new(1));
        Arc::new(Self((0..rows).map(|_| std::array::from_fn(line)).collect()))
    }

    /// Stores in each line of a row the sum of the lines above and below and its own.
    fn update(&self, row: usize) {
        let above = &self.0[row.saturating_sub(1)];
        let below = &self.0[(row + 1).min(self.0.len() - 1)];
        for ((own, above), below) in self.0[row].iter().zip(above).zip(below) {
            let sum = above.load(Relaxed) ^ own.load(Relaxed) ^ below.load(Relaxed);
            Sim::compute(LINE);
            own.store(sum, Relaxed);
        }
    }
}
