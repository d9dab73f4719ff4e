//! The monitor: sees workers that wait inside an item without having said so.
//!
//! One thread a runtime. While a worker of any pool is active, it looks at the pools every few
//! milliseconds; when none is for two looks, it sleeps until one is, so an idle process spends
//! nothing on it. A look at a pool that has an idle worker, or no waiting item, is one short hold
//! of its lock.
//!
//! A worker that was inside the same item at two looks, used next to no CPU time in between, and
//! is not waiting for a CPU, while items wait and nobody else may run, is *presumed* blocked: from then on it does not count,
//! and another worker is woken or started. When it comes back and looks for work, it counts again.
//!
//! Where a worker could not be started, for want of memory or since a CPU of the pod went offline, and
//! items wait that one more worker might run, each look tries again.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Lock, Padded, Parker, Platform, ThreadSpec, Time, fields};

use super::state::{Aside, State};
use super::{Desk, Pool};
use crate::trouble::{CpuHog, NoWorker, PoolReport, RunningItem, Stall, Trouble, Watch};

/// Time between two looks. Two of them pass before a worker is presumed blocked.
const LOOK_EVERY: Duration = Duration::from_millis(4);
/// A worker that used less than this share of the time between two looks waits for something.
const IDLE_SHARE: u32 = 8;
/// Looks that find all pools asleep before the monitor sleeps too.
const QUIET_LOOKS: u32 = 2;

/// Looks between two at which CPU time is charged to queues: a system call a worker.
const CHARGE_EVERY: u64 = 4;

const ASLEEP: u32 = 0;
const AWAKE: u32 = 1;
/// Its thread could not be started: tried again by whoever has work.
const MISSING: u32 = 2;

/// A pool whose workers hog as many CPUs as it has gets one more all the same where it has begun
/// nothing for so many times the threshold.
const MOST_HOGGED: u32 = 10;
/// How often whoever follows the machine looks at it, at most.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

/// What a look saw of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    begun: u64,
    cpu_time: Option<Duration>,
    look: u64,
    /// When it was first seen in that item, and with how much CPU time.
    since: Option<(Time, Duration)>,
    hog_told: bool,
}

/// Whether a pool gets on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Changes with every item that a worker begins.
    fingerprint: u64,
    /// Since when it has not, while items wait.
    since: Option<Time>,
    told: bool,
}

/// What a look makes of a worker.
enum Verdict {
    Fine,
    Blocked,
    Hog { cpu_time: Duration, is_news: bool },
}

/// What a look at a pool found.
#[derive(Default)]
struct Findings {
    is_busy: bool,
    stalled_for: Option<Duration>,
    hogs: Vec<(&'static str, Duration)>,
    refused: Option<u64>,
}

/// How many workers a runtime has, and may have; reserves are not counted.
#[derive(Debug)]
pub(crate) struct Census<P: Platform> {
    workers: P::AtomicU32,
    most: u32,
}

impl<P: Platform> Census<P> {
    pub(crate) fn new(most: usize) -> Self {
        Self { workers: P::AtomicU32::new(0), most: u32::try_from(most).unwrap_or(u32::MAX) }
    }

    /// Counts one more; false if there are as many as may be.
    pub(super) fn enter(&self) -> bool {
        if self.workers.fetch_add(1, Relaxed) < self.most {
            return true;
        }
        self.leave();
        false
    }

    pub(super) fn leave(&self) {
        self.workers.fetch_sub(1, Relaxed);
    }
}

/// What keeps up with a machine whose CPUs come and go.
pub(crate) trait Follower: Send + Sync {
    /// Called by the monitor now and then, while there is work.
    fn follow(&self);
}

pub(crate) struct Monitor<P: Platform> {
    /// Whether the thread looks, or sleeps and is to be woken. Read at every claim, written when
    /// the process falls asleep or wakes up.
    state: Padded<P::AtomicU32>,
    parker: Parker<P>,
    watched: Lock<P, Watched<P>>,
    watch: Watch,
    pub(super) census: Arc<Census<P>>,
    /// By function: how often its items were found to hog a CPU.
    hogs: Lock<P, BTreeMap<&'static str, u64>>,
    follower: OnceLock<Weak<dyn Follower>>,
}
fields!(Monitor<P: Platform> { state, parker, watched });

/// What has something to let go of when its last item is over.
pub(crate) trait Retiring: Send + Sync {
    /// Lets go of what it can; true if something is left.
    fn reap(&self) -> bool;
}

struct Watched<P: Platform> {
    pools: Vec<Weak<Pool<P>>>,
    retiring: Vec<Weak<dyn Retiring>>,
    /// The thread runs; it ends when no pool is left.
    running: bool,
    /// How often it could not be started since it ran last, and when that was.
    failures: u64,
    failed: Option<Time>,
}

impl<P: Platform> Monitor<P> {
    pub(crate) fn new(watch: Watch, most_workers: usize) -> Self {
        Self {
            watch,
            census: Arc::new(Census::new(most_workers)),
            hogs: Lock::new(BTreeMap::new()),
            follower: OnceLock::new(),
            state: Padded::new(P::AtomicU32::new(AWAKE)),
            parker: Parker::new(),
            watched: Lock::new(Watched {
                pools: Vec::new(),
                retiring: Vec::new(),
                running: false,
                failures: 0,
                failed: None,
            }),
        }
    }

