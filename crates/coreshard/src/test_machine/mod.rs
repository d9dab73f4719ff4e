//! The platform of the types in `testing::simulated`, and the process of a simulated program. Above it is `testing`.

mod own_process;
mod platform;
mod simulated_process;

pub use platform::{TestMachine, TestThread};
pub(crate) use simulated_process::SimulatedProcess;
