//! Child processes that inherit from the process instead of from the thread that starts them.
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::inherited::Inherited;

/// Starts child processes that are scheduled as the process is.
///
/// On Linux a child inherits the CPUs, nice value and scheduling policy of the *thread* that starts it. A
/// worker of a strict queue may run on one CPU, a worker of a high-priority queue has nice −20, and a
/// thread of a real-time executor is pinned: a compiler or a database that an item starts there would
/// keep that for as long as it runs.
///
/// A `tokio::process::Command` is given it by its `as_std_mut`.
///
/// ```
/// use std::process::Command;
/// use coreshard_platform::ChildCommand;
///
/// let status = Command::new("true").inherit_from_process().status()?;
/// assert!(status.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait ChildCommand {
    /// Gives the child the CPUs, nice value and scheduling policy that the process's main thread has at this
    /// call, rather than those of the thread that starts it. The library's own threads begin with the
    /// same values.
    ///
    /// A value that the kernel does not allow stays as it is inherited. Without CAP_SYS_NICE or
    /// RLIMIT_NICE, a child of a worker with nice 10 keeps that.
    ///
    /// The child is made by fork(2) rather than by vfork(2), as with
    /// [`pre_exec`](CommandExt::pre_exec), so that the call takes longer in a process with much memory.
    fn inherit_from_process(&mut self) -> &mut Self;
}

impl ChildCommand for Command {
    fn inherit_from_process(&mut self) -> &mut Self {
        let attributes = Inherited::for_child();
        // SAFETY: `apply` makes system calls only, and reads memory that was allocated here.
        unsafe {
            self.pre_exec(move || {
                attributes.apply();
                Ok(())
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use coreshard_topology::CpuSet;
    use testing::{Lack, skip};

    use super::*;
    use crate::{Host, HostThread, Platform, Policy, RealTime, ThreadHandle, ThreadSpec};

    /// A child's CPUs, nice value and policy, as /proc has them.
    fn of_child(command: &mut Command) -> (String, String, String) {
        let output = command.arg("/proc/self/status").arg("/proc/self/stat").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let cpus = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        // The fields after the program's name, which is in parentheses; the first of them is the third.
        let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
        (cpus.trim().to_owned(), fields[19 - 3].to_owned(), fields[41 - 3].to_owned())
    }

    /// The children of a thread that `start` starts: a plain one, and one that inherits from the process.
    fn children<E>(
        start: impl FnOnce(Box<dyn FnOnce() + Send>) -> Result<HostThread, E>,
    ) -> Result<[(String, String, String); 2], E> {
        let (say, hear) = mpsc::channel();
        let body = move || {
            let plain = of_child(&mut Command::new("cat"));
            say.send([plain, of_child(Command::new("cat").inherit_from_process())]).unwrap();
        };
        start(Box::new(body))?.join();
        Ok(hear.recv().unwrap())
    }

    #[test]
    fn a_child_of_a_pinned_thread_has_the_process_s_cpus() {
        let cpus = crate::affinity().unwrap();
        let one: CpuSet = cpus.iter().take(1).collect();
        let spec = ThreadSpec { affinity: Some(one.clone()), ..ThreadSpec::default() };
        let [plain, restored] = children(|body| Host::spawn(spec, body)).unwrap();
        assert_eq!((plain.0, restored.0), (one.to_string(), cpus.to_string()));
    }

    #[test]
    fn a_child_of_a_worker_of_high_priority_has_the_process_s_nice_value() {
        let of_process = of_child(&mut Command::new("cat"));
        let spec = ThreadSpec { nice: Some(-20), ..ThreadSpec::default() };
        match children(|body| Host::spawn(spec, body)) {
            Ok([plain, restored]) => {
                assert_eq!((plain.1.as_str(), restored), ("-20", of_process));
            }
            Err(error) => skip(Lack::Root, error),
        }
    }

    #[test]
    fn a_child_of_a_real_time_thread_has_the_process_s_policy() {
        let cpus = crate::affinity().unwrap();
        let one: CpuSet = cpus.iter().take(1).collect();
        let spec = ThreadSpec { affinity: Some(one), ..ThreadSpec::default() };
        match children(|body| Host::spawn_as(spec, Policy::Fifo(3), body)) {
            Ok([_, restored]) => assert_eq!(restored, of_child(&mut Command::new("cat"))),
            Err(error) => skip(Lack::Rt, error),
        }
    }
}
