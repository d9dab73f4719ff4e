//! A scan of a pool: which workers wait inside an item without having declared it, which hog a CPU, and whether the
//! pool makes progress.
//!
//! A worker is *presumed* blocked if it was inside the same item at two scans, used next to no CPU time in between, and
//! does not wait for a CPU, while items wait and no other worker may run. From then on it does not count,
//! and another worker is woken or started. When it next looks for work, it counts again.
//!
//! A worker start may fail for want of memory, or because a CPU of the pod went offline. If items wait that one more worker
//! could run, each scan tries again. While no worker runs or sleeps, the next scan follows whether items wait or not.
//!
//! A scan also checks the pool's invariants. A broken one is a bug in Coreshard; if work may wait for ever,
//! the scan wakes a worker.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform, Time};

use crate::insight::diagnostic::{PoolReport, RunningItem, Watchdog};
use crate::pool::idle_workers::Kick;
use crate::pool::pool::{Pool, PoolGuard};
use crate::pool::roster::Blocked;
use crate::pool::state::State;
use crate::pool::team;

/// Time between two scans. Two of them pass before a worker is presumed blocked.
pub(super) const SCAN_EVERY: Duration = Duration::from_millis(4);
/// Every how many scans CPU time is charged to queues: that costs one system call per worker.
const CHARGE_EVERY: u64 = 4;
/// A worker that used less than this share of the time between two scans waits for something.
const IDLE_SHARE: u32 = 8;
/// A worker that used less than this share of the threshold, in an item that has lasted longer than it, was given no CPU.
const STARVED_SHARE: u32 = 10;
/// How many thresholds without a begun item until one hog more than the CPUs justify is replaced. Twice as many for
/// the next one, three times as many for the one after that.
const PATIENT_THRESHOLDS: u32 = 10;
/// The same if only forked jobs wait. The hogs will run those themselves, unless they spin for one another.
/// Doubled for each further hog.
const PATIENT_THRESHOLDS_OF_FORKS: u32 = 500;
/// How often that time is doubled, and the time before the next worker is presumed blocked, if only forked jobs
/// wait. The latter reaches 8 s.
const MAX_DOUBLINGS: u32 = 10;

/// Observations of a worker in a scan.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    begun: u64,
    cpu_time: Option<Duration>,
    scan: u64,
    /// When it was first seen in that item, and with how much CPU time.
    since: Option<(Time, Duration)>,
    hog_reported: bool,
    /// How often it had looked for items, and when that was first seen.
    looks: Option<(u32, Time)>,
}

/// Whether a pool makes progress.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Changes with every item that a worker begins; if only forked jobs wait, with their stacks as well.
    fingerprint: u64,
    /// Since when it has not changed while items wait.
    since: Option<Time>,
    reported: bool,
}

/// Observations of a pool that the monitor keeps from one scan to the next.
#[derive(Default)]
pub(in crate::pool) struct Observations {
    /// By worker index.
    workers: Vec<Seen>,
    progress: Progress,
    /// How often an invariant was found broken.
    broken_rules: u64,
}

impl Observations {
    fn of(&mut self, worker: usize) -> &mut Seen {
        if worker >= self.workers.len() {
            self.workers.resize(worker + 1, Seen::default());
        }
        &mut self.workers[worker]
    }

    /// How long items have waited without one beginning.
    fn stands_still_for(&self, now: Time) -> Duration {
        self.progress.since.map_or(Duration::ZERO, |since| now - since)
    }

    /// Records whether the pool has work. Returns how long it has stood still, if that is at least `stall_after` and was not
    /// reported yet.
    fn note_progress(
        &mut self,
        fingerprint: u64,
        has_work: bool,
        now: Time,
        stall_after: Option<Duration>,
    ) -> Option<Duration> {
        let before = &mut self.progress;
        if !has_work || before.since.is_none() || before.fingerprint != fingerprint {
            let since = has_work.then_some(now);
            *before = Progress { fingerprint, since, reported: false };
            return None;
        }
        let stalled_for = now - before.since?;
        if before.reported || stalled_for < stall_after? {
            return None;
        }
        before.reported = true;
        Some(stalled_for)
    }
}