    /// Watches over a pool. Without a thread, nobody is presumed blocked; that is said, and who has
    /// work tries again.
    pub(crate) fn watch(self: &Arc<Self>, pool: &Arc<Pool<P>>) {
        if P::cpu_time_of(P::this_thread()).is_none() {
            return;
        }
        let mut watched = self.watched.lock();
        watched.pools.push(Arc::downgrade(pool));
        self.start(&mut watched);
    }

    /// Starts the thread, unless it runs.
    fn start(self: &Arc<Self>, watched: &mut Watched<P>) {
        if watched.running {
            return;
        }
        let monitor = Arc::clone(self);
        let spec = ThreadSpec { name: "cs-monitor".to_owned(), ..ThreadSpec::default() };
        match P::spawn(spec, Box::new(move || monitor.run())) {
            Ok(_detached) => {
                watched.running = true;
                watched.failures = 0;
            }
            Err(error) => {
                watched.failures += 1;
                watched.failed = Some(P::now());
                if watched.failures.is_power_of_two() {
                    let failures = watched.failures;
                    tracing::warn!(%error, failures, "blocked workers are not noticed for now");
                }
                // Under the lock, so that it is never said of a thread that runs. Nobody has said
                // anything else to one that does not.
                self.state.swap(MISSING, AcqRel);
            }
        }
    }

    /// Tries again to start a thread that could not be, if the last time is not just over.
    #[cold]
    fn start_again(self: &Arc<Self>) {
        let mut watched = self.watched.lock();
        if !watched.running && watched.failed.is_some_and(|failed| P::now() - failed < LOOK_EVERY) {
            self.state.swap(MISSING, AcqRel);
            return;
        }
        self.start(&mut watched);
    }

    /// A worker could not be started, which the monitor makes up for: it must be there.
    #[cold]
    pub(super) fn is_needed(self: &Arc<Self>) {
        if self.state.load(Acquire) == MISSING {
            let mut watched = self.watched.lock();
            // One that was started meanwhile may be asleep by now, and is to be woken as such.
            if !watched.running {
                self.state.swap(AWAKE, AcqRel);
                self.start(&mut watched);
            }
        }
    }

    /// Whoever follows the machine, from here on.
    pub(crate) fn set_follower(&self, follower: Weak<dyn Follower>) {
        let _ = self.follower.set(follower);
    }

    /// Looks now and then whether `queue` can let go of something.
    pub(crate) fn retire(self: &Arc<Self>, queue: Weak<dyn Retiring>) {
        let mut watched = self.watched.lock();
        if !watched.retiring.iter().any(|known| known.ptr_eq(&queue)) {
            watched.retiring.push(queue);
        }
        drop(watched);
        self.wake();
    }

    /// Called by a worker that has work. Wakes the monitor if it sleeps.
    #[inline]
    pub(super) fn notice_work(self: &Arc<Self>) {
        if self.state.load(Relaxed) != AWAKE {
            self.wake();
        }
    }

    /// Called when pools go: the monitor looks whether any is left.
    #[cold]
    pub(crate) fn wake(self: &Arc<Self>) {
        match self.state.swap(AWAKE, AcqRel) {
            ASLEEP => {
                self.parker.unpark();
            }
            MISSING => self.start_again(),
            _ => {}
        }
    }

    fn run(&self) {
        let mut quiet_looks = 0;
        let mut look = 0;
        let mut followed = P::now();
        loop {
            P::sleep(LOOK_EVERY);
            look += 1;
            if let Some(follower) = self.follower.get()
                && P::now() - followed >= FOLLOW_EVERY
            {
                followed = P::now();
                if let Some(follower) = follower.upgrade() {
                    follower.follow();
                }
            }
            let Some(busy) = self.look(look) else { return };
            quiet_looks = if busy { 0 } else { quiet_looks + 1 };
            if quiet_looks < QUIET_LOOKS {
                continue;
            }
            // First the flag, then one more look under each pool's lock: a worker that becomes
            // active after that look takes the lock after it, and so sees the flag.
            self.state.swap(ASLEEP, AcqRel);
            match self.look(look) {
                None => return,
                Some(true) => self.state.store(AWAKE, Relaxed),
                Some(false) => {
                    while self.state.load(Acquire) == ASLEEP {
                        self.parker.park();
                    }
                }
            }
            quiet_looks = 0;
        }
    }

