//! A scan of a pool: who waits inside an item without having said so, who hogs a CPU, and whether the
//! pool gets on.
//!
//! A worker that was inside the same item at two scans, used next to no CPU time in between, and
//! is not waiting for a CPU, while items wait and nobody else may run, is *presumed* blocked: from then on it does not count,
//! and another worker is woken or started. When it comes back and looks for work, it counts again.
//!
//! Where a worker could not be started, for want of memory or since a CPU of the pod went offline, and
//! items wait that one more worker might run, each scan tries again. While nobody runs or sleeps, the next
//! look comes whether items wait or not.
//!
//! A scan also sees whether a rule of the pool's is broken, which is a bug of ours; where work may wait for ever,
//! it sees to it that somebody comes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform, SpawnError, Time};

use super::hogs::{MayHog, Verdict};
use super::pool::{Pool, PoolGuard};
use super::seen::Progress;
use super::state::{Blocked, State};
use crate::insight::trouble::{NoWorker, PoolReport, RunningItem, Trouble, Watchdog};

/// Looks between two at which CPU time is charged to queues: a system call a worker.
const CHARGE_EVERY: u64 = 4;

/// What a scan of a pool found.
#[derive(Default)]
pub(super) struct Findings {
    /// Workers that have a CPU, or would if there were enough; before the scan.
    pub(super) running: usize,
    pub(super) is_busy: bool,
    pub(super) stalled_for: Option<Duration>,
    pub(super) hogs: Vec<(&'static str, Duration)>,
    pub(super) refused: Option<u64>,
    /// A rule that was broken, and how the pool looked then.
    pub(super) broken: Option<(&'static str, String)>,
}

impl<P: Platform> Pool<P> {
    /// Finds replacements for workers that wait inside an item or hog a CPU, and for those that
    /// could not be started.
    pub(super) fn scan(
        self: &Arc<Self>,
        scan: u64,
        watch: &Watchdog,
        hogs: &mut MayHog,
    ) -> Findings {
        let mut found = Findings::default();
        if scan.is_multiple_of(CHARGE_EVERY) {
            self.charge();
        }
        let mut state = self.lock();
        found.running = state.running();
        if let Some(rule) = state.broken_rule() {
            found.broken = state.note_broken().then(|| (rule, state.books()));
            if state.is_stranded() {
                let left = state.has_work(self);
                let kick = state.pass_on(self, left);
                self.unlock_and_kick(state, kick);
                found.is_busy = true;
                return found;
            }
        }
        if let Some(kick) = self.tend_reactor(&mut state) {
            self.unlock_and_kick(state, Some(kick));
            found.is_busy = true;
            return found;
        }
        if state.active() == 0 && state.idle_count() > 0 && !state.has_hogs() {
            state.cold_mut().progress = Progress::default();
            return found;
        }
        let has_work = state.has_work(self) || self.has_mail();
        // Whoever has nobody to be told of the next item has the monitor.
        let is_unattended = state.is_unattended();
        found.is_busy = has_work || state.active() > 0 || state.has_hogs() || is_unattended;
        let now = P::now();
        found.stalled_for = state.note_progress(self, has_work, now, watch.stall_after);
        if self.is_team() && is_unattended {
            found.is_busy = has_work;
            let stood_still = state.stands_still_for(now);
            drop(state);
            self.call_last_resort(stood_still);
            return found;
        }
        let may_run_one_more = state.active() < self.place.limit && state.idle_count() == 0;
        if may_run_one_more && !self.is_team() && state.has_work_for(self, 1) {
            // Whoever saw to it could not start a worker, and nobody may come by for long.
            let spare = state.reserve_spare(self);
            found.refused = state.spare_refused.then_some(state.cold().counters.refused_workers);
            let kick = state.call_rescuer();
            self.unlock_and_kick(state, kick);
            if let Some(spare) = spare {
                self.start_spare(spare);
            }
            return found;
        }
        if state.can_kick(self)
            && state.kicked.is_none()
            && (state.has_work_for(self, 1) || self.has_mail())
        {
            // Whoever left it behind saw nobody to send, or a kick on its way that took something else.
            let kick = state.pass_on(self, true);
            self.unlock_and_kick(state, kick);
            return found;
        }
        if self.has_forks() {
            drop(state);
            // Whoever fell asleep in another pool just before may have been missed.
            self.call_anybody();
            state = self.lock();
        }
        let has_work = state.has_work(self) || self.has_mail();
        let items_wait = state.items_wait(self) || self.has_mail();
        if has_work && !items_wait && !state.may_steal(self, 1) {
            // Forked jobs wait, and the hogs hold all places. They take the jobs back, unless they spin for one another.
            if hogs.take(false, state.stands_still_for(now), watch) {
                state.allow_one_more_thief();
                self.call_stand_in(state);
                return found;
            }
        }
        // Nobody stands in for a member: that one is blocked is told by those who wait for it.
        let is_full =
            state.active() >= self.place.limit || self.is_team() && state.idle_count() == 0;
        if !is_full || !has_work {
            return found;
        }
        // Those that have not looked for an item for long, and count among those that run.
        let (mut counted, mut starved) = (Vec::new(), Vec::new());
        for worker in 0..state.cold().threads.len() {
            let blocked = match state.judge(self.slot(worker), worker, scan, now, watch) {
                Verdict::Fine => continue,
                Verdict::Long { is_starved } => {
                    counted.push(worker);
                    starved.extend(is_starved.then_some(worker));
                    continue;
                }
                Verdict::Blocked if !state.may_presume(self, worker, now) => continue,
                Verdict::Blocked => {
                    state.cold_mut().counters.presumed_blocked += 1;
                    state.cold_mut().counters.hand_overs += 1;
                    Blocked::Presumed
                }
                Verdict::Hog { cpu_time, is_news } => {
                    if is_news && items_wait {
                        state.cold_mut().seen[worker].hog_told = true;
                        self.count_hog(worker);
                        state.cold_mut().counters.cpu_hogs += 1;
                        found.hogs.push((self.slot(worker).function(), cpu_time));
                    }
                    if !hogs.take(items_wait, state.stands_still_for(now), watch) {
                        counted.push(worker);
                        continue;
                    }
                    Blocked::Hog
                }
            };
            state.set_blocked(worker, blocked);
            if !items_wait {
                state.allow_one_more_thief();
            }
            self.slot(worker).is_called_back.store(1, Relaxed);
            self.call_stand_in(state);
            if blocked == Blocked::Presumed {
                self.count_hand_over(worker);
            }
            state = self.lock();
        }
        if items_wait && !counted.is_empty() && !self.is_team() {
            let expedited = state.expedite(self, &starved);
            if expedited > 0 {
                // More may run than the limit, since loans have ended.
                let beyond = state.active().saturating_sub(self.place.limit);
                let places = beyond + expedited;
                counted.into_iter().take(places).for_each(|hog| state.lend_place(hog));
            }
            for _ in 0..expedited {
                self.call_stand_in(state);
                state = self.lock();
            }
        }
        found
    }

    /// Wakes or starts a worker that takes the place of another one.
    fn call_stand_in(self: &Arc<Self>, mut state: PoolGuard<'_, P>) {
        let (kick, spare) = state.find_stand_in(self);
        self.unlock_and_kick(state, kick);
        if let Some(spare) = spare {
            self.start_spare(spare);
        }
    }

    /// A worker could not be started: tells of it, less and less often.
    #[cold]
    pub(super) fn tell_of_missing(&self, error: &SpawnError) {
        let failures = self.lock().cold().counters.failed_worker_starts;
        if failures.is_power_of_two() {
            let (pod, reason) = (self.place.pod, format!("{error} (failure {failures})"));
            self.monitor.tell(Trouble::NoWorker(NoWorker { pod, reason }));
        }
    }

    /// What the pool is at.
    pub(super) fn report(&self) -> PoolReport {
        let stats = self.stats();
        let mut state = self.lock();
        let now = P::now();
        let running = (0..state.cold().threads.len())
            .filter(|worker| !state.rests(*worker))
            .filter_map(|worker| {
                let slot = self.slot(worker);
                let begun = slot.begun.load(Relaxed);
                let seen = state.cold().seen[worker];
                let since = seen.since.filter(|_| seen.begun == begun);
                (begun != 0).then(|| RunningItem {
                    worker,
                    function: slot.function(),
                    for_at_least: since.map_or(Duration::ZERO, |(since, _)| now - since),
                    is_blocked: state.blocked_as[worker] != Blocked::No,
                })
            })
            .collect();
        let has_waiting_items = state.has_work(self);
        PoolReport { scope: self.attributes.scope, stats, has_waiting_items, running }
    }
}

impl<P: Platform> State<P> {
    /// True if nobody runs, sleeps, or is on the way: all workers are blocked.
    fn is_unattended(&self) -> bool {
        !self.stopping && self.alive > 0 && self.active() == 0 && self.idle_count() == 0
    }

    /// Counts a rule that was found broken. True if it is to be told of: less and less often.
    fn note_broken(&mut self) -> bool {
        self.cold_mut().broken_rules += 1;
        self.cold().broken_rules.is_power_of_two()
    }

    /// True if the worker sleeps, stands by, leaves, or does not exist.
    pub(super) fn rests(&self, worker: usize) -> bool {
        self.idle.contains(&worker)
            || self.blocked_as[worker] == Blocked::Leaving
            || self.designated == Some(worker)
            || self.is_runner_up(worker)
            || self.cold().free.contains(&worker)
            || self.stands_by(worker)
    }

    /// For how long items wait and none has begun, if that is as long as `stall_after` and was not
    /// told yet.
    fn note_progress(
        &mut self,
        pool: &Pool<P>,
        has_work: bool,
        now: Time,
        stall_after: Option<Duration>,
    ) -> Option<Duration> {
        let threads = self.cold().threads.len();
        let forks_alone = has_work && !self.items_wait(pool) && !pool.has_mail();
        let fingerprint = (0..threads).fold(0_u64, |sum, worker| {
            let slot = pool.slot(worker);
            // Who shares its jobs and takes them back goes on, and what waits then is a part of what it does.
            let forked = if forks_alone { slot.deque.activity() } else { 0 };
            sum.wrapping_add(slot.begun.load(Relaxed)).wrapping_add(forked)
        });
        let before = self.cold().progress;
        if !has_work || before.since.is_none() || before.fingerprint != fingerprint {
            let since = has_work.then_some(now);
            self.cold_mut().progress = Progress { fingerprint, since, told: false };
            return None;
        }
        let stalled_for = now - before.since?;
        if before.told || stalled_for < stall_after? {
            return None;
        }
        self.cold_mut().progress.told = true;
        Some(stalled_for)
    }
}
