//! Resource usage of threads and of the process, from Linux' /proc.

use std::fs;

/// Clock ticks per second in /proc: USER_HZ is 100 on every architecture that Linux runs on today.
const TICK_NS: f64 = 1e7;

/// CPU time and context switches so far; zeros if /proc does not report them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) user_ns: f64,
    pub(super) system_ns: f64,
    pub(super) switches: u64,
}

impl Usage {
    /// Returns the usage of the calling thread.
    pub(super) fn of_thread() -> Self {
        let switches = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let count = |line: &str| -> Option<u64> {
            line.split_once("ctxt_switches:")?.1.trim().parse().ok()
        };
        Self { switches: switches.lines().filter_map(count).sum(), ..Self::read("thread-self") }
    }

    /// Returns the usage of the process, including kernel threads that work for it.
    pub(super) fn of_process() -> Self {
        Self::read("self")
    }

    fn read(who: &str) -> Self {
        let stat = fs::read_to_string(format!("/proc/{who}/stat")).unwrap_or_default();
        // The name, in parentheses, may contain any character.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map_or(Vec::new(), |(_, rest)| rest.split_whitespace().collect());
        let ticks =
            |at: usize| fields.get(at).and_then(|text| text.parse().ok()).unwrap_or(0.0) * TICK_NS;
        Self { user_ns: ticks(11), system_ns: ticks(12), switches: 0 }
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self {
            user_ns: self.user_ns - before.user_ns,
            system_ns: self.system_ns - before.system_ns,
            switches: self.switches.saturating_sub(before.switches),
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            user_ns: self.user_ns + other.user_ns,
            system_ns: self.system_ns + other.system_ns,
            switches: self.switches + other.switches,
        }
    }
}
