//! The ladders' benchmarks, and the types of what they measured.
//!
//! A benchmark climbs one ladder, rung by rung, and returns plain data: [`QueueBench`] measures a
//! workqueue and returns [`QueueResults`], which hold one [`QueueCell`] for each combination of
//! scope, wake policy and intake. Tables, files and pages are made of them elsewhere; nothing here
//! prints, and whoever wants to see how far a benchmark has come passes a [`Progress`].
//!
//! All of it is generic over the platform, so that the same code measures real threads and
//! simulated ones: threads, clocks and waits are the platform's.
#![forbid(unsafe_code)]

mod error;
mod progress;
mod queue;
mod results;
pub mod rt;

pub use error::BenchError;
pub use progress::{Progress, Unwatched};
pub use queue::{Combination, Ground, QueueBench};
pub use results::{Mode, QueueCell, QueueResults, WakeRatio};
