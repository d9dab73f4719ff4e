//! The monitor: finds workers that wait inside an item without having declared it.
//!
//! One thread per runtime. While a worker of any pool is active, it scans the pools every few milliseconds. After sixteen
//! scans without an active worker it sleeps until there is one, so an idle process spends nothing on it. A scan of a pool that
//! has an idle worker, or no waiting item, is one short hold of its lock.
//!
//! Pools depend on it: none exists without a monitor. So it calls no user code, and waits for no worker. Other threads
//! ([`Callbacks`]) call the diagnostic handlers, probe the CPUs, let queues release old generations, and free pools, which
//! drops user hooks.

mod scan;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Lock, Platform, SpawnError, ThreadSpec};

#[cfg(all(test, loom))]
pub(super) use scan::scan;
use scan::{Findings, SCAN_EVERY};
pub(super) use scan::{MayHog, Observations};

use super::blocking::blocking;
use super::context::index_in;
use super::pool::Pool;
use super::shared::{MonitorHandle, call_back};
use crate::base::event::Event;
use crate::callbacks::{Callbacks, Threads};
use crate::insight::diagnostic::{Bug, CpuHog, Diagnostic, NoWorker, Stall, Watchdog};

/// Scans that find all pools asleep before the monitor also sleeps.
const QUIET_SCANS: u32 = 16;

/// Threads that make the calls that the monitor must not make. Each kind of call may block one thread.
const HELPERS: Threads = Threads { name: "cs-background", most: 4 };

/// How long a caller that needs a worker waits for exiting workers.
const LEAVE_PATIENCE: Duration = Duration::from_secs(1);

/// Minimum time between two checks of the machine by the follower.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

/// Follows changes of a machine whose CPUs come and go.
pub(crate) trait Follower: Send + Sync {
    /// Called now and then, while there is work, on a thread that is not waited for.
    fn follow(&self);
}

pub(crate) struct Monitor<P: Platform> {
    /// The part that pools see.
    pub(crate) handle: Arc<MonitorHandle<P>>,
    watched: Lock<P, Watched<P>>,
    helps: Arc<Callbacks<P>>,
    /// 1 while a call of the follower is in progress; the same for reaping.
    follows: P::AtomicU32,
    reaps: P::AtomicU32,
    /// Workers that had a CPU, or wanted one, at the last scan.
    running: P::AtomicU32,
    /// By function: how often its items were found to hog a CPU.
    hogs: Lock<P, BTreeMap<&'static str, u64>>,
    follower: OnceLock<Weak<dyn Follower>>,
}
/// An object that releases something when its last item has finished.
pub(crate) trait Retiring: Send + Sync {
    /// Releases what it can; returns true if something is left.
    fn reap(&self) -> bool;
}

/// The observations of a pool that are kept from one scan to the next.
type Seen<P> = Arc<Lock<P, Observations>>;

struct Watched<P: Platform> {
    pools: Vec<(Weak<Pool<P>>, Seen<P>)>,
    retiring: Vec<Weak<dyn Retiring>>,
    /// The thread runs; it exits when no pool is left.
    running: bool,
}

/// CPUs that these pools may use: the CPUs of the largest set, which has one pool for each pod.
fn cpus_of<P: Platform>(pools: &[(Arc<Pool<P>>, Seen<P>)]) -> usize {
    let mut sets = BTreeMap::new();
    for (pool, _) in pools {
        *sets.entry(Arc::as_ptr(&pool.attributes).addr()).or_insert(0) += pool.place.limit;
    }
    sets.into_values().max().unwrap_or(0)
}

impl<P: Platform> Monitor<P> {
    pub(crate) fn new(watch: Watchdog, most_workers: usize) -> Self {
        Self {
            handle: Arc::new(MonitorHandle::new(watch, most_workers)),
            helps: Arc::new(Callbacks::new(HELPERS)),
            follows: P::AtomicU32::new(0),
            reaps: P::AtomicU32::new(0),
            running: P::AtomicU32::new(0),
            hogs: Lock::new(BTreeMap::new()),
            follower: OnceLock::new(),
            watched: Lock::new(Watched { pools: Vec::new(), retiring: Vec::new(), running: false }),
        }
    }

