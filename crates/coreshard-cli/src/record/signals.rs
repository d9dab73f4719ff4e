//! Ctrl-C and SIGTERM while a program is recorded. They are passed on to the program, and the recording up to its end
//! is kept.

use std::io;
use std::process::Child;

use crate::common::ENDING;
use anyhow::Context;
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

/// The action for a signal.
#[derive(Debug)]
pub(super) enum Order {
    /// Pass on the first signal, so that the program can end in its own way.
    PassOn(Signal),
    /// Kill the program after a further signal.
    Kill,
}

/// The received signals.
pub(super) struct Orders {
    signals: Signals,
    has_passed: bool,
}

impl Orders {
    /// Starts to handle Ctrl-C and SIGTERM. From then on they do not end the command.
    pub(super) fn listen() -> anyhow::Result<Self> {
        let signals = Signals::new(ENDING);
        let signals = signals.context("cannot listen for Ctrl-C and SIGTERM")?;
        Ok(Self { signals, has_passed: false })
    }

    /// Returns the action for the next signal that needs one.
    pub(super) fn next(&mut self) -> Option<Order> {
        for signal in self.signals.pending() {
            if self.has_passed {
                return Some(Order::Kill);
            }
            self.has_passed = true;
            if signal == SIGTERM {
                return Some(Order::PassOn(Signal::TERM));
            }
            if !has_terminal() {
                return Some(Order::PassOn(Signal::INT));
            }
        }
        None
    }
}

/// Whether Ctrl-C in the terminal reaches this process, and with it the program, which is in the same process group.
fn has_terminal() -> bool {
    let terminal = open("/dev/tty", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    terminal.and_then(tcgetpgrp).is_ok_and(|group| group == getpgrp())
}

/// Sends a signal to a program that has not been waited for.
pub(super) fn pass_on(program: &Child, signal: Signal) -> anyhow::Result<()> {
    kill_process(Pid::from_child(program), signal)
        .map_err(io::Error::from)
        .context("cannot send a signal to the program")
}
