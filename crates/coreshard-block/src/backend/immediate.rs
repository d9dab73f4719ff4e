//! A channel that completes commands when they are started.
#![allow(unsafe_code)]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Parker, Platform};

use super::channel::{Channel, Command, Completion, Waker};

/// Executes each command on the calling thread with `perform`, which returns the result.
pub(super) struct ImmediateChannel<P: Platform, F> {
    perform: F,
    name: String,
    done: Vec<Completion>,
    parker: Arc<Parker<P>>,
}

impl<P: Platform, F: FnMut(&Command) -> i32> ImmediateChannel<P, F> {
    /// Creates the channel. `perform` may use a command's memory only during the call.
    pub(super) fn new(name: String, depth: u32, perform: F) -> Self {
        let done = Vec::with_capacity(depth as usize);
        Self { perform, name, done, parker: Arc::new(Parker::new()) }
    }
}

// SAFETY: a command's memory is used only while `perform` runs, so not after `start`.
unsafe impl<P: Platform, F: FnMut(&Command) -> i32 + Send> Channel for ImmediateChannel<P, F> {
    unsafe fn start(&mut self, command: &Command) -> bool {
        self.done.push(Completion { id: command.id, result: (self.perform)(command) });
        true
    }

    fn reap(&mut self, into: &mut Vec<Completion>) {
        into.append(&mut self.done);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if self.done.is_empty() {
            park(&self.parker, timeout);
        }
        Ok(())
    }

    fn cancel(&mut self, _id: u64) {}

    fn waker(&self) -> Waker {
        unparks(&self.parker)
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}

pub(super) fn park<P: Platform>(parker: &Parker<P>, timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => {
            parker.park_timeout(timeout);
        }
        None => parker.park(),
    }
}

pub(super) fn unparks<P: Platform>(parker: &Arc<Parker<P>>) -> Waker {
    let parker = Arc::clone(parker);
    Arc::new(move || {
        parker.unpark();
    })
}
