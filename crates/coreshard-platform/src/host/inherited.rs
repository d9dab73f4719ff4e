//! Gives new threads the attributes of the process instead of their creator's.
//!
//! On Linux a new thread inherits its creator's CPUs, nice value, scheduling policy, signal mask and timer
//! slack. The threads of this library are created by whichever thread needs one (a thread that builds a
//! queue, a worker, the monitor), and serve others. So they get the attributes of the *process*, which are its main
//! thread's: the ones it was started with (nice, chrt, taskset, systemd), and the ones it has set for itself. If a
//! program's main thread blocks a signal first so that one thread can wait for it, all of this library's threads block
//! it.
//!
//! Privileges limit this: without CAP_SYS_NICE, RLIMIT_NICE or RLIMIT_RTPRIO, no thread can raise its own
//! priority. If its creator had a higher nice value than the process, or was given a policy that the thread
//! may not change, the new thread keeps the creator's value.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, ptr};

use coreshard_topology::CpuSet;

use super::cpu_mask::{affinity_of, ask, words_of};
use super::limits::nice_of;
use crate::ThreadId;

/// The calling thread, for calls that take a thread.
const CALLER: libc::pid_t = 0;

/// How long the attributes found last are reused. Threads that create one another do so in quick succession,
/// and each lookup opens a file.
const FRESH: Duration = Duration::from_millis(10);

/// The attributes found last: the process, the time, the attributes.
static LAST: Mutex<Option<(u32, Instant, Arc<Inherited>)>> = Mutex::new(None);

/// The attributes of the process.
pub(super) struct Inherited {
    /// In the form that sched_setaffinity(2) takes.
    cpus: Option<Vec<u64>>,
    nice: Option<i32>,
    policy: Option<(i32, i32)>,
    blocked: Option<libc::sigset_t>,
    timer_slack: Option<u64>,
    /// Whether the main thread's own threads inherit all attributes.
    is_passed_on: bool,
}

/// The attributes that a new thread gets from the process.
pub(super) struct Legacy {
    of_process: Arc<Inherited>,
    /// Whether the thread already has them from its creator.
    is_there: bool,
}

impl Legacy {
    /// Returns true if these are the CPUs that the process may run on.
    pub(super) fn has_cpus(&self, cpus: &CpuSet) -> bool {
        self.of_process.cpus.as_ref() == Some(&words_of(cpus))
    }

    /// Applies the attributes to the calling thread, which is new. `sets_cpus` and `sets_nice` say that the
    /// thread gets its CPUs and nice value otherwise.
    pub(super) fn give(&self, sets_cpus: bool, sets_nice: bool) {
        if !self.is_there {
            self.of_process.give(sets_cpus, sets_nice);
        }
    }
}

impl Inherited {
    /// Returns the attributes that a child process gets.
    pub(super) fn for_child() -> Arc<Self> {
        Self::of_process().of_process
    }

    /// Gives CPUs, nice value and policy to the calling thread. Async-signal-safe: only makes system calls.
    pub(super) fn apply(&self) {
        if let Some(policy) = self.policy {
            set_policy(policy);
        }
        if let Some(nice) = self.nice {
            set_nice(nice);
        }
        if let Some(words) = &self.cpus {
            ask(ThreadId(0), words);
        }
    }

    /// Called by the creator before it creates a thread. An attribute that cannot be read stays inherited.
    /// The main thread, which changes the attributes, sees the current ones; other threads may see values up
    /// to 10 ms old.
    pub(super) fn of_process() -> Legacy {
        // SAFETY: a system call without arguments.
        let here = unsafe { libc::syscall(libc::SYS_gettid) };
        let process = std::process::id();
        let is_main = i64::from(process) == here;
        // In a forked child, the lock may be held by a thread of the parent, so no thread waits for it.
        let mut last = LAST.try_lock().ok();
        if let Some((of, at, known)) = last.as_deref().and_then(Option::as_ref)
            && !is_main
            && *of == process
            && at.elapsed() < FRESH
        {
            return Legacy { of_process: Arc::clone(known), is_there: false };
        }
        let found = Arc::new(Self::look(process as libc::pid_t, is_main));
        if let Some(last) = &mut last {
            **last = Some((process, Instant::now(), Arc::clone(&found)));
        }
        Legacy { is_there: is_main && found.is_passed_on, of_process: found }
    }

