//! Who waits inside an item without having said so, and who hogs a CPU.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform, Time};

use super::seen::Seen;
use super::slot::WorkerSlot;
use super::state::{Blocked, State};
use crate::insight::trouble::Watchdog;

/// Time between two scans. Two of them pass before a worker is presumed blocked.
pub(super) const SCAN_EVERY: Duration = Duration::from_millis(4);
/// A worker that used less than this share of the time between two scans waits for something.
const IDLE_SHARE: u32 = 8;
/// What a scan makes of a worker.
pub(super) enum Verdict {
    Fine,
    Blocked,
    Hog { cpu_time: Duration, is_news: bool },
}

impl<P: Platform> State<P> {
    /// Workers that have a CPU, or would if there were enough.
    pub(super) fn running(&self) -> usize {
        let hogs = self.blocked_as.iter().filter(|blocked| **blocked == Blocked::Hog).count();
        self.active() + hogs
    }

    /// Blocked: it was inside the same item at the last scan too, and used next to no CPU time
    /// since. A hog: it has used more CPU time than may be since it was first seen there.
    pub(super) fn judge(
        &mut self,
        slot: &WorkerSlot<P>,
        worker: usize,
        scan: u64,
        now: Time,
        watch: &Watchdog,
    ) -> Verdict {
        if self.rests(worker) || self.blocked_as[worker] != Blocked::No {
            return Verdict::Fine;
        }
        let (begun, cpu_time) = (slot.begun.load(Relaxed), slot.cpu_time());
        let before = self.cold().seen[worker];
        let is_same = before.begun == begun && before.since.is_some();
        let since = if is_same { before.since } else { cpu_time.map(|cpu_time| (now, cpu_time)) };
        let hog_told = is_same && before.hog_told;
        self.cold_mut().seen[worker] = Seen { begun, cpu_time, scan, since, hog_told };
        let (Some(cpu_before), Some(cpu_now)) = (before.cpu_time, cpu_time) else {
            return Verdict::Fine;
        };
        if !is_same {
            return Verdict::Fine;
        }
        if before.scan + 1 == scan
            && cpu_now.saturating_sub(cpu_before) < SCAN_EVERY / IDLE_SHARE
            // On a machine that is full, a worker that would run may not have been let.
            && P::is_waiting(slot.thread_id())
        {
            return Verdict::Blocked;
        }
        let used = cpu_now.saturating_sub(since.map_or(cpu_now, |(_, at_first)| at_first));
        match watch.cpu_intensive {
            Some(threshold) if used >= threshold => {
                self.cold_mut().seen[worker].hog_told = true;
                // Who has begun nothing yet has no function to be told of.
                Verdict::Hog { cpu_time: used, is_news: begun != 0 && !hog_told }
            }
            _ => Verdict::Fine,
        }
    }
}
