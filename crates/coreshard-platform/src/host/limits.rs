//! The process's limits, capabilities, privileges and nice values.
#![allow(unsafe_code)]

use std::fs;
use std::path::Path;

pub(super) const CAP_IPC_LOCK: u32 = 14;
pub(super) const CAP_SYS_NICE: u32 = 23;

/// The type of a limit's name: a separate unsigned type in glibc, an int in musl.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// Returns the limit in force; `None` for no limit.
pub(super) fn soft_limit(resource: Resource) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is live, and the kernel fills it.
    let rc = unsafe { libc::getrlimit(resource, &raw mut limit) };
    (rc == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Returns whether the calling thread has a capability; false if this cannot be determined.
pub(super) fn has_capability(number: u32) -> bool {
    field_of("/proc/thread-self/status", "CapEff:")
        .and_then(|text| u64::from_str_radix(&text, 16).ok())
        .is_some_and(|set| set & (1 << number) != 0)
}

/// Reads the number in a file.
pub(super) fn number(path: &Path) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the time that real-time threads may use of each CPU, and the period, both in microseconds.
pub(super) fn rt_runtime() -> Option<(i64, i64)> {
    let kernel = |name: &str| number(&Path::new("/proc/sys/kernel").join(name));
    kernel("sched_rt_runtime_us").zip(kernel("sched_rt_period_us"))
}

/// Returns the first word after `key`, at the beginning of a line of a file.
pub(super) fn field_of(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next().map(str::to_owned)
}

/// Returns a thread's nice value.
pub(super) fn nice_of(thread: libc::pid_t) -> Option<i32> {
    // SAFETY: takes only integers. The raw call returns 20 − nice, so no result looks like an error.
    let answer = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, thread) };
    (answer > 0).then(|| 20 - answer as i32)
}

/// Returns whether the process was started with privileges that its caller lacks: set-user-id, set-group-id
/// or file capabilities.
///
/// Its environment then comes from a less privileged user and must not be used to name files; see
/// `secure_getenv(3)`.
#[must_use]
pub fn is_privileged() -> bool {
    // SAFETY: the call only reads a value that the kernel passed to the process at its start.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