    fn look(process: libc::pid_t, is_main: bool) -> Self {
        let policy = policy_of(process);
        Self {
            cpus: affinity_words(process),
            nice: nice_of(process).map(|nice| match policy {
                Some((policy, _)) if is_reset(policy) => nice.max(0),
                _ => nice,
            }),
            policy: policy.map(|(policy, priority)| {
                let plain = policy & !libc::SCHED_RESET_ON_FORK;
                // A deadline cannot be shared by several threads.
                let is_given =
                    !is_reset(policy) || !matches!(plain, libc::SCHED_FIFO | libc::SCHED_RR);
                if is_given && plain != SCHED_DEADLINE {
                    (plain, priority)
                } else {
                    (libc::SCHED_OTHER, 0)
                }
            }),
            blocked: if is_main { blocked_here() } else { blocked_by_main() },
            timer_slack: if is_main { timer_slack() } else { timer_slack_of_main() },
            is_passed_on: policy
                .is_some_and(|(policy, _)| !is_reset(policy) && policy != SCHED_DEADLINE),
        }
    }

    fn give(&self, sets_cpus: bool, sets_nice: bool) {
        if let Some(blocked) = &self.blocked {
            // SAFETY: the set is live, and the old one is not requested.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, blocked, ptr::null_mut()) };
        }
        if let Some(wanted) = self.policy
            && policy_of(CALLER) != Some(wanted)
        {
            set_policy(wanted);
        }
        if let Some(nice) = self.nice.filter(|_| !sets_nice)
            && nice_of(CALLER) != Some(nice)
        {
            set_nice(nice);
        }
        if let Some(words) = self.cpus.as_ref().filter(|_| !sets_cpus)
            && affinity_words(CALLER).as_ref() != Some(words)
        {
            // If refused, the thread keeps its creator's.
            ask(ThreadId(0), words);
        }
        if let Some(slack) = self.timer_slack
            && timer_slack() != Some(slack)
        {
            // SAFETY: takes only integers.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack) };
        }
    }
}

/// Gives the calling thread a policy and its fixed priority, if permitted.
fn set_policy((policy, priority): (i32, i32)) {
    // The raw call, which every C library leaves to the kernel; its parameter is one integer.
    // SAFETY: the parameter is live.
    unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, CALLER, policy, &raw const priority);
    }
}

/// Gives the calling thread a nice value, if permitted.
fn set_nice(nice: i32) {
    // SAFETY: takes only integers.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, CALLER as libc::id_t, nice) };
}

/// Not defined by every libc.
const SCHED_DEADLINE: i32 = 6;

fn is_reset(policy: i32) -> bool {
    policy & libc::SCHED_RESET_ON_FORK != 0
}

/// Returns a thread's policy, with its flag, and its fixed priority.
fn policy_of(thread: libc::pid_t) -> Option<(i32, i32)> {
    let mut priority: libc::c_int = 0;
    // The raw calls, as in `set_policy`.
    // SAFETY: the parameter is live.
    unsafe {
        let policy = libc::syscall(libc::SYS_sched_getscheduler, thread);
        (policy >= 0 && libc::syscall(libc::SYS_sched_getparam, thread, &raw mut priority) == 0)
            .then_some((policy as i32, priority))
    }
}

fn affinity_words(thread: libc::pid_t) -> Option<Vec<u64>> {
    affinity_of(thread).ok().as_ref().map(words_of)
}

fn blocked_here() -> Option<libc::sigset_t> {
    let mut blocked = MaybeUninit::uninit();
    // SAFETY: no new set is given, and the output set is live; it is written if the call returns 0.
    unsafe {
        let rc = libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), blocked.as_mut_ptr());
        (rc == 0).then(|| blocked.assume_init())
    }
}

