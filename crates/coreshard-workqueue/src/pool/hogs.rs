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
/// A worker that used less than this share of the threshold in an item that has lasted for longer was given no CPU.
const STARVED_SHARE: u32 = 10;
/// Times the threshold that a pool has begun nothing, before one more hog is replaced than CPUs ask for. Then twice as many for
/// the next one, three times as many for the one after that.
const PATIENT_THRESHOLDS: u32 = 10;
/// The same where forked jobs alone wait: nothing that the hogs' own halves do not come to, unless they spin for one another.
/// Doubled for each further one.
const PATIENT_THRESHOLDS_OF_FORKS: u32 = 500;
/// How often that time is doubled, and the one before the next worker is presumed blocked, where forked jobs alone
/// wait: that one to 8 s.
const MAX_DOUBLINGS: u32 = 10;

/// How many hogs may be replaced in a scan of all pools.
///
/// As many as keep the workers that run, hogs among them, at one more than CPUs. Beyond that, one if a pool has
/// begun nothing for so many times the threshold: its items may wait for one another, and spin. That time grows with each that
/// there is already, so that items which are simply long seldom have one. If forked jobs alone wait, it is the latter
/// alone: they are parts of what the hogs do, and of nothing else.
pub(super) struct MayHog {
    left: usize,
    beyond: u32,
    pub(super) taken: usize,
}

impl MayHog {
    /// For workers that run on so many CPUs.
    pub(super) fn new(running: usize, cpus: usize) -> Self {
        let most = cpus + 1;
        let beyond = running.saturating_sub(most) as u32;
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
            let patience = if items_wait {
                PATIENT_THRESHOLDS * (1 + self.beyond)
            } else {
                PATIENT_THRESHOLDS_OF_FORKS << self.beyond.min(MAX_DOUBLINGS)
            };
            self.taken == 0 && stands_still_for >= threshold.saturating_mul(patience)
        };
        self.taken += usize::from(may);
        may
    }
}

/// What a scan makes of a worker.
pub(super) enum Verdict {
    Fine,
    Blocked,
    /// It has not looked for an item for as long as makes a hog: it has computed for less, or it goes from one part of a
    /// loop to the next inside its item. *Starved* if it has hardly had a CPU in that time.
    Long {
        is_starved: bool,
    },
    Hog {
        cpu_time: Duration,
        is_news: bool,
    },
}

impl<P: Platform> State<P> {
    /// Whether forked jobs are for so many more workers, too. A hog still has its CPU, and whoever stands in for it is there for
    /// items. (A stand-in that stole would be inside a loop for as long as that lasts, and the next item would wait for the
    /// next stand-in.)
    pub(super) fn may_steal(&self, pool: &Pool<P>, more: usize) -> bool {
        self.may_steal_beside_hogs(pool.place.limit, more)
    }

    /// Tells those who share forked jobs whether another thief may come. Called when a worker stops running.
    pub(super) fn tell_of_thieves(&self, pool: &Pool<P>) {
        let refused = u32::from(!self.may_steal(pool, 1));
        if pool.refuses_thieves.load(Relaxed) != refused {
            pool.refuses_thieves.store(refused, Relaxed);
        }
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
        self.cold_mut().seen[worker] = Seen { begun, cpu_time, scan, since, hog_told, ..before };
        let used = match (since, cpu_time) {
            (Some((_, at_first)), Some(now)) if is_same => Some(now.saturating_sub(at_first)),
            _ => None,
        };
        let fine = match watch.cpu_intensive.filter(|it| self.is_long(slot, worker, now, *it)) {
            Some(threshold) => Verdict::Long {
                is_starved: used.is_some_and(|used| used < threshold / STARVED_SHARE),
            },
            None => Verdict::Fine,
        };
        let (Some(cpu_before), Some(cpu_now)) = (before.cpu_time, cpu_time) else {
            return fine;
        };
        if !is_same {
            return fine;
        }
        if before.scan + 1 == scan
            && cpu_now.saturating_sub(cpu_before) < SCAN_EVERY / IDLE_SHARE
            // On a machine that is full, a worker that would run may not have been let.
            && P::is_waiting(slot.thread_id())
        {
            return Verdict::Blocked;
        }
        match (watch.cpu_intensive, used) {
            (Some(threshold), Some(used)) if used >= threshold => {
                // Who has begun nothing yet has no function to be told of.
                Verdict::Hog { cpu_time: used, is_news: begun != 0 && !hog_told }
            }
            _ => fine,
        }
    }

    /// True if the worker has not looked for an item for as long as makes a hog, as far as the monitor has seen.
    fn is_long(
        &mut self,
        slot: &WorkerSlot<P>,
        worker: usize,
        now: Time,
        threshold: Duration,
    ) -> bool {
        let looks = slot.looks.load(Relaxed);
        let seen = &mut self.cold_mut().seen[worker];
        match seen.looks {
            Some((before, since)) if before == looks => now - since >= threshold,
            _ => {
                seen.looks = Some((looks, now));
                false
            }
        }
    }
}
