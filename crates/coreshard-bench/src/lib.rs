//! The ladders' benchmarks, and the types of what they measured.
//!
//! A benchmark climbs one ladder, rung by rung, and returns plain data: [`QueueResults`] holds one
//! [`QueueCell`] for each combination of scope, wake policy and intake. Tables, files and pages are made
//! of them elsewhere; nothing here prints.
#![forbid(unsafe_code)]

mod results;

pub use results::{Mode, QueueCell, QueueResults};
