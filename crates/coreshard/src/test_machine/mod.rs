//! The platform of this crate's types where the feature `testing` is on, and what a simulated program takes its process
//! for. Above it are those types; above them is `testing`.

mod platform;
mod simulated_process;

pub use platform::{TestMachine, TestThread};
pub(crate) use simulated_process::SimulatedProcess;