    /// True if something is left that a queue may let go of later.
    fn reap(&self) -> bool {
        let retiring = std::mem::take(&mut self.watched.lock().retiring);
        if retiring.is_empty() {
            return false;
        }
        // Not under the lock: workers are waited for.
        let left: Vec<_> = retiring
            .into_iter()
            .filter(|queue| queue.upgrade().is_some_and(|queue| queue.reap()))
            .collect();
        let retires = !left.is_empty();
        self.watched.lock().retiring.extend(left);
        retires
    }

    /// Looks at all pools. True if any is busy; `None` when no pool is left: the thread ends.
    fn look(&self, look: u64) -> Option<bool> {
        let retires = self.reap();
        let pools: Vec<_> = {
            let mut watched = self.watched.lock();
            watched.pools.retain(|pool| pool.strong_count() > 0);
            watched.running = !watched.pools.is_empty();
            if !watched.running {
                return None;
            }
            watched.pools.iter().filter_map(Weak::upgrade).collect()
        };
        let mut busy = retires;
        for pool in &pools {
            let found = pool.look(look, &self.watch);
            busy |= found.is_busy;
            self.tell(pool, found, &pools);
        }
        Some(busy)
    }

    /// Tells of what a look found, without a lock.
    fn tell(&self, pool: &Pool<P>, found: Findings, pools: &[Arc<Pool<P>>]) {
        let pod = pool.place.pod;
        for (function, cpu_time) in found.hogs {
            let times = {
                let mut hogs = self.hogs.lock();
                let times = hogs.entry(function).or_default();
                *times += 1;
                *times
            };
            if times.is_power_of_two() {
                self.watch.tell(&Trouble::CpuHog(CpuHog { pod, function, cpu_time, times }));
            }
        }
        if let Some(times) = found.refused.filter(|times| times.is_power_of_two()) {
            let reason = format!(
                "the pool or the runtime has as many workers as it may have (wanted {times} \
                 times); allow more with max_workers or max_workers_per_pool"
            );
            self.watch.tell(&Trouble::NoWorker(NoWorker { pod, reason }));
        }
        if let Some(stalled_for) = found.stalled_for {
            let pools = pools.iter().map(|pool| pool.report()).collect();
            self.watch.tell(&Trouble::Stall(Stall { pod, stalled_for, pools }));
        }
    }
}

impl<P: Platform> Pool<P> {
    /// Finds replacements for workers that wait inside an item or hog a CPU, and for those that
    /// could not be started.
    fn look(self: &Arc<Self>, look: u64, watch: &Watch) -> Findings {
        let mut found = Findings::default();
        if look.is_multiple_of(CHARGE_EVERY) {
            self.charge();
        }
        let mut state = self.lock();
        if state.active() == 0 && state.idle_count() > 0 {
            state.progress = Progress::default();
            return found;
        }
        let has_work = state.has_work(self);
        found.is_busy = has_work || state.active() > 0;
        let now = P::now();
        found.stalled_for = state.note_progress(self, has_work, now, watch.stall_after);
        let may_run_one_more = state.active() < self.place.limit && state.idle_count() == 0;
        if may_run_one_more && has_work {
            // Whoever saw to it could not start a worker, and nobody may come by for long.
            let spare = state.reserve_spare(self);
            found.refused = state.spare_refused.then_some(state.counters.refused_workers);
            let kick = state.call_reserve();
            self.unlock_and_kick(state, kick);
            if let Some(spare) = spare {
                self.start_spare(spare);
            }
            return found;
        }
        if self.has_forks() {
            drop(state);
            // Whoever fell asleep in another pool just before may have been missed.
            self.call_anybody();
            state = self.lock();
        }
        if state.active() < self.place.limit || !state.has_work(self) {
            return found;
        }
        for worker in 0..state.threads.len() {
            let aside = match state.judge(self.desk(worker), worker, look, now, watch) {
                Verdict::Fine => continue,
                Verdict::Blocked => {
                    state.counters.presumed_blocked += 1;
                    state.counters.hand_overs += 1;
                    Aside::Presumed
                }
                Verdict::Hog { cpu_time, is_news } => {
                    if is_news {
                        self.count_hog(worker);
                        state.counters.cpu_hogs += 1;
                        found.hogs.push((self.desk(worker).function(), cpu_time));
                    }
                    if !state.may_hog(self, now, watch) {
                        continue;
                    }
                    Aside::Hog
                }
            };
            state.put_aside(worker, aside);
            let (kick, spare) = state.find_stand_in(self);
            self.unlock_and_kick(state, kick);
            if aside == Aside::Presumed {
                self.count_hand_over(worker);
            }
            if let Some(spare) = spare {
                self.start_spare(spare);
            }
            state = self.lock();
        }
        found
    }

