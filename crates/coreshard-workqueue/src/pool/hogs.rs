//! Who waits inside an item without having said so, and who hogs a CPU.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform, Time};

use super::pool::Pool;
use super::seen::Seen;
use super::slot::WorkerSlot;
use super::state::{Blocked, State};
use crate::insight::trouble::Watchdog;

/// Time between two scans. Two of them pass before a worker is presumed blocked.
pub(super) const SCAN_EVERY: Duration = Duration::from_millis(4);
/// A worker that used less than this share of the time between two scans waits for something.
const IDLE_SHARE: u32 = 8;
/// Times the threshold that a pool has begun nothing, before one more hog is replaced than CPUs ask for.
const PATIENT_THRESHOLDS: u32 = 50;
/// The same where forked jobs alone wait: nothing that the hogs' own halves do not come to, unless they spin for one another.
const PATIENT_THRESHOLDS_OF_FORKS: u32 = 10 * PATIENT_THRESHOLDS;
/// How often such a time is doubled, and the one before the next worker is presumed blocked, where forked jobs alone
/// wait: that one to 8 s.
const MAX_DOUBLINGS: u32 = 10;

/// How many hogs may be replaced in a scan of all pools.
///
/// As many as keep the workers that run, hogs among them, at one more than CPUs. Beyond that, one where a pool has
/// begun nothing for so many times the threshold: its items may wait for one another, and spin. That time
/// doubles with each that there is already, so that items which are simply long hardly ever have one. Where forked jobs
/// alone wait, it is the latter alone: they are parts of what the hogs do, and nobody else's.
pub(super) struct MayHog {
    left: usize,
    beyond: u32,
    pub(super) taken: usize,
}

impl MayHog {
    /// For workers that run on so many CPUs.
    pub(super) fn new(running: usize, cpus: usize) -> Self {
        let most = cpus + 1;
        let beyond = running.saturating_sub(most).min(MAX_DOUBLINGS as usize) as u32;
        Self { left: most.saturating_sub(running), beyond, taken: 0 }
    }

    /// True if one of a pool may be, where items wait or forked jobs alone, and that has begun nothing for so long.
    pub(super) fn take(
        &mut self,
        items_wait: bool,
        stands_still_for: Duration,
        watch: &Watchdog,
    ) -> bool {
        let Some(threshold) = watch.cpu_intensive else { return false };
        let may = if items_wait && self.left > 0 {
            self.left -= 1;
            true
        } else {
            let patience =
                if items_wait { PATIENT_THRESHOLDS } else { PATIENT_THRESHOLDS_OF_FORKS };
            self.taken == 0 && stands_still_for >= threshold * (patience << self.beyond)
        };
        self.taken += usize::from(may);
        may
    }
}

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

    /// For how long items wait and none has begun.
    pub(super) fn stands_still_for(&self, now: Time) -> Duration {
        self.cold().progress.since.map_or(Duration::ZERO, |since| now - since)
    }

    /// Whether a worker that waits for something gets a stand-in. If items wait, at once. If there are forked
    /// jobs alone, later and later: those are parts of what others do, who run them if nobody else does, and
    /// who takes one often waits for the very lock that the first one waits for.
    pub(super) fn may_presume(&mut self, pool: &Pool<P>, worker: usize, now: Time) -> bool {
        if self.items_wait(pool) || pool.has_mail() {
            return true;
        }
        let presumed = |blocked: &&Blocked| **blocked == Blocked::Presumed;
        let presumed = self.blocked_as.iter().filter(presumed).count() as u32;
        let since = self.cold().seen[worker].since;
        since.is_some_and(|(since, _)| {
            now - since >= SCAN_EVERY * (2 << presumed.min(MAX_DOUBLINGS))
        })
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
                // Who has begun nothing yet has no function to be told of.
                Verdict::Hog { cpu_time: used, is_news: begun != 0 && !hog_told }
            }
            _ => Verdict::Fine,
        }
    }
}
