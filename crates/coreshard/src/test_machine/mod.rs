//! The platform of the types in `testing::simulated`, and the process of a simulated program. Used by `testing`.

mod own_process;
mod platform;
mod simulated_process;

pub use platform::{TestMachine, TestThread};
pub(crate) use simulated_process::SimulatedProcess;
