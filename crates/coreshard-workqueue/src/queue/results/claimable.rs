//! An item that whoever waits for it may run instead of a worker.
//!
//! What lies in the intake is a pointer to a shared cell that holds the closure. A worker that comes to
//! it *claims* the closure and runs it; a waiter that comes first claims it, and runs it on its own
//! thread. So a wait inside an item needs no other worker, where that item has not begun: any number of
//! items may wait for one another without as many threads.
//!
//! The state, and who moves it on:
//!
//! | state | meaning | moved on by |
//! |---|---|---|
//! | `QUEUED` | nobody has begun | a worker to `WORKER`, the waiter to `WAITER`, who cancels it to `OVER` |
//! | `WORKER` | a worker has it, or has had it | – |
//! | `WAITER` | the waiter runs it; its place in the queue is still there | the waiter to `OVER`, a worker to `RELAYED` |
//! | `OVER` | the waiter has run it, or it was cancelled; its place is still there | – (a worker counts it as over when it comes by) |
//! | `RELAYED` | the waiter runs it; its place is gone, and one more is counted in for it | – (the waiter counts that as over) |
//!
//! So the pool link counts the item as in flight until both have happened: the item is over, and its place in
//! the intake is gone. Whoever comes second counts it, and the pool link lives until then.
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

/// How long a waiter whose stack is used up leaves an item that nobody has begun to others, before it
/// looks whether there are any that go on.
pub(crate) const PATIENCE: Duration = Duration::from_millis(10);

/// Who has an item, and where it was queued.
///
/// Its words name things by their addresses, which may be gone once the item is over: they are compared
/// with those of what is here for certain (this worker's pool, the items that this thread is inside
/// of), and are what they say if the item is found not to have begun after that.
pub(crate) struct Claimable<P: Platform> {
    state: P::AtomicU32,
    /// Beside the flags, so that an item is no larger.
    injector: u16,
    /// Counted the item in; good while the item is not over.
    link: NonNull<PoolLink<P>>,
    /// See [`PoolLink::queue_id`].
    queue: u64,
    needs: Needs,
    /// Its waiter is inside a scope, an install or a loop, which has begun: a queue that is shut down at once runs it.
    is_part: bool,
}

/// What an item needs to begin.
#[derive(Clone, Copy)]
struct Needs {
    /// Whose workers may run it, see [`CurrentWorker::crew`].
    crew: usize,
    /// See [`CurrentWorker::set`].
    set: usize,
    /// Whether it waits for a turn before it goes to its pool, since there are not turns for all; and if so, whether
    /// nothing of its queue may go before what came before it.
    takes_turns: Option<bool>,
    /// Which gives that turn, see [`PoolLink::limiter_id`].
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

// SAFETY: a pool link is shared between threads as it is; the rest is plain, or atomic.
unsafe impl<P: Platform> Send for Claimable<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Sync for Claimable<P> {}

/// A worker that is to wait for items of a queue, as it is until then.
pub(crate) struct Waiter {
    queue: u64,
    /// See [`CurrentWorker::crew`].
    crew: usize,
    /// See [`CurrentWorker::set`].
    set: usize,
    /// Whether it is inside an item of that queue.
    pub(crate) place: Inside,
    /// That item has a turn, and there is no other one.
    turn: Turn,
    /// Which gave it, see [`PoolLink::limiter_id`].
    limiter: u64,
    /// Nobody else does anything of that item meanwhile.
    is_alone: bool,
    /// It is inside an item of that queue, which looks at none of its items: what it begins for the queue may
    /// be a part of that.
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
    /// The worker on this thread, if there is one; it is to wait for items of the queue with this
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
            // What that looks at nothing of is known: so it is quicker.
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

    /// Where items can be spawned that are parts of an item of its queue: inside one, if nothing holds back what the
    /// queue is given now.
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

    /// True if what it does is a part of an item of its queue, on one of that queue's workers.
    pub(crate) fn is_part_of_item<P: Platform>(&self, shared: &Shared<P>) -> bool {
        match self.place {
            Inside::Here => true,
            Inside::Elsewhere => CurrentWorker::<P>::here().is_some_and(|worker| {
                shared.generations.current(&Reading::begin()).set.has(worker)
            }),
            Inside::No => false,
        }
    }

    /// How it may wait for an item that was counted in.
    pub(crate) fn wait_for<P: Platform>(&self, entry: &SubmitPermit<'_, P>) -> Wait {
        self.wait(Needs::of(entry.place().0))
    }

