//! Explains why the kernel refused a request, from limits, capabilities, affinities and control groups.
//!
//! One errno can have several causes: EPERM for a scheduling policy has six. A cause is reported only if its
//! facts could be read and the kernel's rule says that they suffice. Otherwise the plain error is reported.

use std::fs;
use std::path::Path;

use coreshard_topology::{CpuSet, Topology, Usable};

use super::cpu_mask::affinity_of;
use super::limits::{CAP_SYS_NICE, has_capability, nice_of, number, rt_runtime, soft_limit};
use crate::{Policy, ThreadId};

/// Facts that the kernel's rules for a thread's policy and nice value depend on. `None` means that a fact
/// could not be read.
#[derive(Clone, Debug, Default)]
struct Facts {
    has_sys_nice: bool,
    /// Whether the process is in the initial user namespace. Only there are capabilities valid for the
    /// machine.
    in_first_namespace: Option<bool>,
    /// RLIMIT_RTPRIO and RLIMIT_NICE; `None` for no limit.
    rtprio: Option<u64>,
    nice_limit: Option<u64>,
    nice: Option<i32>,
    affinity: Option<CpuSet>,
    online: Option<CpuSet>,
    /// The time that real-time threads may use of each CPU, and the period, both in microseconds.
    rt_runtime: Option<(i64, i64)>,
    /// The process's control group (version 1), and its real-time runtime.
    group_runtime: Option<(String, i64)>,
}

impl Facts {
    fn of(ThreadId(thread): ThreadId) -> Self {
        let thread = thread as libc::pid_t;
        Self {
            has_sys_nice: has_capability(CAP_SYS_NICE),
            in_first_namespace: fs::read_to_string("/proc/self/uid_map")
                .ok()
                .map(|map| map.split_whitespace().collect::<Vec<_>>() == ["0", "0", "4294967295"]),
            rtprio: soft_limit(libc::RLIMIT_RTPRIO),
            nice_limit: soft_limit(libc::RLIMIT_NICE),
            nice: nice_of(thread),
            affinity: affinity_of(thread).ok(),
            online: online(),
            rt_runtime: rt_runtime(),
            group_runtime: group_runtime(),
        }
    }
}

fn online() -> Option<CpuSet> {
    fs::read_to_string("/sys/devices/system/cpu/online").ok()?.trim().parse().ok()
}

/// Returns the real-time runtime of the process's control group, if the kernel has CONFIG_RT_GROUP_SCHED.
fn group_runtime() -> Option<(String, i64)> {
    let has_cpu = |list: &str| list.split(',').any(|name| name == "cpu");
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        has_cpu(controllers).then(|| path.to_owned())
    })?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let point = mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, point, "cgroup", options, ..] = fields[..] else { return None };
        has_cpu(options).then(|| point.to_owned())
    })?;
    let folder = Path::new(&point).join(group.trim_start_matches('/'));
    Some((group, number(&folder.join("cpu.rt_runtime_us"))?))
}

/// Explains why a thread was not given `asked`. Thread 0 is the calling thread.
pub(super) fn of_policy(asked: Policy, errno: Option<i32>, thread: ThreadId) -> Option<String> {
    policy_cause(asked, errno?, &Facts::of(thread))
}

