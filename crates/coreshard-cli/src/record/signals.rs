//! Ctrl-C and SIGTERM while a program is recorded: they are the program's, and what it did until then is kept.

use std::io;
use std::process::Child;

use crate::common::ENDING;
use anyhow::Context;
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

/// What a signal asks for.
#[derive(Debug)]
pub(super) enum Order {
    /// The first: the program may end in its own way.
    PassOn(Signal),
    /// A further one: it is ended.
    Kill,
}

/// The signals that came, one after the other.
pub(super) struct Orders {
    signals: Signals,
    has_passed: bool,
}

impl Orders {
    /// From now on the command does not end by Ctrl-C or SIGTERM.
    pub(super) fn listen() -> anyhow::Result<Self> {
        let signals = Signals::new(ENDING);
        let signals = signals.context("cannot listen for Ctrl-C and SIGTERM")?;
        Ok(Self { signals, has_passed: false })
    }

    /// The next of them that asks for something.
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

/// Whether a terminal's Ctrl-C goes to this process, and so to the program itself, which is in the same group.
fn has_terminal() -> bool {
    let terminal = open("/dev/tty", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    terminal.and_then(tcgetpgrp).is_ok_and(|group| group == getpgrp())
}

/// Sends it to a program that was not waited for.
pub(super) fn pass_on(program: &Child, signal: Signal) -> anyhow::Result<()> {
    kill_process(Pid::from_child(program), signal)
        .map_err(io::Error::from)
        .context("the program cannot be told to end")
}
