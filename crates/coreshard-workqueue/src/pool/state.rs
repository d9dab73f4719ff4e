//! What a pool's lock protects.

use std::collections::VecDeque;
use std::sync::Arc;

use coreshard_platform::{Platform, fields};

use super::placement::Placement;
use super::rescuer::{RESCUER, Rescuer};
use super::scan::{Progress, Seen};
use super::worker_count::WorkerCount;
use super::{LinkTag, MAX_WORKERS, Pool, Takers};
use crate::base::item::Item;
use crate::intake::TAIL_COUNTERS;

/// Whether a worker counts as blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    No,
    /// It said so, with `blocking`.
    Declared,
    /// The monitor found it inside an item, using no CPU time.
    Presumed,
    /// The monitor found it inside an item, using a CPU for long.
    Hog,
    /// It goes for good: nothing is left to it but its last hook. It still has its slot.
    Leaving,
}

/// The thread of a worker, as its starter leaves it for whoever stops the pool.
#[derive(Debug)]
pub(super) enum ThreadSlot<T> {
    /// No worker has the index.
    None,
    /// The worker's starter brings it.
    Coming,
    Here(T),
    /// Whoever stops the pool waits for it.
    Taken,
    /// The worker went before its handle came; the index is free when that has come.
    Late,
}

impl<T> ThreadSlot<T> {
    fn take(&mut self) -> Option<T> {
        match std::mem::replace(self, Self::Taken) {
            Self::Here(thread) => Some(thread),
            other => {
                *self = other;
                None
            }
        }
    }
}

/// The taker's side of the intake.
pub(super) enum Worklist<P: Platform> {
    Locked(VecDeque<(Item, LinkTag)>),
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
    worker_count: Arc<WorkerCount<P>>,
    /// How many of them are this pool's.
    pub(super) counted: usize,
    /// By worker index.
    pub(super) threads: Vec<ThreadSlot<P::Thread>>,
    /// Indices below `threads.len()` that no worker has.
    pub(super) free: Vec<usize>,
    /// Bits of the intake's counters that no pool link has.
    pub(super) free_counters: u32,
    /// How often the monitor found a rule broken.
    pub(super) broken_rules: u64,
    pub(super) counters: Counters,
}
fields!(Cold<P: Platform> {
    seen, progress, worker_count, counted, threads, free, free_counters, broken_rules, counters,
});

/// All of it is `L:`. What whoever holds the lock needs most often comes first.
#[repr(C)]
pub(super) struct State<P: Platform> {
    /// Workers that sleep and are named nowhere else, the latest last.
    pub(super) idle: Vec<usize>,
    /// The worker that is on the wake word (lock-free rung only). It sleeps, or the producer that
    /// signalled is waking it: then the next holder of the lock notices.
    pub(super) designated: Option<usize>,
    /// The idle worker that was kicked and has not run yet (coalesced rung only); it is still in
    /// `idle`.
    pub(super) kicked: Option<usize>,
    pub(super) worklist: Worklist<P>,
    /// Items that came in by the locked rung.
    pub(super) queued: u64,
    /// Workers that exist, or are being started.
    pub(super) alive: usize,
    /// Workers that are not counted among those that run: as many as `blocked_as` has.
    pub(super) blocked: usize,
    /// Wake-ups that were decided on, and those that were spared; see `PoolStats`.
    pub(super) kicks: u64,
    pub(super) coalesced_kicks: u64,
    /// By worker index: who counts as blocked, and who said so.
    pub(super) blocked_as: Vec<Blocked>,
    /// Workers go when there is nothing to do.
    pub(super) stopping: bool,
    /// Workers that are being started.
    pub(super) starting: u16,
    /// One more worker was wanted while one was being started.
    pub(super) spare_missed: bool,
    /// One more worker was wanted, and could not be had.
    pub(super) spare_refused: bool,
    pub(super) rescuer: Rescuer,
    /// Where they run.
    pub(super) placement: Placement,
    cold: Box<Cold<P>>,
}
fields!(State<P: Platform> {
    idle, designated, kicked, worklist, queued, alive, blocked, kicks, coalesced_kicks, blocked_as, stopping, starting,
    spare_missed, spare_refused, rescuer, placement, cold,
});

