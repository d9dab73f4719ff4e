//! An item that its waiter may run in place of a worker.
//!
//! The intake holds a pointer to a shared cell with the closure. A worker that reaches it *claims* the closure and runs it. A
//! waiter that comes first claims it, and runs it on its own thread. So a wait inside an item needs no other worker if the
//! awaited item has not begun: any number of items may wait for one another without as many threads.
//!
//! The states and their transitions:
//!
//! | state | meaning | next |
//! |---|---|---|
//! | `QUEUED` | not begun | a worker sets `WORKER`, the waiter sets `WAITER`, or `OVER` if it cancels |
//! | `WORKER` | claimed by a worker | – |
//! | `WAITER` | the waiter runs it; its place is still in the queue | the waiter sets `OVER`, a worker sets `RELAYED` |
//! | `OVER` | the waiter has run or cancelled it; its place is still in the queue | – (a worker counts it as finished when it reaches the place) |
//! | `RELAYED` | the waiter runs it; its place has left the queue, and one more item is counted in for it | – (the waiter counts that one as finished) |
//!
//! So the pool link counts the item as in flight until both have happened: the item has finished, and its place has left the
//! intake. The second of the two threads counts it, and the pool link lives until then.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform, Reading, user};

use crate::pool::{CurrentWorker, Inside, SpawnPlace, inside_item, is_waited_for_by};
use crate::queue::generations::Admission;
use crate::queue::link::{GateAnswer, PoolLink, SubmitPermit, inside};
use crate::queue::shared::Shared;

const QUEUED: u32 = 0;
const WORKER: u32 = 1;
const WAITER: u32 = 2;
const OVER: u32 = 3;
const RELAYED: u32 = 4;

/// How long a waiter whose stack is used up leaves an item that has not begun to other workers, before it checks whether any of
/// them can still make progress.
pub(crate) const PATIENCE: Duration = Duration::from_millis(10);

/// The claim state of an item, and the pool and injector that it was queued at.
///
/// Its words identify things by their addresses, which may be stale once the item has finished. They are only compared with the
/// addresses of things known to be alive (this worker's pool, the items that this thread is inside of). The comparison is valid
/// if the item is found afterwards not to have begun.
pub(crate) struct Claimable<P: Platform> {
    state: P::AtomicU32,
    /// Beside the flags, so that it does not make an item larger.
    injector: u16,
    /// The link that counted the item in; valid until the item has finished.
    link: NonNull<PoolLink<P>>,
    /// See [`PoolLink::queue_id`].
    queue: u64,
    needs: Needs,
    /// Its waiter is inside a scope, an install or a loop that has begun: a queue that is shut down at once still runs it.
    is_part: bool,
}

/// The requirements for an item to begin.
#[derive(Clone, Copy)]
struct Needs {
    /// The workers that may run it; see [`CurrentWorker::crew`].
    crew: usize,
    /// See [`CurrentWorker::set`].
    set: usize,
    /// Set if the item waits for a turn before it goes to its pool. The value says whether the queue's items must then go in
    /// order.
    takes_turns: Option<bool>,
    /// The limiter that gives the turn; see [`PoolLink::limiter_id`].
    limiter: u64,
}

impl Needs {
    fn of<P: Platform>(link: &PoolLink<P>) -> Self {
        Self {
            crew: link.pool.crew(),
            set: link.pool.set(),
            takes_turns: link.is_limited().then_some(link.core.is_ordered),
            limiter: link.limiter_id(),
        }
    }
}

// SAFETY: a pool link is shared between threads as it is; the other fields are plain values, or atomic.
unsafe impl<P: Platform> Send for Claimable<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Sync for Claimable<P> {}

/// The state of a worker that is about to wait for items of a queue, valid during the wait.
pub(crate) struct Waiter {
    queue: u64,
    /// See [`CurrentWorker::crew`].
    crew: usize,
    /// See [`CurrentWorker::set`].
    set: usize,
    /// Whether it is inside an item of that queue.
    pub(crate) place: Inside,
    /// The turn that this item has, and whether it is the only one.
    turn: Turn,
    /// The limiter that gave it; see [`PoolLink::limiter_id`].
    limiter: u64,
    /// No other thread works on that item meanwhile.
    is_alone: bool,
    /// It is inside an item of that queue, which does not measure or bound its items: work that it queues there may be part of
    /// that item.
    may_spawn: bool,
    /// It is inside a reusable item whose next run is in that queue, and waits for this one to end.
    is_waited_for: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    None,
    /// One of several.
    One,
    Only,
}

