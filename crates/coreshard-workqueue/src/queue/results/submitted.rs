//! A submitted item: the cell that holds its closure, and later its result.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{Platform, Time};

use super::claimable::{Claimable, PATIENCE};
use super::deadlock::Wait;
use super::item_cell::ItemCell;
use super::panics::{Panic, Unclaimed};
use crate::base::completion::Completion;
use crate::base::error::{Dropped, Forked};
use crate::base::item::ItemBody;
use crate::base::latch::Latch;
use crate::base::returned::{Returned, ReturnedBody};
use crate::insight::Label;
use crate::insight::diagnostic::say_panic;
use crate::pool::{
    CurrentWorker, JobId, blocking, blocking_if_relieved, wait_for_workers, wait_in_turns,
};
use crate::queue::link::{GateAnswer, SubmitPermit};
use crate::timers::Timers;

/// How often a waiter polls a pending result before it sleeps.
const SPINS: u32 = 200;

/// An item, and later its result, in one allocation. The item's place in the queue has one reference, its waiter the other.
pub(super) struct Submitted<P: Platform, F, T> {
    claimable: Claimable<P>,
    over: Completion<P>,
    slot: ItemCell<F, Result<T, Unclaimed<P>>>,
}

// SAFETY: the thread that has claimed the item takes the work and, if it is a worker, leaves the value before the latch opens
// (release); the waiter takes the value after it saw the latch open (acquire).
unsafe impl<P: Platform, F: Send, T: Send> Sync for Submitted<P, F, T> {}
// SAFETY: as above.
unsafe impl<P: Platform, F: Send, T: Send> Send for Submitted<P, F, T> {}

/// The waiter's view of an item.
pub(super) trait AwaitedItem<P: Platform, T> {
    fn claimable(&self) -> &Claimable<P>;
    fn over(&self) -> &Latch<P>;

    /// Runs the item here.
    ///
    /// # Safety
    /// The caller has just claimed it.
    unsafe fn run(&self) -> Result<T, Thrown>;

    /// Takes the value that the worker has left.
    ///
    /// # Safety
    /// The latch was seen to be open, and this is called once.
    unsafe fn take(&self) -> Result<T, Thrown>;
}

impl<P: Platform, F, T> Drop for Submitted<P, F, T> {
    /// Drops a result that was not taken. If its destructor panics, the panic goes to the thread that drops the last reference:
    /// the handle's owner, or the worker and so the queue's panic handler.
    fn drop(&mut self) {
        // Only a panic makes a call here, so the compiler sees that a closure needs no drop, and builds the item in place.
        if let Some(Ok(value)) = self.slot.take_mut()
            && let Err(thrown) = user::resume_unless_unwinding(user::discard(value))
        {
            say_panic(Err(thrown), "a result panicked as it was dropped");
        }
    }
}

impl<P: Platform, F, T> Submitted<P, F, T> {
    #[inline]
    pub(super) fn new(entry: &SubmitPermit<'_, P>, work: F) -> Arc<Self> {
        Arc::new(Self {
            claimable: Claimable::new(entry, false),
            over: Completion::new(),
            slot: ItemCell::new(work),
        })
    }
}

impl<P: Platform, F: FnOnce() -> T, T> AwaitedItem<P, T> for Submitted<P, F, T> {
    fn claimable(&self) -> &Claimable<P> {
        &self.claimable
    }

    fn over(&self) -> &Latch<P> {
        self.over.latch()
    }

    unsafe fn run(&self) -> Result<T, Thrown> {
        let mut result = None;
        // SAFETY: by this function's contract.
        self.claimable.run(whole_at(self.over()), || result = Some(unsafe { self.slot.call() }));
        result.expect("it was run")
    }

    unsafe fn take(&self) -> Result<T, Thrown> {
        // SAFETY: by this function's contract.
        match unsafe { self.slot.take() } {
            Some(value) => value.map_err(Unclaimed::claim),
            None => panic!("the result of a work item was taken before"),
        }
    }
}

/// The handle's view of an item: in addition, it may be cancelled and polled.
pub(super) trait OwnedItem<P: Platform, T>: AwaitedItem<P, T> {
    fn completion(&self) -> &Completion<P>;

