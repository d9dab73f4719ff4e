//! The monitor: sees workers that wait inside an item without having said so.
//!
//! One thread a runtime. While a worker of any pool is active, it looks at the pools every few
//! milliseconds; when none is for two looks, it sleeps until one is, so an idle process spends
//! nothing on it. A look at a pool that has an idle worker, or no waiting item, is one short hold
//! of its lock.
//!
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Lock, Padded, Parker, Platform, ThreadSpec, Time, fields};

use super::Pool;
use super::look::Findings;
use crate::trouble::{CpuHog, NoWorker, Stall, Trouble, Watch};

/// Time between two looks. Two of them pass before a worker is presumed blocked.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(4);
/// Looks that find all pools asleep before the monitor sleeps too.
const QUIET_LOOKS: u32 = 2;

const ASLEEP: u32 = 0;
const AWAKE: u32 = 1;
/// Its thread could not be started: tried again by whoever has work.
const MISSING: u32 = 2;

/// How often whoever follows the machine looks at it, at most.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

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
    pub(super) watch: Watch,
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