impl Waiter {
    /// Describes the worker on this thread, if there is one. It is about to wait for items of the queue with this
    /// [`PoolLink::queue_id`].
    pub(crate) fn here<P: Platform>(queue: u64) -> Option<Self> {
        let worker = CurrentWorker::<P>::here()?;
        let at = worker.spawn_place();
        let mut waiter = Self {
            queue,
            crew: worker.crew(),
            set: worker.set(),
            place: if at.is_here { Inside::Here } else { Inside::Elsewhere },
            turn: Turn::None,
            limiter: 0,
            is_alone: false,
            may_spawn: true,
            is_waited_for: false,
        };
        if at.queue == queue {
            // Every other field is known here, so this path is faster.
            return Some(waiter);
        }
        waiter.may_spawn = false;
        waiter.place = inside::<P>(|link| {
            let of_queue = link.queue_id() == queue;
            if of_queue {
                waiter.may_spawn = link.is_direct();
                waiter.limiter = link.limiter_id();
                waiter.turn = match (link.takes_turns(), link.has_only_turn()) {
                    (false, _) => Turn::None,
                    (true, false) => Turn::One,
                    (true, true) => Turn::Only,
                };
            }
            of_queue
        });
        waiter.is_alone = waiter.place == Inside::Here && !worker.has_forked();
        waiter.is_waited_for = is_waited_for_by::<P>(queue);
        Some(waiter)
    }

    /// Returns the place to spawn items as parts of an item of the queue: inside one, if nothing holds back new items of the
    /// queue.
    pub(crate) fn spawn_place<P: Platform>(&self, shared: &Shared<P>) -> Option<SpawnPlace> {
        if !self.may_spawn {
            return None;
        }
        let reading = Reading::begin();
        let now = shared.generations.current(&reading);
        let worker = CurrentWorker::<P>::here()?;
        let place = SpawnPlace { queue: self.queue, is_here: self.place == Inside::Here };
        (now.admission == Admission::Free && now.set.has(worker)).then_some(place)
    }

    /// Returns true if its work is part of an item of its queue, on one of that queue's workers.
    pub(crate) fn is_part_of_item<P: Platform>(&self, shared: &Shared<P>) -> bool {
        match self.place {
            Inside::Here => true,
            Inside::Elsewhere => CurrentWorker::<P>::here().is_some_and(|worker| {
                shared.generations.current(&Reading::begin()).set.has(worker)
            }),
            Inside::No => false,
        }
    }

    /// Returns how it may wait for an item that was counted in.
    pub(crate) fn wait_for<P: Platform>(&self, entry: &SubmitPermit<'_, P>) -> Wait {
        self.wait(Needs::of(entry.place().0))
    }

    /// A worker that has a turn and only waits lends the turn to the item it waits for, so the limit is never exceeded. If
    /// other workers run parts of the same item, an item awaited by one of them is also a part: all of them together have the
    /// one turn. But if that turn is the only one, the queue's items exclude one another, and items awaited by two parts would
    /// not.
    ///
    /// If the queue has moved to other pools since the waiter's item began, the item may still run with the waiter in the pool
    /// that the queue used then. Otherwise items of the old and the new pools could wait for one another until neither side has
    /// a worker left.
    fn wait(&self, needs: Needs) -> Wait {
        let Needs { crew, set, takes_turns, limiter } = needs;
        let has_moved = self.place == Inside::Here && set != self.set;
        let runs_here = crew == self.crew || has_moved;
        match takes_turns {
            None if runs_here => Wait::Help,
            None => Wait::Sleep,
            Some(true) if self.is_waited_for => Wait::Never,
            // It needs no turn that the waiter's item has.
            Some(_) if self.turn == Turn::None || self.limiter != limiter => Wait::Sleep,
            Some(false) if runs_here && (self.is_alone || self.turn == Turn::One) => Wait::Help,
            Some(is_ordered) if is_ordered || self.turn == Turn::Only => Wait::Never,
            Some(_) => Wait::Sleep,
        }
    }
}

/// How a worker may wait for an item that has not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It may run the item itself.
    Help,
    /// Another worker must run it.
    Sleep,
    /// The wait could never end: the item is behind one that this worker is inside of.
    Never,
}

impl<P: Platform> Claimable<P> {
    /// For the item that was counted in, and is sent next.
    pub(crate) fn new(entry: &SubmitPermit<'_, P>, is_part: bool) -> Self {
        let (link, injector) = entry.place();
        Self {
            state: P::AtomicU32::new(QUEUED),
            injector: injector as u16,
            link: NonNull::from(link),
            queue: link.queue_id(),
            needs: Needs::of(link),
            is_part,
        }
    }

    /// Returns true if only the waiter of another item can run it, while that waiter waits.
    pub(crate) fn needs_lent_turn(&self) -> bool {
        self.needs.takes_turns.is_some()
    }

