//! A progress bar, by which signals end a benchmark early.

use std::fmt;
use std::ops::ControlFlow;

use coreshard_bench::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::interrupts::{listen_for_interrupts, was_interrupted};

/// A bar on standard error where that is a terminal. It is drawn between two turns and never by a
/// thread of its own, which would run beside what is measured.
pub(crate) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// A bar that is drawn when the benchmark begins; from now on Ctrl-C or SIGTERM ends the
    /// benchmark early, and a second one ends the command.
    pub(crate) fn new() -> anyhow::Result<Self> {
        listen_for_interrupts()?;
        Ok(Self { bar: ProgressBar::no_length() })
    }

    /// As [`new`](Self::new) does, for what has no bar.
    pub(crate) fn begin_to_listen() -> anyhow::Result<()> {
        listen_for_interrupts()
    }

    /// Whether Ctrl-C was pressed, or SIGTERM came.
    pub(crate) fn was_interrupted() -> bool {
        was_interrupted()
    }
}

impl Progress for Bar {
    fn begin(&mut self, steps: usize) {
        let style = "{bar:30} {pos:>4}/{len}  {eta:>4} left  {msg}";
        self.bar.set_style(ProgressStyle::with_template(style).expect("the template is valid"));
        self.bar.set_length(steps as u64);
    }

    fn step(&mut self, what: &dyn fmt::Display) -> ControlFlow<()> {
        if Self::was_interrupted() {
            return ControlFlow::Break(());
        }
        self.bar.set_message(what.to_string());
        self.bar.inc(1);
        ControlFlow::Continue(())
    }

    fn is_over(&mut self) -> bool {
        Self::was_interrupted()
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
