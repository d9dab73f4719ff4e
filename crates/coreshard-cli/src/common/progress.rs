//! Signals that end a measurement early, and the progress bar that checks for them.

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

use anyhow::Context;
use coreshard_bench::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Ctrl-C and SIGTERM end a measurement early. SIGHUP ends the command as usual, and `nohup` ignores it.
pub(crate) const ENDING: [i32; 2] = [SIGINT, SIGTERM];

/// The last signal received.
static ENDED_BY: LazyLock<Arc<AtomicUsize>> =
    LazyLock::new(|| Arc::new(AtomicUsize::new(SIGINT as usize)));

/// Set by the first signal.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Makes Ctrl-C and SIGTERM end the measurement early. A second one ends the command.
pub(crate) fn listen_for_interrupts() -> anyhow::Result<()> {
    let listen = |signal| -> io::Result<()> {
        // The order matters: the first signal must find the flag unset.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&INTERRUPTED))?;
        flag::register_usize(signal, Arc::clone(&ENDED_BY), signal.unsigned_abs() as usize)?;
        flag::register(signal, Arc::clone(&INTERRUPTED))?;
        Ok(())
    };
    ENDING.into_iter().try_for_each(listen).context("cannot listen for Ctrl-C and SIGTERM")
}

/// Returns the exit status for the signal that ended the measurement, as shells report it.
pub(super) fn interrupted_status() -> u8 {
    128 + ENDED_BY.load(Relaxed) as u8
}

/// Returns the flag that the first Ctrl-C or SIGTERM sets.
pub(super) fn interrupts() -> Arc<AtomicBool> {
    Arc::clone(&INTERRUPTED)
}

/// Returns true after Ctrl-C or SIGTERM.
pub(crate) fn was_interrupted() -> bool {
    INTERRUPTED.load(Relaxed)
}

/// A progress bar on standard error, if that is a terminal. It is drawn between runs. A drawing thread would disturb
/// the measurement.
pub(crate) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// Creates a bar that is drawn when the benchmark begins, and calls [`listen_for_interrupts`].
    pub(crate) fn new() -> anyhow::Result<Self> {
        listen_for_interrupts()?;
        Ok(Self { bar: ProgressBar::no_length() })
    }
}

impl Progress for Bar {
    fn begin(&mut self, steps: usize) {
        let style = "{bar:30} {pos:>4}/{len}  {eta:>4} left  {msg}";
        self.bar.set_style(ProgressStyle::with_template(style).expect("the template is valid"));
        self.bar.set_length(steps as u64);
    }

    fn step(&mut self, what: &dyn fmt::Display) -> ControlFlow<()> {
        if was_interrupted() {
            return ControlFlow::Break(());
        }
        self.bar.set_message(what.to_string());
        self.bar.inc(1);
        ControlFlow::Continue(())
    }

    fn is_over(&mut self) -> bool {
        was_interrupted()
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