    /// Who has a turn and does nothing but wait lends it to what it waits for, so there are never more
    /// inside than may be. Where others do parts of the same item, what one of them waits for is a part, too:
    /// all of them together have the one turn. But where that is the only one, the queue's items exclude one
    /// another, and what two parts wait for would not.
    ///
    /// Where the queue has moved to other pools since the waiter's item began, the item may run with that
    /// one, which is still where the queue was: items of the past and of the present could else wait for one
    /// another until no worker is left on either side.
    fn wait(&self, needs: Needs) -> Wait {
        let Needs { crew, set, takes_turns, limiter } = needs;
        let has_moved = self.place == Inside::Here && set != self.set;
        let runs_here = crew == self.crew || has_moved;
        match takes_turns {
            None if runs_here => Wait::Help,
            None => Wait::Sleep,
            Some(true) if self.is_waited_for => Wait::Never,
            // No turn is needed that this item has.
            Some(_) if self.turn == Turn::None || self.limiter != limiter => Wait::Sleep,
            Some(false) if runs_here && (self.is_alone || self.turn == Turn::One) => Wait::Help,
            Some(is_ordered) if is_ordered || self.turn == Turn::Only => Wait::Never,
            Some(_) => Wait::Sleep,
        }
    }
}

/// How a worker may wait for an item that nobody has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It may run the item itself.
    Help,
    /// Others have to.
    Sleep,
    /// It could never end: the item is behind one that this worker is inside of.
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

    /// True if only another item's waiter can run it, while that one waits.
    pub(crate) fn needs_lent_turn(&self) -> bool {
        self.needs.takes_turns.is_some()
    }

    /// True if nobody has it.
    pub(crate) fn is_queued(&self) -> bool {
        self.state.load(Relaxed) == QUEUED
    }

    /// How this thread may wait for it.
    pub(crate) fn wait(&self) -> Wait {
        if !self.is_queued() {
            return Wait::Sleep;
        }
        let Some(waiter) = Waiter::here::<P>(self.queue) else { return Wait::Sleep };
        let wait = waiter.wait(self.needs);
        // If it has not begun by now, the addresses have been right.
        if self.is_queued() { wait } else { Wait::Sleep }
    }

    /// The name of the queue. The caller is inside an item of it.
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

    /// A worker has come to the item's place. True if it is to run it.
    pub(crate) fn begin(&self) -> bool {
        // Relaxed: what the item holds came with the item.
        let claimed = self.state.compare_exchange(QUEUED, WORKER, Relaxed, Acquire);
        if let Err(state) = claimed {
            self.pass(state);
        }
        claimed.is_ok()
    }

    /// A worker has come to the place of what the waiter runs, or has run.
    #[cold]
    fn pass(&self, state: u32) {
        if state == OVER {
            return;
        }
        // SAFETY: this place is not counted as over before the worker has returned.
        let link = unsafe { self.link.as_ref() };
        link.count_relayed(usize::from(self.injector));
        // Release: whoever counts it as over has seen it counted in. Acquire, where it is over: what
        // the waiter did comes before what this worker counts.
        if self.state.compare_exchange(WAITER, RELAYED, AcqRel, Acquire).is_err() {
            link.take_relayed_back(usize::from(self.injector));
        }
    }

    /// The waiter takes it, if its queue's gate lets it begin: then the caller calls [`Self::run`].
    pub(crate) fn claim(&self) -> GateAnswer {
        let _reading = Reading::<P>::begin();
        if !self.is_queued() {
            return GateAnswer::Begun;
        }
        // SAFETY: the link counts the item, which had not begun within this section, and so is there until its end.
        let link = unsafe { self.link.as_ref() };
        // Relaxed: what the item holds came with the handle.
        let claim = || self.state.compare_exchange(QUEUED, WAITER, Relaxed, Relaxed).is_ok();
        let claimed = link.begin_beside_pool(self.is_part, claim);
        if claimed == GateAnswer::Claimed {
            P::item_is_taken();
        }
        claimed
    }

    /// Whoever has its handle takes it back, on whatever thread. True if nobody has begun it, nor will.
    pub(crate) fn cancel(&self) -> bool {
        // Relaxed: what the item holds came with the handle, and a worker that finds it so touches nothing of
        // that.
        let is_cancelled = self.state.compare_exchange(QUEUED, OVER, Relaxed, Relaxed).is_ok();
        if is_cancelled {
            P::item_is_taken();
        }
        is_cancelled
    }

    /// For a model that fails.
    #[cfg(all(test, loom))]
    pub(crate) fn cancel_in_two_steps(&self) -> bool {
        let is_queued = self.is_queued();
        if is_queued {
            self.state.store(OVER, Relaxed);
        }
        is_queued
    }

    /// After [`Self::claim`], on a worker: runs `work`, as the item.
    pub(crate) fn run(&self, whole: *const (), work: impl FnOnce()) {
        let Some(worker) = CurrentWorker::<P>::here() else {
            unreachable!("a worker has claimed it")
        };
        worker.begin_inside();
        let link = self.link;
        if let Err(thrown) = user::call(|| inside_item::<P, _>(link.cast(), whole, work)) {
            // SAFETY: the pool link lives until the item is over and its place is gone.
            unsafe { link.as_ref() }.on_panic(thrown);
        }
        if self.end() {
            worker.pool().event.notify();
        }
    }

    /// What the waiter runs is over. True if somebody waits to hear of it.
    fn end(&self) -> bool {
        // Release: whoever finds it over sees what it did. Acquire: the place that was counted in.
        self.state.swap(OVER, AcqRel) == RELAYED
            // SAFETY: what was counted in for it keeps the pool link until here.
            && unsafe { PoolLink::finish(self.link, 1) }
    }

    /// As [`Self::end`], for models.
    #[cfg(all(test, loom))]
    pub(crate) fn end_in_model(&self) {
        self.end();
    }
}
