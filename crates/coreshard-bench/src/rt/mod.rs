//! Real-time benchmarks: the layouts of the priority index, and programs that use it.
//!
//! In [`IndexBench`] all CPUs set their level and search for the lowest one at the same time. [`CyclicBench`]
//! measures how late threads wake up, like cyclictest; [`PiBench`] counts resolved inversions, like
//! pi_stress; [`TranscodeBench`] runs instances of a media pipeline.

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