    /// Starts to monitor a pool.
    ///
    /// # Errors
    /// If the monitor thread does not run and cannot be started.
    pub(crate) fn watch(self: &Arc<Self>, pool: &Arc<Pool<P>>) -> Result<(), SpawnError> {
        // A model has no monitor thread: it scans itself when it wants to.
        if cfg!(loom) {
            return Ok(());
        }
        let mut watched = self.watched.lock();
        if !watched.running {
            // The previous thread may have exited when it was about to sleep.
            self.handle.stay_awake();
            let monitor = Arc::clone(self);
            let spec = ThreadSpec { name: "cs-monitor".to_owned(), ..ThreadSpec::default() };
            P::spawn(spec, Box::new(move || monitor.run()))?;
            watched.running = true;
            self.handle.tells.resume();
            self.helps.resume();
        }
        let seen = Arc::new(Lock::new(Observations::default()));
        watched.pools.push((Arc::downgrade(pool), seen));
        Ok(())
    }

    /// Sets the follower of the machine.
    pub(crate) fn set_follower(&self, follower: Weak<dyn Follower>) {
        let _ = self.follower.set(follower);
    }

    /// Calls `queue` now and then until it has released everything.
    pub(crate) fn retire(&self, queue: Weak<dyn Retiring>) {
        let mut watched = self.watched.lock();
        if !watched.retiring.iter().any(|known| known.ptr_eq(&queue)) {
            watched.retiring.push(queue);
        }
        drop(watched);
        self.handle.wake();
    }

    /// Waits for workers that were told to exit, but not for long: user code on them may never return.
    /// Returns false if there are none.
    pub(crate) fn wait_for_leavers(&self, event: &Event<P>) -> bool {
        let pools: Vec<_> = {
            let watched = self.watched.lock();
            watched.pools.iter().filter_map(|(pool, _)| pool.upgrade()).collect()
        };
        let is_awaited = |pool: &&Arc<Pool<P>>| pool.is_leaving() && index_in(pool).is_none();
        let leaving: Vec<_> = pools.iter().filter(is_awaited).collect();
        if leaving.is_empty() {
            return false;
        }
        let deadline = P::now() + LEAVE_PATIENCE;
        let are_gone = || leaving.iter().all(|pool| !pool.is_leaving());
        blocking::<P, _>(|| event.wait_until(Some(deadline), are_gone));
        true
    }

    /// Calls `call` soon, on another thread.
    fn help(&self, call: impl FnOnce() + Send + 'static) {
        if !cfg!(loom) {
            self.helps.add(call_back(call));
        }
    }

    fn run(self: &Arc<Self>) {
        let mut quiet_scans = 0;
        let mut scan = 0;
        let mut followed = P::now();
        loop {
            P::sleep(SCAN_EVERY);
            scan += 1;
            if self.follower.get().is_some() && P::now() - followed >= FOLLOW_EVERY {
                followed = P::now();
                self.follow();
            }
            let Some(busy) = self.scan(scan) else { break };
            quiet_scans = if busy { 0 } else { quiet_scans + 1 };
            if quiet_scans < QUIET_SCANS {
                continue;
            }
            // First the flag, then one more scan under each pool's lock: a worker that becomes
            // active after that scan takes the lock after it, and so sees the flag.
            self.handle.announce_sleep();
            match self.scan(scan) {
                None => break,
                Some(true) => self.handle.stay_awake(),
                Some(false) => self.handle.sleep(),
            }
            quiet_scans = 0;
        }
        self.handle.tells.finish();
        self.helps.finish();
    }

    /// Lets the follower check the machine, unless its last check is still in progress: that may call user code.
    fn follow(self: &Arc<Self>) {
        if self.follows.swap(1, AcqRel) != 0 {
            return;
        }
        let monitor = Arc::clone(self);
        self.help(move || {
            let over = Over { monitor, flag: |monitor| &monitor.follows };
            // This may be the last reference: the follower is dropped here as well.
            let follower = over.monitor.follower.get().and_then(Weak::upgrade);
            follower.iter().for_each(|follower| follower.follow());
        });
    }