/// Applies the rules of sched(7), in the order of the kernel's `__sched_setscheduler`.
fn policy_cause(asked: Policy, errno: i32, facts: &Facts) -> Option<String> {
    let is_deadline = matches!(asked, Policy::Deadline { .. });
    if is_deadline && errno == libc::EBUSY {
        // sched_setattr(2) documents no other reason for EBUSY.
        let limit = facts.rt_runtime.filter(|(runtime, _)| *runtime >= 0);
        return Some(limit.map_or_else(
            || "other SCHED_DEADLINE threads have reserved the CPUs' time".to_owned(),
            |(runtime, period)| {
                format!(
                    "SCHED_DEADLINE threads may reserve {runtime} of {period} µs of each CPU \
                     (kernel.sched_rt_runtime_us), and too much of that is already reserved"
                )
            },
        ));
    }
    if errno != libc::EPERM {
        return None;
    }
    let highest = facts.rtprio.unwrap_or(u64::MAX);
    match asked.priority() {
        Some(priority) if !facts.has_sys_nice && u64::from(priority) > highest => {
            return Some(format!(
                "RLIMIT_RTPRIO is {highest}, and {priority} or CAP_SYS_NICE is needed"
            ));
        }
        None if is_deadline && !facts.has_sys_nice => {
            return Some("CAP_SYS_NICE is needed".to_owned());
        }
        _ => {}
    }
    if is_deadline
        && let (Some(affinity), Some(online)) = (&facts.affinity, &facts.online)
        && !online.is_subset(affinity)
    {
        return Some(format!(
            "the thread may run on CPUs {affinity}, and the kernel gives this policy only to threads that may run \
             on all CPUs, which are {online}, or on all of a cpuset that is a partition"
        ));
    }
    if let (Some((group, 0)), Some(_)) = (&facts.group_runtime, asked.priority()) {
        return Some(format!(
            "the control group {group:?} has no real-time runtime (cpu.rt_runtime_us is 0)"
        ));
    }
    if is_deadline && facts.rt_runtime.is_some_and(|(runtime, _)| runtime == 0) {
        return Some("kernel.sched_rt_runtime_us is 0".to_owned());
    }
    if facts.has_sys_nice && facts.in_first_namespace == Some(false) {
        return Some(
            "this process has CAP_SYS_NICE only in its own user namespace, where it has no effect"
                .to_owned(),
        );
    }
    None
}

/// Explains why the calling thread was not given a nice value.
pub(super) fn of_nice(asked: i8, errno: Option<i32>) -> Option<String> {
    nice_cause(asked, errno?, &Facts::of(ThreadId(0)))
}

/// setpriority(2) returns EACCES for a value lower than RLIMIT_NICE allows.
fn nice_cause(asked: i8, errno: i32, facts: &Facts) -> Option<String> {
    // No limit allows all values, from −20 up.
    let lowest = 20 - i64::try_from(facts.nice_limit.unwrap_or(40)).unwrap_or(40);
    let current = facts.nice?;
    (errno == libc::EACCES
        && !facts.has_sys_nice
        && i32::from(asked) < current
        && i64::from(asked) < lowest)
        .then(|| {
            format!(
                "the thread has nice {current}, and RLIMIT_NICE allows {lowest} and higher; a higher limit or \
                 CAP_SYS_NICE is needed"
            )
        })
}

/// Explains why a thread cannot be restricted to `asked`.
pub(super) fn of_affinity(asked: &CpuSet) -> Option<String> {
    if let Some(online) = online()
        && !asked.is_subset(&online)
    {
        return Some(format!("CPUs {} are not online", asked - &online));
    }
    let machine = Topology::host().ok()?;
    let usable = Usable::host(&machine).ok()?;
    let outside = usable.cpusets().iter().find(|cpuset| !asked.is_subset(&cpuset.cpus))?;
    Some(format!("the process's cpuset has CPUs {}", outside.cpus))
}