/// How many hogs may be replaced in a scan of all pools.
///
/// As many as keep the running workers, hogs included, at one more than there are CPUs. Beyond that, one if a pool has
/// begun nothing for a multiple of the threshold: its items may spin for one another. That multiple grows with each such
/// replacement, so that items which are merely long seldom get one. If only forked jobs wait, the first rule does not apply:
/// they are subtasks of the hogs, and of nothing else.
pub(in crate::pool) struct MayHog {
    left: usize,
    beyond: u32,
    pub(super) taken: usize,
}

impl MayHog {
    /// For `running` workers on `cpus` CPUs.
    pub(in crate::pool) fn new(running: usize, cpus: usize) -> Self {
        let most = cpus + 1;
        let beyond = running.saturating_sub(most) as u32;
        Self { left: most.saturating_sub(running), beyond, taken: 0 }
    }

    /// Takes a replacement, if one is permitted in a pool that has begun nothing for this long while items, or only forked
    /// jobs, wait.
    fn take(&mut self, items_wait: bool, stands_still_for: Duration, watch: &Watchdog) -> bool {
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

/// The conclusion of a scan about a worker.
enum Verdict {
    Fine,
    /// It was inside the same item at the last scan as well, and used next to no CPU time since.
    Blocked,
    /// It has not looked for an item for the hog threshold: it has computed for less, or it goes from one piece of a
    /// loop to the next inside its item. *Starved* if it has hardly had a CPU in that time.
    Long {
        is_starved: bool,
    },
    /// It has used more CPU time than the threshold since it was first seen there.
    Hog {
        cpu_time: Duration,
        is_news: bool,
    },
}

/// The findings of a scan of a pool.
#[derive(Default)]
pub(in crate::pool) struct Findings {
    /// Workers that had a CPU before the scan, or would have if there were enough.
    pub(super) running: usize,
    pub(super) is_busy: bool,
    pub(super) stalled_for: Option<Duration>,
    pub(super) hogs: Vec<(&'static str, Duration)>,
    pub(super) refused: Option<u64>,
    /// A broken invariant, and the pool's state at that time.
    pub(super) broken: Option<(&'static str, String)>,
}

/// Actions on the findings, taken without the lock.
#[derive(Default)]
struct Remedy {
    kick: Option<Kick>,
    spare: Option<usize>,
    /// A member of a team that has stood still for this long must run any job it finds.
    last_resort: Option<Duration>,
}

impl Remedy {
    fn kick(kick: Option<Kick>) -> Self {
        Self { kick, ..Self::default() }
    }
}

/// One scan of one pool.
struct Scan<'scan, P: Platform> {
    pool: &'scan Arc<Pool<P>>,
    number: u64,
    watch: &'scan Watchdog,
    seen: &'scan mut Observations,
    hogs: &'scan mut MayHog,
    now: Time,
    found: Findings,
}

/// Finds replacements for workers that wait inside an item, hog a CPU or could not be started.
pub(in crate::pool) fn scan<P: Platform>(
    pool: &Arc<Pool<P>>,
    number: u64,
    watch: &Watchdog,
    seen: &mut Observations,
    hogs: &mut MayHog,
) -> Findings {
    if number.is_multiple_of(CHARGE_EVERY) {
        pool.accounts.charge(&pool.slots);
    }
    let mut state = pool.lock_state();
    let found = Findings { running: state.running(), ..Findings::default() };
    let mut scan = Scan { pool, number, watch, seen, hogs, now: P::now(), found };
    match scan.first_remedy(&mut state) {
        Some(Remedy { last_resort: Some(stood_still), .. }) => {
            drop(state);
            team::call_last_resort(pool, stood_still);
        }
        Some(remedy) => scan.apply(state, remedy),
        None => scan.replace_workers(state),
    }
    scan.found
}

impl<'scan, P: Platform> Scan<'scan, P> {
    fn apply(&self, state: PoolGuard<'scan, P>, Remedy { kick, spare, .. }: Remedy) {
        self.pool.unlock_and_kick(state, kick);
        if let Some(spare) = spare {
            self.pool.start_spare(spare);
        }
    }

    /// Checks that need no look at each worker. Returns `None` if they find nothing.
    fn first_remedy(&mut self, state: &mut State<P>) -> Option<Remedy> {
        let pool = self.pool;
        if let Some(rule) = state.broken_rule() {
            self.seen.broken_rules += 1;
            let is_news = self.seen.broken_rules.is_power_of_two();
            self.found.broken = is_news.then(|| (rule, state.books()));
            if state.is_stranded() {
                self.found.is_busy = true;
                let left = state.has_work(pool);
                return Some(Remedy::kick(state.pass_on(pool, left)));
            }
        }
        if let Some(kick) = self.tend_reactor(state) {
            self.found.is_busy = true;
            return Some(Remedy::kick(Some(kick)));
        }
        if state.active() == 0 && state.idle.count() > 0 && state.roster.hogs() == 0 {
            self.seen.progress = Progress::default();
            return Some(Remedy::default());
        }
        let has_work = state.has_work(pool) || pool.has_mail();
        // A pool without a worker designated for the next item relies on the monitor.
        let is_unattended = state.is_unattended();
        self.found.is_busy =
            has_work || state.active() > 0 || state.roster.hogs() > 0 || is_unattended;
        let fingerprint = self.fingerprint(state, has_work);
        self.found.stalled_for =
            self.seen.note_progress(fingerprint, has_work, self.now, self.watch.stall_after);
        if pool.is_team() && is_unattended {
            self.found.is_busy = has_work;
            let last_resort = Some(self.seen.stands_still_for(self.now));
            return Some(Remedy { last_resort, ..Remedy::default() });
        }
        let may_run_one_more = state.active() < state.limit(pool) && state.idle.count() == 0;
        if may_run_one_more && !pool.is_team() && state.has_work_for(pool, 1) {
            // A start failed, and no worker may take the lock for long.
            let spare = state.reserve_spare(pool);
            let is_refused = state.roster.is_spare_refused();
            self.found.refused = is_refused.then(|| state.cold().counters.refused_workers);
            return Some(Remedy { kick: state.call_rescuer(), spare, last_resort: None });
        }
        if state.can_kick(pool)
            && state.idle.kicked().is_none()
            && (state.has_work_for(pool, 1) || pool.has_mail())
        {
            // The worker that left the work behind found no worker to wake, or a kick on its way that found other work.
            return Some(Remedy::kick(state.pass_on(pool, true)));
        }
        None
    }

    /// If no worker is in the reactor: returns the one to be woken, to go there; or else has a busy worker poll it soon.
    fn tend_reactor(&self, state: &mut State<P>) -> Option<Kick> {
        let reactor = self.pool.attributes.hooks.reactor.as_ref()?;
        if reactor.is_taken() || state.roster.stopping {
            return None;
        }
        let kick = state.choose_kick(self.pool);
        if kick.is_none() {
            self.pool.look_is_due.store(1, Relaxed);
        }
        kick
    }

    /// A value that changes with every item that a worker begins. A worker that shares its jobs and takes them back makes
    /// progress, and the waiting jobs are its own subtasks.
    fn fingerprint(&self, state: &mut State<P>, has_work: bool) -> u64 {
        let pool = self.pool;
        let forks_alone = has_work && !state.items_wait(pool) && !pool.has_mail();
        let slots = state.roster.indices().map(|worker| pool.slots.get(worker));
        slots.fold(0, |sum, slot| {
            let forked = if forks_alone { slot.deque.activity() } else { 0 };
            u64::wrapping_add(sum, slot.begun()).wrapping_add(forked)
        })
    }

    /// Checks each worker, if no more may run and there is work.
    fn replace_workers(&mut self, mut state: PoolGuard<'scan, P>) {
        let pool = self.pool;
        if pool.thieves.has_forks(&pool.slots) {
            drop(state);
            // A worker that fell asleep in another pool just before may have been missed.
            pool.call_anybody();
            state = pool.lock_state();
        }
        let has_work = state.has_work(pool) || pool.has_mail();
        let items_wait = state.items_wait(pool) || pool.has_mail();
        // If forked jobs wait, and the hogs hold all places, they take the jobs back, unless they spin for one another.
        if has_work && !items_wait && !state.may_steal(pool, 1) && self.may_hog(false) {
            state.roster.allow_one_more_thief();
            return self.call_stand_in(state);
        }
        // A member has no stand-in: workers that wait for it learn that it is blocked.
        let is_full =
            state.active() >= state.limit(pool) || pool.is_team() && state.idle.count() == 0;
        if !is_full || !has_work {
            return;
        }
        // Workers that have not looked for an item for long, and count as running.
        let (mut counted, mut starved) = (Vec::new(), Vec::new());
        for worker in state.roster.indices() {
            let blocked = match self.judge(&mut state, worker) {
                Verdict::Fine => continue,
                Verdict::Long { is_starved } => {
                    counted.push(worker);
                    starved.extend(is_starved.then_some(worker));
                    continue;
                }
                Verdict::Blocked if !self.may_presume(&mut state, worker) => continue,
                Verdict::Blocked => {
                    let counters = &mut state.cold_mut().counters;
                    counters.presumed_blocked += 1;
                    counters.hand_overs += 1;
                    Blocked::Presumed
                }
                Verdict::Hog { cpu_time, is_news } => {
                    if is_news && items_wait {
                        self.note_hog(&mut state, worker, cpu_time);
                    }
                    if !self.may_hog(items_wait) {
                        counted.push(worker);
                        continue;
                    }
                    Blocked::Hog
                }
            };
            state = self.replace(state, worker, blocked, items_wait);
        }
        if items_wait && !counted.is_empty() && !pool.is_team() {
            self.expedite(state, counted, &starved);
        }
    }

    fn may_hog(&mut self, items_wait: bool) -> bool {
        let stands_still_for = self.seen.stands_still_for(self.now);
        self.hogs.take(items_wait, stands_still_for, self.watch)
    }

    fn note_hog(&mut self, state: &mut State<P>, worker: usize, cpu_time: Duration) {
        let slot = self.pool.slots.get(worker);
        self.seen.of(worker).hog_reported = true;
        self.pool.accounts.count_hog(slot);
        state.cold_mut().counters.cpu_hogs += 1;
        self.found.hogs.push((slot.function(), cpu_time));
    }

    /// Lets another worker take this one's place.
    fn replace(
        &self,
        mut state: PoolGuard<'scan, P>,
        worker: usize,
        blocked: Blocked,
        items_wait: bool,
    ) -> PoolGuard<'scan, P> {
        let slot = self.pool.slots.get(worker);
        state.set_blocked(worker, blocked);
        if !items_wait {
            state.roster.allow_one_more_thief();
        }
        slot.is_called_back.store(1, Relaxed);
        self.call_stand_in(state);
        if blocked == Blocked::Presumed {
            self.pool.accounts.count_hand_over(slot);
        }
        self.pool.lock_state()
    }

    /// Wakes or starts a worker that takes the place of another.
    fn call_stand_in(&self, mut state: PoolGuard<'scan, P>) {
        let (kick, spare) = state.find_stand_in(self.pool);
        self.apply(state, Remedy { kick, spare, last_resort: None });
    }

    /// Takes out items of queues that have no running item, and lends them the places of workers that are `counted`.
    fn expedite(&self, mut state: PoolGuard<'scan, P>, counted: Vec<usize>, starved: &[usize]) {
        let expedited = state.expedite(self.pool, starved);
        if expedited > 0 {
            // More workers may run than the limit, since loans have ended.
            let beyond = state.active().saturating_sub(state.limit(self.pool));
            let places = beyond + expedited;
            counted.into_iter().take(places).for_each(|hog| state.lend_place(hog));
        }
        for _ in 0..expedited {
            self.call_stand_in(state);
            state = self.pool.lock_state();
        }
    }

    /// Whether a waiting worker gets a stand-in. If items wait, at once. If only forked jobs wait, later and later: those are
    /// subtasks of other workers, which run them if no other worker does, and a thief often waits for the very lock that the
    /// first worker waits for.
    fn may_presume(&mut self, state: &mut State<P>, worker: usize) -> bool {
        if state.items_wait(self.pool) || self.pool.has_mail() {
            return true;
        }
        let presumed = state.roster.count_blocked_as(Blocked::Presumed) as u32;
        let since = self.seen.of(worker).since;
        since.is_some_and(|(since, _)| {
            self.now - since >= SCAN_EVERY * (2 << presumed.min(MAX_DOUBLINGS))
        })
    }

    fn judge(&mut self, state: &mut State<P>, worker: usize) -> Verdict {
        if state.rests(worker) || state.roster.blocked_as(worker) != Blocked::No {
            return Verdict::Fine;
        }
        let Self { now, number, .. } = *self;
        let slot = self.pool.slots.get(worker);
        let (begun, cpu_time) = (slot.begun(), slot.cpu_time());
        let seen = self.seen.of(worker);
        let before = *seen;
        let is_same = before.begun == begun && before.since.is_some();
        let since = if is_same { before.since } else { cpu_time.map(|cpu_time| (now, cpu_time)) };
        let hog_reported = is_same && before.hog_reported;
        let looks = match before.looks {
            Some((looks, since)) if looks == slot.looks() => Some((looks, since)),
            _ => Some((slot.looks(), now)),
        };
        *seen = Seen { begun, cpu_time, scan: number, since, hog_reported, looks };
        let used = match (since, cpu_time) {
            (Some((_, at_first)), Some(now)) if is_same => Some(now.saturating_sub(at_first)),
            _ => None,
        };
        let threshold = self.watch.cpu_intensive;
        // It has not looked for an item for the hog threshold, as far as the monitor has seen.
        let is_long =
            |threshold: &Duration| looks.is_some_and(|(_, since)| now - since >= *threshold);
        let fine = match threshold.filter(is_long) {
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
        if before.scan + 1 == number
            && cpu_now.saturating_sub(cpu_before) < SCAN_EVERY / IDLE_SHARE
            // On a fully loaded machine, a runnable worker may not have had a CPU.
            && P::is_waiting(slot.thread_id())
        {
            return Verdict::Blocked;
        }
        match (threshold, used) {
            (Some(threshold), Some(used)) if used >= threshold => {
                // A worker that has begun nothing yet has no function to report.
                Verdict::Hog { cpu_time: used, is_news: begun != 0 && !hog_reported }
            }
            _ => fine,
        }
    }
}

/// Describes the pool's current work.
pub(super) fn report<P: Platform>(pool: &Pool<P>, observed: &mut Observations) -> PoolReport {
    let stats = pool.stats();
    let mut state = pool.lock_state();
    let now = P::now();
    let mut running = Vec::new();
    for worker in state.roster.indices().filter(|worker| !state.rests(*worker)).collect::<Vec<_>>()
    {
        let slot = pool.slots.get(worker);
        let seen = *observed.of(worker);
        let since = seen.since.filter(|_| seen.begun == slot.begun());
        if slot.begun() != 0 {
            running.push(RunningItem {
                worker,
                function: slot.function(),
                for_at_least: since.map_or(Duration::ZERO, |(since, _)| now - since),
                is_blocked: state.roster.blocked_as(worker) != Blocked::No,
            });
        }
    }
    let has_waiting_items = state.has_work(pool);
    PoolReport { scope: pool.attributes.scope, stats, has_waiting_items, running }
}
