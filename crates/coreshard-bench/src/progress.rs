//! Progress reports of a benchmark.

use std::fmt;
use std::ops::ControlFlow;

/// Observes a benchmark between its steps, and may end it.
///
/// The methods are called on the thread that runs the benchmark, never during a measurement.
pub trait Progress {
    /// Called when the benchmark begins; it will have `steps` steps of about equal length.
    fn begin(&mut self, steps: usize);

    /// Called before each step, which `what` describes. On [`ControlFlow::Break`] this step and all later
    /// ones are skipped: the benchmark ends with the measurements so far.
    fn step(&mut self, what: &dyn fmt::Display) -> ControlFlow<()>;

    /// Returns whether the benchmark should end. Called occasionally during long steps that measure nothing,
    /// such as creating a file.
    fn is_over(&mut self) -> bool {
        false
    }
}

/// Observes nothing: the benchmark runs to its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Progress for Unwatched {
    fn begin(&mut self, _steps: usize) {}

    fn step(&mut self, _what: &dyn fmt::Display) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}
