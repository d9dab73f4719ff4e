//! The signals that end a measurement early, and the progress bar that looks for them.

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

/// Ctrl-C, and how services and time limits end what they started. A terminal that is closed (SIGHUP) ends the
/// command as ever, and one that `nohup` started goes on.
pub(crate) const ENDING: [i32; 2] = [SIGINT, SIGTERM];

/// The one that came last.
static ENDED_BY: LazyLock<Arc<AtomicUsize>> =
    LazyLock::new(|| Arc::new(AtomicUsize::new(SIGINT as usize)));

/// Set by the first of them.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on Ctrl-C or SIGTERM ends what is measured early, and a second one ends the command.
pub(crate) fn listen_for_interrupts() -> anyhow::Result<()> {
    let listen = |signal| -> io::Result<()> {
        // In this order: the first one finds that none came before.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&INTERRUPTED))?;
        flag::register_usize(signal, Arc::clone(&ENDED_BY), signal.unsigned_abs() as usize)?;
        flag::register(signal, Arc::clone(&INTERRUPTED))?;
        Ok(())
    };
    ENDING.into_iter().try_for_each(listen).context("cannot listen for Ctrl-C and SIGTERM")
}

/// The status of what Ctrl-C or SIGTERM ended early, as shells report it.
pub(super) fn interrupted_status() -> u8 {
    128 + ENDED_BY.load(Relaxed) as u8
}

/// Set by the first Ctrl-C or SIGTERM.
pub(super) fn interrupts() -> Arc<AtomicBool> {
    Arc::clone(&INTERRUPTED)
}

/// Whether Ctrl-C was pressed, or SIGTERM came.
pub(crate) fn was_interrupted() -> bool {
    INTERRUPTED.load(Relaxed)
}

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