/// The first two real-time signals belong to the C library. Only the library blocks them, briefly and with
/// all others, while it creates a thread or a process.
const LIBRARYS_OWN: u64 = 0b11 << 31;
/// How often to look again while they are blocked.
const LOOKS: u32 = 100;

/// Returns the signals that the main thread blocks. Only the file system reports this for another thread.
fn blocked_by_main() -> Option<libc::sigset_t> {
    for _ in 0..LOOKS {
        let bits = blocked_in(&fs::read_to_string("/proc/self/status").ok()?)?;
        if bits & LIBRARYS_OWN == 0 {
            let mut blocked = MaybeUninit::uninit();
            // SAFETY: the set is live, `sigemptyset` initialises it, and the numbers are signals.
            return unsafe {
                libc::sigemptyset(blocked.as_mut_ptr());
                for bit in (0..u64::BITS).filter(|bit| bits >> bit & 1 == 1) {
                    libc::sigaddset(blocked.as_mut_ptr(), bit as i32 + 1);
                }
                Some(blocked.assume_init())
            };
        }
        std::thread::yield_now();
    }
    None
}

fn blocked_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn timer_slack() -> Option<u64> {
    // SAFETY: takes only integers.
    let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0_u64, 0_u64, 0_u64, 0_u64) };
    u64::try_from(slack).ok()
}

/// Reads the main thread's timer slack. Only privileged threads may read it.
fn timer_slack_of_main() -> Option<u64> {
    fs::read_to_string("/proc/self/timerslack_ns").ok()?.trim().parse().ok()
}

/// Starts child processes that are scheduled as the process is.
///
/// On Linux a child inherits the CPUs, nice value and scheduling policy of the *thread* that starts it. A
/// worker of a strict queue may run on one CPU, a worker of a high-priority queue has nice −20, and a thread
/// of a real-time executor is pinned. A compiler or a database started by an item there would keep these
/// attributes for as long as it runs.
///
/// For a `tokio::process::Command`, use its `as_std_mut`.
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
    /// call, rather than the values of the thread that starts it. The library's own threads start with the same
    /// values.
    ///
    /// A value that the kernel does not permit stays inherited. Without CAP_SYS_NICE or RLIMIT_NICE, a child
    /// of a worker with nice 10 keeps nice 10.
    ///
    /// The child is created by fork(2) rather than vfork(2), as with [`pre_exec`](CommandExt::pre_exec). The
    /// call therefore takes longer in a process with much memory.
    fn inherit_from_process(&mut self) -> &mut Self;
}

impl ChildCommand for Command {
    fn inherit_from_process(&mut self) -> &mut Self {
        let attributes = Inherited::for_child();
        // SAFETY: `apply` only makes system calls, and reads memory that was allocated here.
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

    #[test]
    fn the_mask_is_read_from_the_status() {
        let status = "Name:\tx\nSigPnd:\t0000000000000000\nSigBlk:\t0000000000010002\nSigIgn:\t0\n";
        assert_eq!(blocked_in(status), Some(0x1_0002));
        assert_eq!(blocked_in("Name:\tx\n"), None);
        assert_eq!(blocked_in("SigBlk:\tx\n"), None);
    }

    #[test]
    fn what_the_process_has_is_told() {
        let process = Inherited::of_process().of_process;
        assert!(process.cpus.is_some() && process.nice.is_some() && process.policy.is_some());
        assert!(process.blocked.is_some());
    }

    /// Returns a child's CPUs, nice value and policy, as /proc shows them.
    fn of_child(command: &mut Command) -> (String, String, String) {
        let output = command.arg("/proc/self/status").arg("/proc/self/stat").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let cpus = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        // Fields after the program's name, which is in parentheses. The first of them is field 3.
        let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
        (cpus.trim().to_owned(), fields[19 - 3].to_owned(), fields[41 - 3].to_owned())
    }

    /// Returns two children of a thread created by `start`: a plain one, and one that inherits from the
    /// process.
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
