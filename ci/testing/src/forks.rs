//! Processes that a test forks, and how they end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::NEVER;

/// Ends a child in which all went well. Not an exit: a child has no threads, so what theirs held is
/// lost to it, of which a leak checker would tell.
const WELL: libc::c_int = libc::SIGKILL;

/// Forks, and returns how the child ended that ran `child`.
///
/// # Errors
/// What `child` returned is printed; where it failed, panicked or hung, the error says so.
pub fn forked<E: AsRef<str>>(child: impl FnOnce() -> Result<(), E>) -> Result<(), String> {
    match fork() {
        Side::Child => match catch_unwind(AssertUnwindSafe(child)) {
            Ok(outcome) => end(outcome),
            Err(_) => end(Err("it panicked")),
        },
        Side::Parent(child) => child.outcome(),
    }
}

/// Where [`fork`] returned.
pub enum Side {
    /// In the process that was made, which ends by [`end`].
    Child,
    /// In the one that made it.
    Parent(Child),
}

/// A process that was forked.
pub struct Child(libc::pid_t);

/// Forks.
///
/// # Panics
/// Where no process can be had.
pub fn fork() -> Side {
    // SAFETY: what the child may touch is what such tests are about.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork failed");
    if pid == 0 { Side::Child } else { Side::Parent(Child(pid)) }
}

/// Ends the child.
pub fn end<E: AsRef<str>>(outcome: Result<(), E>) -> ! {
    let signal = if outcome.is_ok() { WELL } else { libc::SIGABRT };
    let text = outcome.as_ref().err().map_or("", AsRef::as_ref);
    // SAFETY: writes a live text to stderr, and ends the child without its exit handlers.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::raise(signal);
        libc::_exit(1);
    }
}

impl Child {
    /// Waits until it has ended; one that hangs is killed.
    ///
    /// # Errors
    /// Where it did not end by [`end`] with `Ok`.
    pub fn outcome(self) -> Result<(), String> {
        let started = Instant::now();
        loop {
            let mut status = 0;
            // SAFETY: `status` is live, and the child is this process's own.
            match unsafe { libc::waitpid(self.0, &raw mut status, libc::WNOHANG) } {
                0 if started.elapsed() < NEVER => std::thread::sleep(Duration::from_millis(1)),
                0 => {
                    // SAFETY: the child's id, which was not waited for yet.
                    unsafe { libc::kill(self.0, libc::SIGKILL) };
                    return Err("the child hangs".to_owned());
                }
                _ if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == WELL => return Ok(()),
                _ => return Err(format!("the child ended with status {status:#x}")),
            }
        }
    }
}
