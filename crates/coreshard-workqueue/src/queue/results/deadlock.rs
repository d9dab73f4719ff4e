//! How a worker may wait for an item that has not begun, and when the wait is rejected because it would never end.

use coreshard_platform::{Platform, Reading};

use crate::pool::{CurrentWorker, Inside, SpawnPlace, is_waited_for_by};
use crate::queue::generations::Admission;
use crate::queue::link::{PoolLink, SubmitPermit, inside};
use crate::queue::shared::Shared;

/// The requirements for an item to begin.
#[derive(Clone, Copy)]
pub(super) struct Needs {
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
    pub(super) fn of<P: Platform>(link: &PoolLink<P>) -> Self {
        Self {
            crew: link.pool.crew(),
            set: link.pool.set(),
            takes_turns: link.is_limited().then_some(link.core.is_ordered),
            limiter: link.limiter_id(),
        }
    }

    /// True if the item waits for a turn before it goes to its pool.
    pub(super) fn take_turns(&self) -> bool {
        self.takes_turns.is_some()
    }
}

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
    pub(super) fn wait(&self, needs: Needs) -> Wait {
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