    /// Returns true if it has not been claimed.
    pub(crate) fn is_queued(&self) -> bool {
        self.state.load(Relaxed) == QUEUED
    }

    /// Returns how this thread may wait for it.
    pub(crate) fn wait(&self) -> Wait {
        if !self.is_queued() {
            return Wait::Sleep;
        }
        let Some(waiter) = Waiter::here::<P>(self.queue) else { return Wait::Sleep };
        let wait = waiter.wait(self.needs);
        // If it has not begun by now, the addresses were valid.
        if self.is_queued() { wait } else { Wait::Sleep }
    }

    /// Returns the name of the queue. The caller is inside an item of it.
    pub(crate) fn queue_name(&self) -> String {
        let mut name = String::new();
        inside::<P>(|link| {
            let of_queue = link.queue_id() == self.queue;
            if of_queue {
                name.clone_from(&link.core.name);
            }
            of_queue
        });
        name
    }

    /// Called by a worker that has reached the item's place. Returns true if the worker is to run it.
    pub(crate) fn begin(&self) -> bool {
        // Relaxed: the item's contents came with the item.
        let claimed = self.state.compare_exchange(QUEUED, WORKER, Relaxed, Acquire);
        if let Err(state) = claimed {
            self.pass(state);
        }
        claimed.is_ok()
    }

    /// Called by a worker that has reached the place of an item that its waiter runs or has run.
    #[cold]
    fn pass(&self, state: u32) {
        if state == OVER {
            return;
        }
        // SAFETY: this place is not counted as finished before the worker has returned.
        let link = unsafe { self.link.as_ref() };
        link.count_relayed(usize::from(self.injector));
        // Release: the thread that counts it as finished has seen it counted in. Acquire, if it is `OVER`: the waiter's
        // accesses happen before this worker counts.
        if self.state.compare_exchange(WAITER, RELAYED, AcqRel, Acquire).is_err() {
            link.take_relayed_back(usize::from(self.injector));
        }
    }

    /// Claims the item for its waiter, if the queue's gate lets it begin; the caller then calls [`Self::run`].
    pub(crate) fn claim(&self) -> GateAnswer {
        let _reading = Reading::<P>::begin();
        if !self.is_queued() {
            return GateAnswer::Begun;
        }
        // SAFETY: the link counts the item, which had not begun within this section, so it lives until the section's end.
        let link = unsafe { self.link.as_ref() };
        // Relaxed: the item's contents came with the handle.
        let claim = || self.state.compare_exchange(QUEUED, WAITER, Relaxed, Relaxed).is_ok();
        let claimed = link.begin_beside_pool(self.is_part, claim);
        if claimed == GateAnswer::Claimed {
            P::item_is_taken();
        }
        claimed
    }

    /// Cancels the item for the holder of its handle, on any thread. Returns true if it has not begun, and never will.
    pub(crate) fn cancel(&self) -> bool {
        // Relaxed: the item's contents came with the handle, and a worker that finds it cancelled does not access them.
        let is_cancelled = self.state.compare_exchange(QUEUED, OVER, Relaxed, Relaxed).is_ok();
        if is_cancelled {
            P::item_is_taken();
        }
        is_cancelled
    }

    /// Incorrect on purpose, for a model that must fail.
    #[cfg(all(test, loom))]
    pub(crate) fn cancel_in_two_steps(&self) -> bool {
        let is_queued = self.is_queued();
        if is_queued {
            self.state.store(OVER, Relaxed);
        }
        is_queued
    }

    /// Runs `work` as the item, on a worker, after [`Self::claim`].
    pub(crate) fn run(&self, whole: *const (), work: impl FnOnce()) {
        let Some(worker) = CurrentWorker::<P>::here() else {
            unreachable!("a worker has claimed it")
        };
        worker.begin_inside();
        let link = self.link;
        if let Err(thrown) = user::call(|| inside_item::<P, _>(link.cast(), whole, work)) {
            // SAFETY: the pool link lives until the item has finished and its place has left the queue.
            unsafe { link.as_ref() }.on_panic(thrown);
        }
        if self.end() {
            worker.pool().event.notify();
        }
    }

    /// Records that the item run by its waiter has finished. Returns true if a thread must be notified.
    fn end(&self) -> bool {
        // Release: a thread that finds it `OVER` sees its effects. Acquire: the place that was counted in.
        self.state.swap(OVER, AcqRel) == RELAYED
            // SAFETY: the extra count taken for it keeps the pool link alive until here.
            && unsafe { PoolLink::finish(self.link, 1) }
    }

    /// As [`Self::end`], for models.
    #[cfg(all(test, loom))]
    pub(crate) fn end_in_model(&self) {
        self.end();
    }
}