/// Explains why memory cannot be locked, if the limit is below `needed_bytes` and applies to the calling
/// thread.
pub(super) fn of_memory_lock(needed_bytes: u64, limit_bytes: Option<u64>) -> Option<String> {
    let limit = limit_bytes.filter(|limit| *limit < needed_bytes)?;
    Some(format!(
        "RLIMIT_MEMLOCK is {limit} bytes, and {needed_bytes} bytes or CAP_IPC_LOCK are needed"
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DEADLINE: Policy =
        Policy::Deadline { runtime: Duration::from_millis(1), period: Duration::from_millis(10) };

    fn cpus(text: &str) -> Option<CpuSet> {
        Some(text.parse().unwrap())
    }

    /// A process with all privileges, on a machine with four CPUs.
    fn root() -> Facts {
        Facts {
            has_sys_nice: true,
            in_first_namespace: Some(true),
            rtprio: Some(0),
            nice_limit: Some(0),
            nice: Some(0),
            affinity: cpus("0-3"),
            online: cpus("0-3"),
            rt_runtime: Some((950_000, 1_000_000)),
            group_runtime: Some(("/".to_owned(), 950_000)),
        }
    }

    #[test]
    fn a_cause_is_named_if_its_facts_are_there_and_no_other() {
        let user = Facts { has_sys_nice: false, ..root() };
        let pinned = Facts { affinity: cpus("1"), ..root() };
        let in_group = Facts { group_runtime: Some(("/jobs".to_owned(), 0)), ..root() };
        let switched_off = Facts { rt_runtime: Some((0, 1_000_000)), ..root() };
        let in_container = Facts { in_first_namespace: Some(false), ..root() };
        let limited = Facts { rtprio: Some(60), ..user.clone() };
        let unread = Facts { has_sys_nice: true, ..Facts::default() };
        let fifo = Policy::Fifo(50);
        for (asked, errno, facts, says) in [
            (
                fifo,
                libc::EPERM,
                &user,
                Some("RLIMIT_RTPRIO is 0, and 50 or CAP_SYS_NICE is needed"),
            ),
            (DEADLINE, libc::EPERM, &user, Some("CAP_SYS_NICE is needed")),
            (DEADLINE, libc::EPERM, &limited, Some("CAP_SYS_NICE is needed")),
            (DEADLINE, libc::EPERM, &pinned, Some("may run on CPUs 1, and the kernel")),
            (fifo, libc::EPERM, &in_group, Some("\"/jobs\" has no real-time runtime")),
            (DEADLINE, libc::EPERM, &switched_off, Some("kernel.sched_rt_runtime_us is 0")),
            (fifo, libc::EPERM, &in_container, Some("in its own user namespace")),
            (DEADLINE, libc::EBUSY, &root(), Some("may reserve 950000 of 1000000 µs of each CPU")),
            // The facts allow it, so the cause is unknown.
            (fifo, libc::EPERM, &root(), None),
            (fifo, libc::EPERM, &pinned, None),
            (fifo, libc::EPERM, &limited, None),
            (DEADLINE, libc::EPERM, &root(), None),
            (DEADLINE, libc::EPERM, &unread, None),
            (fifo, libc::EBUSY, &user, None),
            (fifo, libc::EINVAL, &user, None),
            (DEADLINE, libc::EINVAL, &pinned, None),
            (Policy::Normal, libc::EPERM, &user, None),
        ] {
            let cause = policy_cause(asked, errno, facts);
            let matches = match says {
                Some(says) => cause.as_ref().is_some_and(|cause| cause.contains(says)),
                None => cause.is_none(),
            };
            assert!(matches, "{asked} {errno}: {cause:?}, expected {says:?}");
        }
    }

    #[test]
    fn nice_values_are_explained_by_their_limit_alone() {
        let user = Facts { has_sys_nice: false, ..root() };
        let cause = nice_cause(-20, libc::EACCES, &user).unwrap();
        assert!(cause.contains("nice 0, and RLIMIT_NICE allows 20 and higher"), "{cause}");
        let allowed = Facts { nice_limit: Some(40), ..user.clone() };
        for (asked, errno, facts) in [
            (-20, libc::EACCES, &root()),
            (-20, libc::EACCES, &allowed),
            (-20, libc::EPERM, &user),
            (5, libc::EACCES, &user),
        ] {
            assert_eq!(nice_cause(asked, errno, facts), None, "{asked} {errno}");
        }
    }

    #[test]
    fn memory_locks_are_explained_by_a_limit_that_is_too_low() {
        assert!(of_memory_lock(100, Some(64)).unwrap().contains("is 64 bytes, and 100 bytes"));
        assert_eq!(of_memory_lock(100, Some(100)), None);
        assert_eq!(of_memory_lock(100, None), None);
    }
}