    /// A worker could not be started: tells of it, and calls the reserve.
    #[cold]
    pub(super) fn miss_worker(&self, reason: &str) {
        let mut state = self.lock();
        let failures = state.counters.failed_worker_starts;
        state.spare_refused = true;
        let kick = state.call_reserve();
        self.unlock_and_kick(state, kick);
        self.monitor.is_needed();
        if failures.is_power_of_two() {
            let (pod, reason) = (self.place.pod, format!("{reason} (failure {failures})"));
            self.monitor.watch.tell(&Trouble::NoWorker(NoWorker { pod, reason }));
        }
    }

    /// What the pool is at.
    fn report(&self) -> PoolReport {
        let stats = self.stats();
        let mut state = self.lock();
        let now = P::now();
        let running = (0..state.threads.len())
            .filter(|worker| !state.rests(*worker))
            .filter_map(|worker| {
                let desk = self.desk(worker);
                let begun = desk.begun.load(Relaxed);
                let seen = state.seen[worker];
                let since = seen.since.filter(|_| seen.begun == begun);
                (begun != 0).then(|| RunningItem {
                    worker,
                    function: desk.function(),
                    for_at_least: since.map_or(Duration::ZERO, |(since, _)| now - since),
                    is_put_aside: state.aside[worker] != Aside::No,
                })
            })
            .collect();
        let has_waiting_items = state.has_work(self);
        PoolReport { scope: self.attributes.scope, stats, has_waiting_items, running }
    }
}

impl<P: Platform> State<P> {
    /// True if the worker sleeps, stands by, or does not exist.
    fn rests(&self, worker: usize) -> bool {
        self.idle.contains(&worker)
            || self.sentinel == Some(worker)
            || self.free.contains(&worker)
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
        let begun = (0..self.threads.len()).map(|worker| pool.desk(worker).begun.load(Relaxed));
        let fingerprint = begun.fold(0, u64::wrapping_add);
        let before = self.progress;
        if !has_work || before.since.is_none() || before.fingerprint != fingerprint {
            let since = has_work.then_some(now);
            self.progress = Progress { fingerprint, since, told: false };
            return None;
        }
        let stalled_for = now - before.since?;
        if before.told || stalled_for < stall_after? {
            return None;
        }
        self.progress.told = true;
        Some(stalled_for)
    }

    /// Whether one more hog may be taken out of the count: as many as the pool's limit, so that
    /// work that is nothing but long does not get a thread an item; and one more whenever the pool
    /// has begun nothing for a while.
    fn may_hog(&mut self, pool: &Pool<P>, now: Time, watch: &Watch) -> bool {
        let hogs = self.aside.iter().filter(|aside| **aside == Aside::Hog).count();
        let Some(threshold) = watch.cpu_intensive else { return false };
        hogs < pool.place.limit
            || self.progress.since.is_some_and(|since| now - since >= threshold * MOST_HOGGED)
    }

    /// Blocked: it was inside the same item at the last look too, and used next to no CPU time
    /// since. A hog: it has used more CPU time than may be since it was first seen there.
    fn judge(
        &mut self,
        desk: &Desk<P>,
        worker: usize,
        look: u64,
        now: Time,
        watch: &Watch,
    ) -> Verdict {
        if self.rests(worker) || self.aside[worker] != Aside::No {
            return Verdict::Fine;
        }
        let (begun, cpu_time) = (desk.begun.load(Relaxed), desk.cpu_time());
        let before = self.seen[worker];
        let is_same = before.begun == begun && before.since.is_some();
        let since = if is_same { before.since } else { cpu_time.map(|cpu_time| (now, cpu_time)) };
        let hog_told = is_same && before.hog_told;
        self.seen[worker] = Seen { begun, cpu_time, look, since, hog_told };
        let (Some(cpu_before), Some(cpu_now)) = (before.cpu_time, cpu_time) else {
            return Verdict::Fine;
        };
        if !is_same {
            return Verdict::Fine;
        }
        if before.look + 1 == look
            && cpu_now.saturating_sub(cpu_before) < LOOK_EVERY / IDLE_SHARE
            // On a machine that is full, a worker that would run may not have been let.
            && P::is_waiting(desk.thread_id())
        {
            return Verdict::Blocked;
        }
        let used = cpu_now.saturating_sub(since.map_or(cpu_now, |(_, at_first)| at_first));
        match watch.cpu_intensive {
            Some(threshold) if used >= threshold => {
                self.seen[worker].hog_told = true;
                Verdict::Hog { cpu_time: used, is_news: !hog_told }
            }
            _ => Verdict::Fine,
        }
    }
}
