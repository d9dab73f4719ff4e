//! The resource usage of the process so far.

use std::fs;
use std::mem::MaybeUninit;

pub(super) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the call writes a timespec to the given place.
    let failed = unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) };
    assert_eq!(failed, 0, "every Linux has this clock");
    // SAFETY: the call succeeded, so it was written.
    let time = unsafe { time.assume_init() };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time and context switches of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) cpu_ns: u64,
    /// A thread gave up its CPU to wait.
    pub(crate) voluntary_switches: u64,
    /// The kernel took a thread's CPU away.
    pub(crate) involuntary_switches: u64,
}

impl Usage {
    pub(crate) fn now() -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the call writes a rusage to the given place.
        let failed = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
        assert_eq!(failed, 0, "a process may ask for its own usage");
        // SAFETY: the call succeeded, so it was written.
        let usage = unsafe { usage.assume_init() };
        Self {
            // Not rusage's own times: those may be counted in ticks.
            cpu_ns: clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID),
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        }
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns - before.cpu_ns,
            voluntary_switches: self.voluntary_switches - before.voluntary_switches,
            involuntary_switches: self.involuntary_switches - before.involuntary_switches,
        }
    }
}

fn status_field(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim_start_matches(':').split_whitespace().next()?.parse().ok()
}

/// The largest resident memory of the process. From `/proc`: getrusage's value would start at that of the
/// program that started this one.
pub(crate) fn peak_rss_bytes() -> Option<u64> {
    status_field("VmHWM").map(|kib| kib * 1024)
}

/// Threads of the process.
pub(crate) fn threads() -> Option<u64> {
    status_field("Threads")
}

/// CPU time of all threads of the process except the calling one, exact for threads that sleep. None
/// if the kernel does not provide it.
pub(crate) fn cpu_ns_of_other_threads() -> Option<u64> {
    // SAFETY: the call takes nothing and cannot fail.
    let own = unsafe { libc::gettid() }.to_string();
    let mut total_ns = 0;
    for entry in fs::read_dir("/proc/self/task").ok()? {
        let entry = entry.ok()?;
        if entry.file_name().to_str() != Some(&own) {
            let account = fs::read_to_string(entry.path().join("schedstat")).ok()?;
            total_ns += account.split_whitespace().next()?.parse::<u64>().ok()?;
        }
    }
    Some(total_ns)
}
