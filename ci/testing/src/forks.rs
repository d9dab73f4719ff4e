//! Processes that a test forks, and their ends.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::NEVER;

/// Ends a child that has succeeded. Not an exit: the memory of the parent's other threads is lost in the child, and a leak
/// checker would report it.
const WELL: libc::c_int = libc::SIGKILL;

/// Forks, runs `child` in the child process, and waits for it.
///
/// # Errors
/// Fails if `child` failed, panicked or hung. The error of `child` is printed.
pub fn forked<E: AsRef<str>>(child: impl FnOnce() -> Result<(), E>) -> Result<(), String> {
    match fork() {
        Side::Child => match catch_unwind(AssertUnwindSafe(child)) {
            Ok(outcome) => end(outcome),
            Err(_) => end(Err("it panicked")),
        },
        Side::Parent(child) => child.outcome(),
    }
}

/// The process that [`fork`] has returned in.
pub enum Side {
    /// The new process, which ends by [`end`].
    Child,
    /// The process that forked it.
    Parent(Child),
}

/// A process that was forked.
pub struct Child(libc::pid_t);

/// Forks.
///
/// # Panics
/// Panics if no process can be created.
pub fn fork() -> Side {
    // SAFETY: the tests that fork check what the child may use.
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
    /// Waits until it has ended. Kills it if it hangs.
    ///
    /// # Errors
    /// Fails if it did not end by [`end`] with `Ok`.
    pub fn outcome(self) -> Result<(), String> {
        let started = Instant::now();
        loop {
            let mut status = 0;
            // SAFETY: `status` is live, and the child is this process's own.
            match unsafe { libc::waitpid(self.0, &raw mut status, libc::WNOHANG) } {
                0 if started.elapsed() < NEVER => std::thread::sleep(Duration::from_millis(1)),
                0 => {
                    let threads = self.threads();
                    // SAFETY: the child's id, which was not waited for yet.
                    unsafe { libc::kill(self.0, libc::SIGKILL) };
                    return Err(format!("the child hangs:\n{threads}"));
                }
                _ if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == WELL => return Ok(()),
                _ => return Err(format!("the child ended with status {status:#x}")),
            }
        }
    }

    /// The wait of each of its threads: the thread's name, its system call with hexadecimal arguments, and the mapping that
    /// contains the first argument, a futex's address.
    fn threads(&self) -> String {
        let of_process = format!("/proc/{}", self.0);
        let maps = fs::read_to_string(format!("{of_process}/maps")).unwrap_or_default();
        let tasks = fs::read_dir(format!("{of_process}/task")).into_iter().flatten().flatten();
        let threads = tasks.map(|task| {
            let read = |what| fs::read_to_string(task.path().join(what)).unwrap_or_default();
            let (name, call) = (read("comm"), read("syscall"));
            let place = call.split_whitespace().nth(1).and_then(|address| place_of(&maps, address));
            format!("  {}: {}: {}", name.trim(), call.trim(), place.unwrap_or("nowhere"))
        });
        threads.collect::<Vec<_>>().join("\n")
    }
}

/// The line of a process's maps with this address, as `0x7f...`.
fn place_of<'maps>(maps: &'maps str, address: &str) -> Option<&'maps str> {
    let number = |digits: &str| u64::from_str_radix(digits.trim_start_matches("0x"), 16).ok();
    let address = number(address)?;
    maps.lines().find(|line| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let ends = range.and_then(|(from, to)| number(from).zip(number(to)));
        ends.is_some_and(|(from, to)| (from..to).contains(&address))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{Side, end, fork};
    use crate::NEVER;

    #[test]
    fn what_a_childs_threads_wait_in_is_told() {
        let word = 0_u32;
        let child = match fork() {
            Side::Child => {
                // SAFETY: waits forever on a local word.
                unsafe {
                    let forever = std::ptr::null::<libc::timespec>();
                    libc::syscall(libc::SYS_futex, &raw const word, libc::FUTEX_WAIT, 0, forever);
                }
                end(Ok::<(), &str>(()))
            }
            Side::Parent(child) => child,
        };
        let waits = format!("{} {:#x}", libc::SYS_futex, (&raw const word).addr());
        let started = Instant::now();
        let mut threads = child.threads();
        while !threads.contains(&waits) && started.elapsed() < NEVER {
            std::thread::yield_now();
            threads = child.threads();
        }
        // SAFETY: the child's id, which was not waited for yet.
        unsafe { libc::kill(child.0, libc::SIGKILL) };
        child.outcome().unwrap();
        assert!(threads.contains(&waits) && threads.contains("rw-p"), "{threads}");
    }
}