    /// Calls the closure outside of any item.
    ///
    /// # Safety
    /// The caller has cancelled it, and calls this or [`Self::discard`], once.
    unsafe fn call_cancelled(&self) -> Result<T, Thrown>;

    /// Drops the closure.
    ///
    /// # Safety
    /// As for [`Self::call_cancelled`].
    unsafe fn discard(&self) -> Result<(), Thrown>;
}

impl<P: Platform, F: FnOnce() -> T, T> OwnedItem<P, T> for Submitted<P, F, T> {
    fn completion(&self) -> &Completion<P> {
        &self.over
    }

    unsafe fn call_cancelled(&self) -> Result<T, Thrown> {
        // SAFETY: cancelled, by this function's contract, which claims it for good.
        unsafe { self.slot.call() }
    }

    unsafe fn discard(&self) -> Result<(), Thrown> {
        // SAFETY: as above.
        unsafe { self.slot.discard() }
    }
}

/// Identifies the item that finishes when this latch opens, for threads that are inside of it.
pub(super) fn whole_at<P: Platform>(over: &Latch<P>) -> *const () {
    std::ptr::from_ref(over).cast()
}

/// Converts the outcome of a wait for its caller; `None` if the item is in the process that this one was forked from.
pub(super) fn ended<T>(outcome: Option<Result<T, Thrown>>) -> Result<T, Panic> {
    outcome.map_or_else(|| Err(Panic::of(Forked)), |result| result.map_err(Panic::thrown))
}

/// Waits for an item: runs it here if it has not begun and this thread may run it, and otherwise sleeps until it has finished.
/// Returns `None` in a process that was forked since.
pub(super) fn wait_for<P: Platform, T>(
    item: &dyn AwaitedItem<P, T>,
    wait: Wait,
) -> Option<Result<T, Thrown>> {
    let over = item.over();
    if over.is_orphaned() {
        return None;
    }
    if wait == Wait::Help {
        let claimable = item.claimable();
        // If the stack is used up, the item is run only if no other worker can make progress. Other workers may fall asleep
        // later, so this is checked repeatedly.
        if !claimable.needs_lent_turn()
            && CurrentWorker::<P>::here().is_some_and(|worker| !worker.has_room())
        {
            let sleep = || over.wait_timeout(PATIENCE);
            while claimable.is_queued() && blocking_if_relieved::<P, _>(sleep).is_some() {}
        }
        loop {
            match claimable.claim() {
                // SAFETY: claimed just now.
                GateAnswer::Claimed => return Some(unsafe { item.run() }),
                GateAnswer::Begun => break,
                // A thaw sends no notification.
                GateAnswer::Frozen => drop(blocking::<P, _>(|| over.wait_timeout(PATIENCE))),
                // Another worker sets it aside, if there is one.
                GateAnswer::Stopped => {
                    let sleep = || over.wait_timeout(PATIENCE);
                    if blocking_if_relieved::<P, _>(sleep).is_none() && claimable.cancel() {
                        return Some(Err(Thrown::new(Box::new(Dropped))));
                    }
                }
            }
        }
    }
    let is_open = match CurrentWorker::<P>::here() {
        Some(worker) if !worker.pool().is_team() => {
            worker.help_until(over, JobId::at(over), || false, || false)
        }
        Some(_) => wait_for_workers(over),
        None => P::watch(SPINS, || over.is_open()) || over.wait(),
    };
    // SAFETY: the latch was seen to be open, so the worker is done with the value; this function is called once for it.
    is_open.then(|| unsafe { item.take() })
}

/// Sleeps until the item has finished, or for `timeout`: then returns `None`. The inner value is `None` in a process that was
/// forked since.
pub(super) fn wait_until_over<P: Platform, T>(
    item: &dyn AwaitedItem<P, T>,
    timeout: Duration,
) -> Option<Option<Result<T, Thrown>>> {
    let over = item.over();
    if over.is_orphaned() {
        return Some(None);
    }
    // If the deadline is beyond the clock's range, the wait has no limit.
    let deadline = Timers::<P>::deadline(timeout).ok();
    let wait = |until: Option<Time>| loop {
        let left = until.map_or(FOR_LONG, |until| until - P::now());
        // At least one pass, so that a zero timeout polls once.
        if over.wait_timeout(left) || until.is_some_and(|until| P::now() >= until) {
            return over.is_open();
        }
    };
    let is_open = over.is_open() || wait_in_turns::<P>(deadline, wait);
    // SAFETY: the latch was seen to be open, so the worker is done with the value; this is called once for it.
    is_open.then(|| Some(unsafe { item.take() }))
}

