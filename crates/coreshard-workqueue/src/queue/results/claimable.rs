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

use super::deadlock::{Needs, Wait, Waiter};
use crate::pool::{CurrentWorker, inside_item};
use crate::queue::link::{GateAnswer, PoolLink, SubmitPermit, inside};

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

// SAFETY: a pool link is shared between threads as it is; the other fields are plain values, or atomic.
unsafe impl<P: Platform> Send for Claimable<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Sync for Claimable<P> {}

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
        self.needs.take_turns()
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