    /// Lets queues release what they can. Returns true if something may be left to release later.
    fn reap(self: &Arc<Self>) -> bool {
        let reaps = self.reaps.load(Acquire) != 0;
        if reaps || self.watched.lock().retiring.is_empty() {
            return reaps;
        }
        self.reaps.store(1, Relaxed);
        let monitor = Arc::clone(self);
        // Dropping may run user code.
        self.help(move || {
            let over = Over { monitor, flag: |monitor| &monitor.reaps };
            let retiring = std::mem::take(&mut over.monitor.watched.lock().retiring);
            for queue in retiring {
                if queue.upgrade().is_some_and(|queue| queue.reap()) {
                    over.monitor.watched.lock().retiring.push(queue);
                }
            }
        });
        true
    }

    /// Scans all pools. Returns true if any is busy, and `None` when no pool is left: the thread exits.
    fn scan(self: &Arc<Self>, number: u64) -> Option<bool> {
        let pools: Vec<_> = {
            let mut watched = self.watched.lock();
            watched.pools.retain(|(pool, _)| pool.strong_count() > 0);
            watched.running = !watched.pools.is_empty();
            if !watched.running {
                return None;
            }
            let upgrade =
                |(pool, seen): &(Weak<Pool<P>>, Seen<P>)| Some((pool.upgrade()?, Arc::clone(seen)));
            watched.pools.iter().filter_map(upgrade).collect()
        };
        let mut busy = self.reap();
        let mut running = 0;
        let before = self.running.load(Relaxed) as usize;
        let mut hogs = MayHog::new(before, cpus_of(&pools));
        for (pool, seen) in &pools {
            let watch = &self.handle.watch;
            let found = scan::scan(pool, number, watch, &mut seen.lock(), &mut hogs);
            busy |= found.is_busy;
            running += found.running;
            self.report(pool, found, &pools);
        }
        // Each replaced hog keeps running beside its stand-in.
        running += hogs.taken;
        // Relaxed: only the monitor uses it.
        self.running.store(u32::try_from(running).unwrap_or(u32::MAX), Relaxed);
        for (pool, _) in pools {
            // This is the last reference: the pool's hooks are user code, and are dropped with it.
            if let Some(pool) = Arc::into_inner(pool) {
                self.help(move || drop(pool));
            }
        }
        let is_left = self.handle.tells.look() | self.helps.look();
        Some(busy | is_left)
    }

    /// Reports what a scan found.
    fn report(&self, pool: &Pool<P>, found: Findings, pools: &[(Arc<Pool<P>>, Seen<P>)]) {
        let pod = pool.place.pod;
        for (function, cpu_time) in found.hogs {
            let times = {
                let mut hogs = self.hogs.lock();
                let times = hogs.entry(function).or_default();
                *times += 1;
                *times
            };
            if times.is_power_of_two() {
                self.handle.tell(Diagnostic::CpuHog(CpuHog { pod, function, cpu_time, times }));
            }
        }
        if let Some(times) = found.refused.filter(|times| times.is_power_of_two()) {
            let reason = format!(
                "the pool or the runtime has as many workers as it may have (wanted {times} \
                 times); allow more with max_workers or max_workers_per_pool"
            );
            self.handle.tell(Diagnostic::NoWorker(NoWorker { pod, reason }));
        }
        if let Some((rule, books)) = found.broken {
            self.handle.tell(Diagnostic::Bug(Bug { pod, rule, books }));
        }
        if let Some(stalled_for) = found.stalled_for {
            let pools =
                pools.iter().map(|(pool, seen)| scan::report(pool, &mut seen.lock())).collect();
            self.handle.tell(Diagnostic::Stall(Stall { pod, stalled_for, pools }));
        }
    }
}

/// Clears a flag, even if the call that it stood for has panicked.
struct Over<P: Platform> {
    monitor: Arc<Monitor<P>>,
    flag: fn(&Monitor<P>) -> &P::AtomicU32,
}

impl<P: Platform> Drop for Over<P> {
    fn drop(&mut self) {
        // Release pairs with the Acquire of the next scan: it sees what is left.
        (self.flag)(&self.monitor).store(0, Release);
    }
}
