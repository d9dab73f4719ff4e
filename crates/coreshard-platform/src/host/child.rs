//! Child processes that end with their parent.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::{CommandExt, parent_id};
use std::process::{self, Command};

/// Makes the kernel kill the command's process when the thread that starts it ends, even if SIGKILL ends that thread.
///
/// Destructors do not run in a process that a signal ends, so they cannot end its children. The children of the killed
/// process are not affected.
///
/// # Errors
/// Starting the command fails if the parent ends meanwhile.
pub fn ends_with_parent(command: &mut Command) -> &mut Command {
    let parent = process::id();
    // SAFETY: between fork and exec, `bind_to` only makes system calls.
    unsafe { command.pre_exec(move || bind_to(parent)) }
}

fn bind_to(parent: u32) -> io::Result<()> {
    // SAFETY: the call takes a number.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // The parent may have ended before the call.
    if parent_id() == parent { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;
    use std::thread;

    use super::*;

    #[test]
    fn a_child_is_killed_when_the_thread_that_started_it_ends() {
        let start = || ends_with_parent(Command::new("sleep").arg("1000")).spawn().unwrap();
        let mut child = thread::spawn(start).join().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_child_runs_as_long_as_its_parent() {
        let mut command = Command::new("cat");
        let command = command.arg("/proc/self/stat").stdout(Stdio::piped());
        let output = ends_with_parent(command).output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty());
    }
}
