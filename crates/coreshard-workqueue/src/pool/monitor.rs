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

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Lock, Padded, Parker, Platform, ThreadSpec, fields};

use super::state::{Aside, State};
use super::{Desk, Pool};

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

/// What a look saw of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    items_begun: u64,
    cpu_time: Option<Duration>,
    look: u64,
}

pub(crate) struct Monitor<P: Platform> {
    /// Whether the thread looks, or sleeps and is to be woken. Read at every claim, written when
    /// the process falls asleep or wakes up.
    state: Padded<P::AtomicU32>,
    parker: Parker<P>,
    watched: Lock<P, Watched<P>>,
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
}

impl<P: Platform> Monitor<P> {
    pub(crate) fn new() -> Self {
        Self {
            state: Padded::new(P::AtomicU32::new(AWAKE)),
            parker: Parker::new(),
            watched: Lock::new(Watched { pools: Vec::new(), retiring: Vec::new(), running: false }),
        }
    }

    /// Watches over a pool. Without a thread, nobody is presumed blocked; that is said.
    pub(crate) fn watch(self: &Arc<Self>, pool: &Arc<Pool<P>>) {
        if P::cpu_time_of(P::this_thread()).is_none() {
            return;
        }
        let mut watched = self.watched.lock();
        watched.pools.push(Arc::downgrade(pool));
        if watched.running {
            return;
        }
        let monitor = Arc::clone(self);
        let spec = ThreadSpec { name: "cs-monitor".to_owned(), ..ThreadSpec::default() };
        match P::spawn(spec, Box::new(move || monitor.run())) {
            Ok(_detached) => watched.running = true,
            Err(error) => tracing::warn!(%error, "blocked workers will not be noticed"),
        }
    }

    /// Looks now and then whether `queue` can let go of something.
    pub(crate) fn retire(&self, queue: Weak<dyn Retiring>) {
        let mut watched = self.watched.lock();
        if !watched.retiring.iter().any(|known| known.ptr_eq(&queue)) {
            watched.retiring.push(queue);
        }
        drop(watched);
        self.wake();
    }

    /// Called by a worker that has work. Wakes the monitor if it sleeps.
    #[inline]
    pub(super) fn notice_work(&self) {
        if self.state.load(Relaxed) == ASLEEP {
            self.wake();
        }
    }

    /// Called when pools go: the monitor looks whether any is left.
    #[cold]
    pub(crate) fn wake(&self) {
        if self.state.swap(AWAKE, AcqRel) == ASLEEP {
            self.parker.unpark();
        }
    }

    fn run(&self) {
        let mut quiet_looks = 0;
        let mut look = 0;
        loop {
            P::sleep(LOOK_EVERY);
            look += 1;
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
        Some(pools.iter().fold(retires, |busy, pool| pool.look(look) | busy))
    }
}

impl<P: Platform> Pool<P> {
    /// True if a worker is active, or should be. Finds replacements for those that wait inside an
    /// item, and for those that could not be started.
    fn look(self: &Arc<Self>, look: u64) -> bool {
        if look.is_multiple_of(CHARGE_EVERY) {
            self.charge();
        }
        let mut state = self.lock();
        let may_run_one_more = state.active() < self.place.limit && state.idle_count() == 0;
        if may_run_one_more && state.has_work(self) {
            // Whoever saw to it could not start a worker, and nobody may come by for long.
            let spare = state.reserve_spare(self);
            drop(state);
            if let Some(spare) = spare {
                self.start_spare(spare);
            }
            return true;
        }
        if state.active() == 0 {
            return false;
        }
        if self.has_forks() {
            drop(state);
            // Whoever fell asleep in another pool just before may have been missed.
            self.call_anybody();
            state = self.lock();
        }
        if state.active() < self.place.limit || !state.has_work(self) {
            return true;
        }
        for worker in 0..state.threads.len() {
            if !state.seems_blocked(self.desk(worker), worker, look) {
                continue;
            }
            state.put_aside(worker, Aside::Presumed);
            state.counters.presumed_blocked += 1;
            state.counters.hand_overs += 1;
            let (kick, spare) = state.find_stand_in(self);
            self.unlock_and_kick(state, kick);
            self.count_hand_over(worker);
            if let Some(spare) = spare {
                self.start_spare(spare);
            }
            state = self.lock();
        }
        true
    }
}

impl<P: Platform> State<P> {
    /// True if the worker was inside the same item at the last look too, and used next to no CPU
    /// time since.
    fn seems_blocked(&mut self, desk: &Desk<P>, worker: usize, look: u64) -> bool {
        let asleep = self.idle.contains(&worker) || self.sentinel == Some(worker);
        if asleep || self.aside[worker] != Aside::No || self.free.contains(&worker) {
            return false;
        }
        let cpu_time = desk.cpu_time();
        let now = Seen { items_begun: desk.items_begun.load(Relaxed), cpu_time, look };
        let before = std::mem::replace(&mut self.seen[worker], now);
        let (Some(cpu_before), Some(cpu_now)) = (before.cpu_time, now.cpu_time) else {
            return false;
        };
        before.look + 1 == look
            && before.items_begun == now.items_begun
            && cpu_now.saturating_sub(cpu_before) < LOOK_EVERY / IDLE_SHARE
            // On a machine that is full, a worker that would run may not have been let.
            && P::is_waiting(desk.thread_id())
    }
}
