//! What a pool's lock protects.

use std::collections::VecDeque;
use std::sync::Arc;

use coreshard_platform::{Platform, fields};

use super::aside::Aside;
use super::links::LinkTag;
use super::patience::SHORT_CLAIMS;
use super::placement::{FreeCpus, Placement};
use super::seen::{Progress, Seen};
use super::sizes::Takers;
use super::worker_count::WorkerCount;
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

/// The rescuer's index, in the pools that have one.
pub(super) const RESCUER: usize = 0;

/// Whether a pool has a rescuer, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rescuer {
    /// The pool is to have none, or was never started.
    None,
    /// Its thread is not there.
    Gone,
    /// It waits to be called, and counts as no worker.
    StandsBy,
    /// It works.
    Called,
    /// It ends, and counts as no worker; its slot is still its own.
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
    /// It is a thread that somebody else waits for, or nobody.
    Elsewhere,
    /// Whoever stops the pool waits for it.
    Taken,
    /// The worker went before its handle came; the index is free when that has come.
    Late,
}

impl<T> ThreadSlot<T> {
    pub(super) fn take(&mut self) -> Option<T> {
        match std::mem::replace(self, Self::Taken) {
            Self::Here(thread) => Some(thread),
            other => {
                *self = other;
                None
            }
        }
    }
}

/// Workers with a smaller index may be runners-up: each has a bit.
pub(super) const MAX_NAMED: usize = u64::BITS as usize;

/// The taker's side of the intake.
pub(super) enum Worklist<P: Platform> {
    Locked(VecDeque<(Item, LinkTag)>),
    LockFree(Takers<P>),
}

/// A worker that was chosen under the lock: whoever holds this wakes it, exactly once.
#[must_use]
pub(super) struct Kick {
    pub(super) worker: usize,
    /// Where it should wake up, if not where it slept; see `placement`.
    pub(super) steer_to: Option<FreeCpus>,
}

