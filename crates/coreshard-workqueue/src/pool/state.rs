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

/// Counters that seldom change; what they mean is told by `PoolStats`.
#[derive(Debug, Default)]
pub(super) struct Counters {
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

/// What items and wake-ups have nothing to do with: apart from the rest, so that no line of it comes over
/// with the lock.
pub(super) struct Cold<P: Platform> {
    /// By worker index: what the monitor saw last.
    pub(super) seen: Vec<Seen>,
    pub(super) progress: Progress,
    /// Counts the runtime's workers.
    census: Arc<Census<P>>,
    /// By worker index; a worker that went by itself leaves `None`.
    pub(super) threads: Vec<Option<P::Thread>>,
    /// Indices below `threads.len()` that no worker has.
    pub(super) free: Vec<usize>,
    /// Bits of the intake's counters that no lane has.
    pub(super) free_counters: u32,
    pub(super) counters: Counters,
}
fields!(Cold<P: Platform> { seen, progress, census, threads, free, free_counters, counters });

/// All of it is `L:`. What whoever holds the lock needs most often comes first.
#[repr(C)]
pub(super) struct State<P: Platform> {
    /// Workers that sleep and are named nowhere else, the latest last.
    pub(super) idle: Vec<usize>,
    /// The worker that is on the board (lock-free rung only). It sleeps, or the producer that
    /// rang is waking it: then the next holder of the lock notices.
    pub(super) sentinel: Option<usize>,
    /// The idle worker that was kicked and has not run yet (coalesced rung only); it is still in
    /// `idle`.
    pub(super) kicked: Option<usize>,
    pub(super) entry: Entry<P>,
    /// Items that came in by the locked rung.
    pub(super) queued: u64,
    /// Workers that exist, or are being started.
    pub(super) alive: usize,
    /// Workers that wait for something else than work: as many as `aside` has.
    pub(super) blocked: usize,
    /// Wake-ups that were decided on, and those that were spared; see `PoolStats`.
    pub(super) kicks: u64,
    pub(super) coalesced_kicks: u64,
    /// By worker index: who counts as blocked, and who said so.
    pub(super) aside: Vec<Aside>,
    /// Workers go when there is nothing to do.
    pub(super) stopping: bool,
    /// A worker is being started.
    pub(super) starting: bool,
    /// One more worker was wanted while one was being started.
    pub(super) spare_missed: bool,
    /// One more worker was wanted, and could not be had.
    pub(super) spare_refused: bool,
    pub(super) reserve: Reserve,
    /// Where they run.
    pub(super) whereabouts: Whereabouts,
    cold: Box<Cold<P>>,
}
fields!(State<P: Platform> {
    idle, sentinel, kicked, entry, queued, alive, blocked, kicks, coalesced_kicks, aside, stopping, starting,
    spare_missed, spare_refused, reserve, whereabouts, cold,
});

impl<P: Platform> State<P> {
    pub(super) fn new(entry: Entry<P>, census: Arc<Census<P>>) -> Self {
        let cold = Cold {
            seen: Vec::new(),
            progress: Progress::default(),
            census,
            threads: Vec::new(),
            free: Vec::new(),
            free_counters: (1 << TAIL_COUNTERS) - 1,
            counters: Counters::default(),
        };
        Self {
            idle: Vec::new(),
            sentinel: None,
            kicked: None,
            entry,
            queued: 0,
            alive: 0,
            blocked: 0,
            kicks: 0,
            coalesced_kicks: 0,
            aside: Vec::new(),
            stopping: false,
            starting: false,
            spare_missed: false,
            spare_refused: false,
            reserve: Reserve::None,
            whereabouts: Whereabouts::new(),
            cold: Box::new(cold),
        }
    }

    /// What is seldom needed, to read.
    pub(super) fn cold(&self) -> &Cold<P> {
        P::touch_read(&raw const *self.cold);
        &self.cold
    }

    /// What is seldom needed, to change.
    pub(super) fn cold_mut(&mut self) -> &mut Cold<P> {
        P::touch_write(&raw const *self.cold);
        &mut self.cold
    }

    /// Names the fields of what is seldom needed to the platform.
    pub(super) fn describe_cold(&self) {
        P::describe(&raw const *self.cold);
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
        let index = if self.alive < pool.most_workers && self.cold_mut().census.enter() {
            let index = self.claim_index(pool);
            if index.is_none() {
                self.cold_mut().census.leave();
            }
            index
        } else {
            None
        };
        if index.is_none() {
            self.spare_refused = true;
            self.cold_mut().counters.refused_workers += 1;
        }
        self.alive += usize::from(index.is_some());
        index
    }

    /// An index that no worker has, with its desk.
    pub(super) fn claim_index(&mut self, pool: &Pool<P>) -> Option<usize> {
        let index = match self.cold_mut().free.pop() {
            Some(index) => index,
            None if self.cold_mut().threads.len() < MOST_WORKERS => {
                self.cold_mut().threads.push(None);
                self.aside.push(Aside::No);
                self.cold_mut().seen.push(Seen::default());
                self.cold_mut().threads.len() - 1
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
        self.cold_mut().census.leave();
        // The thread ends by itself; nobody waits for it any more.
        self.cold_mut().threads[index] = None;
        self.cold_mut().free.push(index);
        self.alive -= 1;
    }

    /// All threads but that of worker `but`, to be joined.
    pub(super) fn take_threads(&mut self, but: Option<usize>) -> Vec<P::Thread> {
        self.cold_mut()
            .threads
            .iter_mut()
            .enumerate()
            .filter(|(index, _)| Some(*index) != but)
            .filter_map(|(_, thread)| thread.take())
            .collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::mem::{offset_of, size_of};

    use coreshard_platform::{Host, LINE_PAIR_BYTES, Lock};

    use super::*;

    /// What each item and each wake-up needs comes with the lock, in two lines and a word or two; the rest
    /// takes no more than as much again.
    #[test]
    fn what_is_needed_most_often_comes_with_the_lock() {
        let last = offset_of!(State<Host>, coalesced_kicks) + size_of::<u64>();
        let lock = size_of::<Lock<Host, u64>>() - size_of::<u64>();
        assert!(lock + last <= LINE_PAIR_BYTES + 16, "{lock} + {last}");
        assert!(size_of::<State<Host>>() <= 2 * LINE_PAIR_BYTES, "{}", size_of::<State<Host>>());
    }
}
