//! How far a benchmark has come, for whoever wants to know.

use std::fmt;
use std::ops::ControlFlow;

/// Watches a benchmark between its steps, and may end it.
///
/// Steps are called on the thread that runs the benchmark, never while something is measured.
pub trait Progress {
    /// The benchmark begins, and will have `steps` steps of about equal length.
    fn begin(&mut self, steps: usize);

    /// A step is about to begin; `what` says which. On [`ControlFlow::Break`] it is left out, and so
    /// are those after it: the benchmark ends with what was measured so far.
    fn step(&mut self, what: &dyn fmt::Display) -> ControlFlow<()>;

    /// Whether the benchmark is to end, asked now and then within a step that takes long and measures
    /// nothing, such as making a file.
    fn is_over(&mut self) -> bool {
        false
    }
}

/// Nobody watches: the benchmark runs to its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Progress for Unwatched {
    fn begin(&mut self, _steps: usize) {}

    fn step(&mut self, _what: &dyn fmt::Display) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}