/// The length of each sleep in a wait without a limit.
const FOR_LONG: Duration = Duration::from_secs(3600);

/// Sends `work`. Its borrows and its result's borrows must live until it has finished.
#[inline(always)]
#[track_caller]
pub(super) fn send<P, F, T>(entry: SubmitPermit<'_, P>, work: F) -> Arc<Submitted<P, F, T>>
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    let item = Submitted::new(&entry, work);
    let placed = Arc::clone(&item);
    entry.send_as(Label::item::<F>, move || run_placed(placed));
    item
}

/// Called by a worker that has reached the item's place.
#[inline]
fn run_placed<P: Platform, F: FnOnce() -> T, T>(placed: Arc<Submitted<P, F, T>>) {
    if placed.claimable.begin() {
        let over = &raw const *placed.over.latch();
        let worker = CurrentWorker::<P>::here();
        // SAFETY: `placed` keeps the latch until the value is left.
        let part = worker.and_then(|worker| unsafe { worker.begin_item(over) });
        // SAFETY: claimed just now.
        let result = unsafe { placed.slot.call() };
        drop(part);
        leave(placed, result);
    }
}

/// The place of an item that borrows nothing, and so may be returned.
pub(super) struct SubmittedPlace<P: Platform, F, T>(pub(super) Arc<Submitted<P, F, T>>);

impl<P, F, T> ItemBody for SubmittedPlace<P, F, T>
where
    P: Platform,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Named = F;
    const IS_AWAITED: bool = false;

    #[inline(always)]
    fn run(self) {
        run_placed(self.0);
    }

    fn is_tombstone(&self) -> bool {
        !self.0.claimable.is_queued()
    }

    fn set_aside(self) -> Option<Returned> {
        // Claimed: from here on, no thread reads the place it was queued at.
        self.0.claimable.begin().then(|| Returned::new(ReturnedSubmission(self.0)))
    }
}

/// A submitted item that was claimed in order to be returned. A thread that joins it waits for its outcome.
struct ReturnedSubmission<P: Platform, F, T>(Arc<Submitted<P, F, T>>);

impl<P, F, T> ReturnedBody for ReturnedSubmission<P, F, T>
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    fn run(self: Box<Self>) {
        // SAFETY: it was claimed, and this is its one use.
        let result = unsafe { self.0.slot.call() };
        leave(self.0, result);
    }

    fn discard(self: Box<Self>) -> Result<(), Thrown> {
        let item = self.0;
        // SAFETY: it was claimed, and this is its one use.
        let dropped = unsafe { item.slot.discard() };
        let told = Unclaimed::of_nobody(Thrown::new(Box::new(Dropped)));
        // SAFETY: as in `leave`.
        unsafe { item.slot.leave(Err(told)) };
        // SAFETY: as in `leave`.
        let woken = unsafe { item.over.open() };
        dropped.and(woken)
    }

    fn has_handle(&self) -> bool {
        true
    }
}

/// Leaves the result for the handle. If the handle was dropped, a panic goes to the queue's panic handler.
#[inline(always)]
fn leave<P: Platform, F, T>(item: Arc<Submitted<P, F, T>>, result: Result<T, Thrown>) {
    let result = match result {
        // Dropped inside the item, so that the worker catches a panic of its destructor.
        Ok(value) if Arc::strong_count(&item) == 1 => return drop(value),
        Err(thrown) if Arc::strong_count(&item) == 1 => thrown.resume(),
        result => result.map_err(Unclaimed::here),
    };
    // SAFETY: the latch is not open yet, so the handle's holder does not look at the value.
    unsafe { item.slot.leave(result) };
    // SAFETY: this Arc keeps it, and the thread that has claimed the item leaves its result once.
    if let Err(thrown) = unsafe { item.over.open() } {
        // A panic of the waker, which the worker catches.
        thrown.resume();
    }
}