impl<P: Platform> State<P> {
    pub(super) fn new(worklist: Worklist<P>, worker_count: Arc<WorkerCount<P>>) -> Self {
        let cold = Cold {
            seen: Vec::new(),
            progress: Progress::default(),
            worker_count,
            counted: 0,
            threads: Vec::new(),
            free: Vec::new(),
            free_counters: (1 << TAIL_COUNTERS) - 1,
            broken_rules: 0,
            counters: Counters::default(),
        };
        Self {
            idle: Vec::new(),
            designated: None,
            kicked: None,
            worklist,
            queued: 0,
            alive: 0,
            blocked: 0,
            kicks: 0,
            coalesced_kicks: 0,
            blocked_as: Vec::new(),
            stopping: false,
            starting: 0,
            spare_missed: false,
            spare_refused: false,
            rescuer: Rescuer::None,
            placement: Placement::new(),
            cold: Box::new(cold),
        }
    }

    /// What is seldom needed, to read.
    pub(super) fn cold(&self) -> &Cold<P> {
        P::touch_read(&raw const *self.cold);
        &self.cold
    }

    /// The same, for whoever is no part of what a platform measures.
    pub(super) fn cold_unseen(&self) -> &Cold<P> {
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
        self.idle.len() + usize::from(self.designated.is_some())
    }

    /// Workers that run items, look for some, or are on their way to.
    pub(super) fn active(&self) -> usize {
        self.alive - self.blocked - self.idle_count()
    }

    /// An index for one more worker, which counts as alive from here on.
    pub(super) fn reserve_worker(&mut self, pool: &Pool<P>) -> Option<usize> {
        let index = if self.alive < pool.most_workers && self.cold_mut().worker_count.enter() {
            let index = self.claim_index(pool);
            if index.is_none() {
                self.cold_mut().worker_count.leave();
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
        self.cold_mut().counted += usize::from(index.is_some());
        index
    }

    /// An index that no worker has, with its slot.
    pub(super) fn claim_index(&mut self, pool: &Pool<P>) -> Option<usize> {
        let index = match self.cold_mut().free.pop() {
            Some(index) => index,
            None if self.cold_mut().threads.len() < MAX_WORKERS => {
                self.cold_mut().threads.push(ThreadSlot::None);
                self.blocked_as.push(Blocked::No);
                self.cold_mut().seen.push(Seen::default());
                self.cold_mut().threads.len() - 1
            }
            None => return None,
        };
        self.cold_mut().threads[index] = ThreadSlot::Coming;
        pool.ensure_slot(index);
        Some(index)
    }

    /// Counts a worker as blocked, or not, or as blocked for another reason.
    pub(super) fn set_blocked(&mut self, worker: usize, blocked: Blocked) {
        self.blocked -= usize::from(self.blocked_as[worker] != Blocked::No);
        self.blocked += usize::from(blocked != Blocked::No);
        if blocked != Blocked::No {
            self.placement.rests(worker);
        }
        self.blocked_as[worker] = blocked;
    }

    /// A worker that is on no list has nothing more to do. It goes, or stands by if it is the rescuer.
    ///
    /// Its slot is its own until [`Self::retire_worker`]: a user's code runs on it before that.
    pub(super) fn let_go(&mut self, worker: usize) {
        if self.is_called(worker) {
            self.rescuer = Rescuer::StandsBy;
            self.alive -= 1;
        } else {
            self.set_blocked(worker, Blocked::Leaving);
        }
    }

    /// Sees a worker off: nothing runs on its thread from here on that knows of its slot. Or undoes a
    /// reservation.
    pub(super) fn retire_worker(&mut self, index: usize) {
        let is_rescuer = index == RESCUER && self.rescuer != Rescuer::None;
        if is_rescuer {
            self.alive -= usize::from(self.rescuer == Rescuer::Called);
            self.rescuer = Rescuer::Gone;
        } else {
            self.set_blocked(index, Blocked::No);
            self.alive -= 1;
            self.cold_mut().counted -= 1;
            self.cold_mut().worker_count.leave();
        }
        let cold = self.cold_mut();
        if matches!(cold.threads[index], ThreadSlot::Coming) {
            // Not given out again before: its handle would be taken for the next one's.
            cold.threads[index] = ThreadSlot::Late;
            return;
        }
        // The thread ends by itself; nobody waits for it any more, or somebody does.
        cold.threads[index] = ThreadSlot::None;
        if !is_rescuer {
            cold.free.push(index);
        }
    }

    /// The starter of a worker has its handle; or `None`, and nobody was started.
    pub(super) fn put_handle(&mut self, index: usize, thread: Option<P::Thread>) {
        if thread.is_none() {
            self.retire_worker(index);
        }
        let is_rescuer = index == RESCUER && self.rescuer != Rescuer::None;
        let cold = self.cold_mut();
        match (&cold.threads[index], thread) {
            (ThreadSlot::Coming, Some(thread)) => cold.threads[index] = ThreadSlot::Here(thread),
            _ => {
                cold.threads[index] = ThreadSlot::None;
                if !is_rescuer {
                    cold.free.push(index);
                }
            }
        }
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
