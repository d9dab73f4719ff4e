//! Benchmarks of real time: the ladder *priority index*, and what runs on it.
//!
//! [`IndexBench`] lets all CPUs set their level and look for the lowest one at the same time.
//! [`CyclicBench`] measures how late threads wake up, as cyclictest does; [`PiBench`] counts inversions
//! resolved, as pi_stress does; [`TranscodeBench`] runs instances of a media pipeline.

mod cyclic;
mod ground;
mod index;
mod pi;
mod spell;
mod storm;
#[cfg(test)]
mod tests;
mod transcode;

pub use cyclic::{CyclicBench, CyclicResults, CyclicThread};
pub use ground::Footing;
pub use index::{IndexBench, IndexCell, IndexResults};
pub use pi::{PiBench, PiResults};
pub use transcode::{Compression, Computing, Pipeline, Pixels, TranscodeBench, TranscodeResults};

pub use spell::Spells;

/// The median, and the range, of what the runs of one rung measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of no runs it is all 0.
    pub(crate) fn of(runs: impl IntoIterator<Item = f64>) -> Self {
        let mut runs: Vec<f64> = runs.into_iter().collect();
        runs.sort_by(f64::total_cmp);
        let (Some(min), Some(max)) = (runs.first(), runs.last()) else { return Self::default() };
        let middle = (runs.len() - 1) / 2;
        let median = (runs[middle] + runs[runs.len() / 2]) / 2.0;
        Self { median, min: *min, max: *max }
    }
}
