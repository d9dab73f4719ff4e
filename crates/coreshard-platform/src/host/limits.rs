//! Limits, capabilities, privileges and nice values, as they are.
#![allow(unsafe_code)]

use std::fs;
use std::path::Path;

pub(super) const CAP_IPC_LOCK: u32 = 14;
pub(super) const CAP_SYS_NICE: u32 = 23;

/// The type that names a limit: glibc has an unsigned type of its own for it, musl takes an int.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// The limit in force; `None` for no limit.
pub(super) fn soft_limit(resource: Resource) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is live for the kernel to fill.
    let rc = unsafe { libc::getrlimit(resource, &raw mut limit) };
    (rc == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Whether the calling thread has a capability; false if that cannot be told.
pub(super) fn has_capability(number: u32) -> bool {
    field_of("/proc/thread-self/status", "CapEff:")
        .and_then(|text| u64::from_str_radix(&text, 16).ok())
        .is_some_and(|set| set & (1 << number) != 0)
}

/// The number in a file.
pub(super) fn number(path: &Path) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The part of a CPU that real-time threads may have, in microseconds: of how many.
pub(super) fn rt_runtime() -> Option<(i64, i64)> {
    let kernel = |name: &str| number(&Path::new("/proc/sys/kernel").join(name));
    kernel("sched_rt_runtime_us").zip(kernel("sched_rt_period_us"))
}

/// The first word after `key`, at the beginning of a line of a file.
pub(super) fn field_of(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next().map(str::to_owned)
}

/// A thread's nice value.
pub(super) fn nice_of(thread: libc::pid_t) -> Option<i32> {
    // SAFETY: plain integers. The raw call answers 20 − nice, so that no answer looks like an error.
    let answer = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, thread) };
    (answer > 0).then(|| 20 - answer as i32)
}

/// Whether the process was started with rights that its caller does not have: set-user-id, set-group-id or
/// file capabilities. Its environment is then the word of somebody with fewer rights, and is not to be
/// believed if it names files; see `secure_getenv(3)`.
#[must_use]
pub fn is_privileged() -> bool {
    // SAFETY: the call reads what the kernel gave to the process at its start, and nothing else.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
