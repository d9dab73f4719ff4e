//! Benchmarks of real time: the layouts of the priority index, and what runs on it.
//!
//! [`IndexBench`] lets all CPUs set their level and look for the lowest one at the same time.
//! [`CyclicBench`] measures how late threads wake up, as cyclictest does; [`PiBench`] counts inversions
//! resolved, as pi_stress does; [`TranscodeBench`] runs instances of a media pipeline.

mod cyclic;
mod durations;
mod executor;
mod index;
mod pi;
mod storm;
#[cfg(test)]
mod tests;
mod transcode;

pub use cyclic::CyclicBench;
pub use executor::ExecutorSettings;
pub use index::IndexBench;
pub use pi::PiBench;
pub use transcode::{Compression, Computing, Pipeline, Pixels, TranscodeBench};
