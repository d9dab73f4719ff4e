//! What a pool's lock protects.

use std::collections::VecDeque;
use std::sync::Arc;

use coreshard_platform::{Platform, fields};

use super::look::{Progress, Seen};
use super::monitor::Census;
use super::reserve::{RESERVE, Reserve};
use super::whereabouts::Whereabouts;
use super::{LaneTag, MOST_WORKERS, Pool, Takers};
use crate::intake::TAIL_COUNTERS;
use crate::item::Item;

/// Whether a worker counts as blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aside {
    No,
    /// It said so, with `blocking`.
    Declared,
    /// The monitor found it inside an item, using no CPU time.
    Presumed,
    /// The monitor found it inside an item, using a CPU for long.
    Hog,
}

/// The taker's side of the intake.
pub(super) enum Entry<P: Platform> {
    Locked(VecDeque<(Item, LaneTag)>),
    LockFree(Takers<P>),
}

/// Counters that change under the lock; what they mean is told by `PoolStats`.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) kicks: u64,
    pub(super) coalesced_kicks: u64,
    pub(super) repatriated: u64,
    pub(super) stolen: u64,
    pub(super) presumed_blocked: u64,
    pub(super) hand_overs: u64,
    pub(super) cpu_hogs: u64,
    pub(super) rescues: u64,
    pub(super) refused_workers: u64,
    pub(super) failed_worker_starts: u64,
    pub(super) lock_holds: u64,
    pub(super) lock_hold_ns: u64,
    pub(super) lock_hold_max_ns: u64,
}

/// All of it is `L:`.
pub(super) struct State<P: Platform> {
    pub(super) entry: Entry<P>,
    /// Items that came in by the locked rung.
    pub(super) queued: u64,
    /// Workers that sleep and are named nowhere else, the latest last.
    pub(super) idle: Vec<usize>,
    /// The worker that is on the board (lock-free rung only). It sleeps, or the producer that
    /// rang is waking it: then the next holder of the lock notices.
    pub(super) sentinel: Option<usize>,
    /// The idle worker that was kicked and has not run yet (coalesced rung only); it is still in
    /// `idle`.
    pub(super) kicked: Option<usize>,
    /// Workers that exist, or are being started.
    pub(super) alive: usize,
    /// Workers that wait for something else than work: as many as `aside` has.
    pub(super) blocked: usize,
    /// By worker index: who counts as blocked, and who said so.
    pub(super) aside: Vec<Aside>,
    /// Where they run.
    pub(super) whereabouts: Whereabouts,
    /// By worker index: what the monitor saw last.
    pub(super) seen: Vec<Seen>,
    /// A worker is being started.
    pub(super) starting: bool,
    /// One more worker was wanted while one was being started.
    pub(super) spare_missed: bool,
    /// One more worker was wanted, and could not be had.
    pub(super) spare_refused: bool,
    pub(super) reserve: Reserve,
    pub(super) progress: Progress,
    /// Counts the runtime's workers.
    census: Arc<Census<P>>,
    /// Workers go when there is nothing to do.
    pub(super) stopping: bool,
    /// By worker index; a worker that went by itself leaves `None`.
    pub(super) threads: Vec<Option<P::Thread>>,
    /// Indices below `threads.len()` that no worker has.
    pub(super) free: Vec<usize>,
    /// Bits of the intake's counters that no lane has.
    pub(super) free_counters: u32,
    pub(super) counters: Counters,
}
fields!(State<P: Platform> {
    entry, queued, idle, sentinel, kicked, alive, blocked, aside, seen, starting, spare_missed,
    stopping, threads, free, free_counters, counters,
});

impl<P: Platform> State<P> {
    pub(super) fn new(entry: Entry<P>, census: Arc<Census<P>>) -> Self {
        Self {
            entry,
            queued: 0,
            idle: Vec::new(),
            sentinel: None,
            kicked: None,
            alive: 0,
            blocked: 0,
            aside: Vec::new(),
            whereabouts: Whereabouts::new(),
            seen: Vec::new(),
            starting: false,
            spare_missed: false,
            spare_refused: false,
            reserve: Reserve::None,
            progress: Progress::default(),
            census,
            stopping: false,
            threads: Vec::new(),
            free: Vec::new(),
            free_counters: (1 << TAIL_COUNTERS) - 1,
            counters: Counters::default(),
        }
    }

    pub(super) fn idle_count(&self) -> usize {
        self.idle.len() + usize::from(self.sentinel.is_some())
    }

    /// Workers that run items, look for some, or are on their way to.
    pub(super) fn active(&self) -> usize {
        self.alive - self.blocked - self.idle_count()
    }

    /// An index for one more worker, which counts as alive from here on.
    pub(super) fn reserve_worker(&mut self, pool: &Pool<P>) -> Option<usize> {
        let index = if self.alive < pool.most_workers && self.census.enter() {
            let index = self.claim_index(pool);
            if index.is_none() {
                self.census.leave();
            }
            index
        } else {
            None
        };
        if index.is_none() {
            self.spare_refused = true;
            self.counters.refused_workers += 1;
        }
        self.alive += usize::from(index.is_some());
        index
    }

    /// An index that no worker has, with its desk.
    pub(super) fn claim_index(&mut self, pool: &Pool<P>) -> Option<usize> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.threads.len() < MOST_WORKERS => {
                self.threads.push(None);
                self.aside.push(Aside::No);
                self.seen.push(Seen::default());
                self.threads.len() - 1
            }
            None => return None,
        };
        pool.ensure_desk(index);
        Some(index)
    }

    /// Counts a worker as blocked, or not, or as blocked for another reason.
    pub(super) fn put_aside(&mut self, worker: usize, aside: Aside) {
        self.blocked -= usize::from(self.aside[worker] != Aside::No);
        self.blocked += usize::from(aside != Aside::No);
        if aside != Aside::No {
            self.whereabouts.rests(worker);
        }
        self.aside[worker] = aside;
    }

    /// Undoes a reservation, or sees a worker off.
    pub(super) fn retire_worker(&mut self, index: usize) {
        if index == RESERVE && self.reserve != Reserve::None {
            // Its thread stays.
            self.alive -= usize::from(self.reserve == Reserve::Called);
            self.reserve = Reserve::StandsBy;
            return;
        }
        self.census.leave();
        // The thread ends by itself; nobody waits for it any more.
        self.threads[index] = None;
        self.free.push(index);
        self.alive -= 1;
    }

    /// All threads but that of worker `but`, to be joined.
    pub(super) fn take_threads(&mut self, but: Option<usize>) -> Vec<P::Thread> {
        self.threads
            .iter_mut()
            .enumerate()
            .filter(|(index, _)| Some(*index) != but)
            .filter_map(|(_, thread)| thread.take())
            .collect()
    }
}