impl Kick {
    pub(super) fn new(worker: usize) -> Self {
        Self { worker, steer_to: None }
    }
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
    /// By worker index: which hand-over was its last, of those that it has declared itself.
    pub(super) declared: Vec<u64>,
    pub(super) progress: Progress,
    /// Counts the runtime's workers.
    pub(super) worker_count: Arc<WorkerCount<P>>,
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
    /// Of a team: the thread that made it has ended, and was a member.
    pub(super) has_lost_maker: bool,
    /// What `has_aside` is about.
    pub(super) aside: Aside,
    /// Workers that may steal beyond the limit, since the hogs may wait for forked jobs. 0 without hogs.
    extra_thieves: u16,
}
fields!(Cold<P: Platform> {
    seen, declared, progress, worker_count, counted, threads, free, free_counters, broken_rules, counters, has_lost_maker, aside, extra_thieves,
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
    /// The sleepers that the producer of a burst wakes as well, a bit each. They sleep, or producers are waking them, as
    /// `designated`.
    pub(super) runner_ups: u64,
    /// Workers that are being started.
    pub(super) starting: u16,
    /// Workers go when there is nothing to do.
    pub(super) stopping: bool,
    /// Of a team: workers go when all have nothing to do.
    pub(super) ending: bool,
    /// Workers that are blocked as hogs.
    hogs: u16,
    /// Items were taken out of the worklist and have not begun, or hogs' places are on loan.
    pub(super) has_aside: bool,
    pub(super) worklist: Worklist<P>,
    /// Workers that exist, or are being started.
    pub(super) alive: usize,
    /// Workers that are not counted among those that run: as many as `blocked_as` has.
    pub(super) blocked: usize,
    /// Items that came in by the locked rung.
    pub(super) queued: u64,
    /// Claims since a worker last came by that had just had long items, as far as that matters.
    pub(super) since_long: u32,
    /// Wake-ups that were decided on, and those that were spared; see `PoolStats`. From here on with wake-ups,
    /// not with each item.
    pub(super) kicks: u64,
    pub(super) coalesced_kicks: u64,
    /// By worker index: who counts as blocked, and who said so.
    pub(super) blocked_as: Vec<Blocked>,
    /// One more worker was wanted while one was being started.
    pub(super) spare_missed: bool,
    /// One more worker was wanted, and could not be had.
    pub(super) spare_refused: bool,
    pub(super) rescuer: Rescuer,
    /// The worker that lay down last to wait in the reactor.
    pub(super) in_reactor: Option<usize>,
    /// Where they run.
    pub(super) placement: Placement,
    cold: Box<Cold<P>>,
}
fields!(State<P: Platform> {
    idle, designated, kicked, runner_ups, starting, stopping, ending, worklist, alive, blocked, queued, since_long, kicks, coalesced_kicks, blocked_as, hogs,
    has_aside, spare_missed, spare_refused, rescuer, in_reactor, placement, cold,
});

impl<P: Platform> State<P> {
    pub(super) fn new(worklist: Worklist<P>, worker_count: Arc<WorkerCount<P>>) -> Self {
        let cold = Cold {
            seen: Vec::new(),
            declared: Vec::new(),
            progress: Progress::default(),
            worker_count,
            counted: 0,
            threads: Vec::new(),
            free: Vec::new(),
            free_counters: (1 << TAIL_COUNTERS) - 1,
            broken_rules: 0,
            counters: Counters::default(),
            has_lost_maker: false,
            aside: Aside::default(),
            extra_thieves: 0,
        };
        Self {
            idle: Vec::new(),
            designated: None,
            runner_ups: 0,
            kicked: None,
            worklist,
            queued: 0,
            alive: 0,
            blocked: 0,
            since_long: SHORT_CLAIMS,
            kicks: 0,
            coalesced_kicks: 0,
            blocked_as: Vec::new(),
            hogs: 0,
            has_aside: false,
            stopping: false,
            ending: false,
            starting: 0,
            spare_missed: false,
            spare_refused: false,
            rescuer: Rescuer::None,
            in_reactor: None,
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

    pub(super) fn is_runner_up(&self, worker: usize) -> bool {
        worker < MAX_NAMED && self.runner_ups & 1 << worker != 0
    }

    pub(super) fn idle_count(&self) -> usize {
        self.idle.len()
            + usize::from(self.designated.is_some())
            + self.runner_ups.count_ones() as usize
    }

    /// Workers that run items, look for some, or are on their way to.
    pub(super) fn active(&self) -> usize {
        self.alive - self.blocked - self.idle_count()
    }

    /// Workers that have a CPU, or would if there were enough.
    pub(super) fn running(&self) -> usize {
        self.active() + usize::from(self.hogs)
    }

    pub(super) fn has_hogs(&self) -> bool {
        self.hogs > 0
    }

    /// Forked jobs are for as many workers as the pool has CPUs, `limit`, hogs included, and for those who may steal beyond.
    pub(super) fn may_steal_beside_hogs(&self, limit: usize, more: usize) -> bool {
        self.hogs == 0 || self.running() + more <= limit + usize::from(self.cold().extra_thieves)
    }

    /// The hogs may wait for what nobody may steal: one more may.
    pub(super) fn allow_one_more_thief(&mut self) {
        if self.hogs > 0 {
            let cold = self.cold_mut();
            cold.extra_thieves = cold.extra_thieves.saturating_add(1);
        }
    }

    /// Counts a worker as blocked, or not, or as blocked for another reason.
    pub(super) fn set_blocked(&mut self, worker: usize, blocked: Blocked) {
        let before = self.blocked_as[worker];
        self.blocked -= usize::from(before != Blocked::No);
        self.blocked += usize::from(blocked != Blocked::No);
        self.hogs -= u16::from(before == Blocked::Hog);
        self.hogs += u16::from(blocked == Blocked::Hog);
        if self.hogs == 0 && before == Blocked::Hog {
            self.cold_mut().extra_thieves = 0;
        }
        if blocked != Blocked::No {
            self.placement.rests(worker);
        }
        self.blocked_as[worker] = blocked;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::mem::{offset_of, size_of};

    use coreshard_platform::{Host, LINE_PAIR_BYTES, Lock};

    use super::*;

    /// What each item needs comes with the lock, in two lines and a word or two; the rest
    /// takes no more than as much again.
    #[test]
    fn what_is_needed_most_often_comes_with_the_lock() {
        let last = offset_of!(State<Host>, blocked) + size_of::<usize>();
        let lock = size_of::<Lock<Host, u64>>() - size_of::<u64>();
        assert!(lock + last <= LINE_PAIR_BYTES + 16, "{lock} + {last}");
        assert!(size_of::<State<Host>>() <= 2 * LINE_PAIR_BYTES, "{}", size_of::<State<Host>>());
    }
}
