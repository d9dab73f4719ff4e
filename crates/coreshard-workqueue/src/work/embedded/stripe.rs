//! A stripe: the lock of the items whose addresses map to it, with the state of those items beyond their own fields.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, Lock, LockGuard, Platform, Time};

use super::item::{DELAYED, EmbeddedWork, Fields, MAX_TOMBSTONES, PENDING, QueueingTicket};
use crate::timers::{Due, Timers};
use crate::work::way::KeptPlace;

pub(super) struct Stripe<P: Platform> {
    state: Lock<P, StripeState<P>>,
}

/// State under a stripe's lock, besides the fields of its items.
pub(super) struct StripeState<P: Platform> {
    /// The number of the latest queueing, as a ticket without an item.
    latest: QueueingTicket,
    /// The active runs.
    runs: *const Run<P>,
    /// Tickets that became tombstones and are still in a queue.
    tombstones: BTreeSet<QueueingTicket>,
    waiters: *const RunWaiter<P>,
}

// SAFETY: the lists point to the stacks of threads that remove themselves before they leave, and are accessed only under the
// lock, with the exceptions explained at `RunWaiter` and `Run::behind`.
unsafe impl<P: Platform> Send for StripeState<P> {}

/// A run of an item's function, on the stack of its worker.
pub(super) struct Run<P: Platform> {
    pub(super) ticket: QueueingTicket,
    next: Cell<*const Self>,
    /// A place that is kept for a queueing until the run has ended.
    parked: Cell<Option<KeptPlace<P, QueueingTicket>>>,
    /// The identifier of the queue of a queueing that waits for this run; 0 for none. Its own thread reads it without the lock.
    pub(super) behind: P::AtomicU64,
}

impl<P: Platform> Run<P> {
    pub(super) fn new(ticket: QueueingTicket) -> Self {
        Self {
            ticket,
            next: Cell::new(ptr::null()),
            parked: Cell::new(None),
            behind: P::AtomicU64::new(0),
        }
    }

    /// Keeps a place. Returns the one that was kept before, whose queueing is a tombstone by now.
    pub(super) fn park(
        &self,
        parked: KeptPlace<P, QueueingTicket>,
    ) -> Option<KeptPlace<P, QueueingTicket>> {
        self.parked.replace(Some(parked))
    }
}

/// A thread that waits until a queueing has finished or is a tombstone; on its stack.
pub(super) struct RunWaiter<P: Platform> {
    ticket: Cell<QueueingTicket>,
    /// A queueing whose cancellation also ends the wait; `NONE` for none.
    own: Cell<QueueingTicket>,
    next: Cell<*const Self>,
    /// 1 once the wait has ended: from then on no other thread accesses the waiter.
    is_over: P::AtomicU32,
}

impl<P: Platform> RunWaiter<P> {
    pub(super) fn new() -> Self {
        Self {
            ticket: Cell::new(QueueingTicket::NONE),
            own: Cell::new(QueueingTicket::NONE),
            next: Cell::new(ptr::null()),
            is_over: P::AtomicU32::new(0),
        }
    }

    /// Marks the wait as ended, since there is nothing to wait for. It is on no list.
    pub(super) fn is_over_already(&self) {
        self.is_over.store(1, Release);
    }

    /// Returns false if the wait has not ended by then.
    pub(super) fn wait_until(&self, deadline: Option<Time>) -> bool {
        while self.is_over.load(Acquire) == 0 {
            let left = deadline.map(|deadline| deadline - P::now());
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            P::wait(&self.is_over, 0, left);
        }
        true
    }
}

/// Actions for after the lock is released: waking waiters and releasing objects.
#[must_use]
pub(super) struct Afterwards<P: Platform> {
    over: *const RunWaiter<P>,
    /// Releases its contents when it is dropped.
    due: Option<Due<P>>,
    timers: Option<Arc<Timers<P>>>,
}

impl<P: Platform> Afterwards<P> {
    pub(super) fn nothing() -> Self {
        Self { over: ptr::null(), due: None, timers: None }
    }

    /// Performs the actions, without the lock.
    pub(super) fn see_to_it(self) {
        let mut waiter = self.over;
        while !waiter.is_null() {
            // SAFETY: it sleeps until its word changes, which only this thread does: it is on no list any more.
            let next = unsafe { (*waiter).next.get() };
            // SAFETY: as above.
            let word = unsafe { &raw const (*waiter).is_over };
            // SAFETY: as above; after this store the waiter may be freed, so its word is only identified by its address.
            unsafe { (*word).store(1, Release) };
            P::wake_all(word);
            waiter = next;
        }
        drop((self.due, self.timers));
    }
}

impl<P: Platform> Stripe<P> {
    pub(super) fn new() -> Self {
        let state = StripeState {
            latest: QueueingTicket::NONE,
            runs: ptr::null(),
            tombstones: BTreeSet::new(),
            waiters: ptr::null(),
        };
        Self { state: Lock::new(state) }
    }

    #[inline(always)]
    pub(super) fn lock(&self) -> LockGuard<'_, P, StripeState<P>> {
        self.state.lock()
    }
}

impl<P: Platform> StripeState<P> {
    /// Returns a ticket for another queueing of an item whose last one has the ticket `last`. No other ticket in use is equal
    /// to it. `None` if [`MAX_TOMBSTONES`] tickets are tombstones that are still in a queue.
    #[inline(always)]
    pub(super) fn draw(
        &mut self,
        work: NonNull<EmbeddedWork>,
        last: QueueingTicket,
    ) -> Option<QueueingTicket> {
        self.latest = self.latest.next();
        if self.tombstones.is_empty() && !self.has_runs() {
            return Some(self.latest.of(work));
        }
        self.draw_unused(work, last)
    }

    #[inline(never)]
    fn draw_unused(
        &mut self,
        work: NonNull<EmbeddedWork>,
        last: QueueingTicket,
    ) -> Option<QueueingTicket> {
        if self.tombstones.len() >= MAX_TOMBSTONES {
            return None;
        }
        let running = self.run_of(work).map(|run| run.ticket);
        let mut steps = 1;
        loop {
            let ticket = self.latest.of(work);
            let is_used =
                self.tombstones.contains(&ticket) || ticket == last || Some(ticket) == running;
            if !is_used {
                return Some(ticket);
            }
            // Tombstones often have consecutive numbers, which a growing step soon skips. Triangular numbers modulo a power of
            // two reach every number.
            self.latest = self.latest.ahead(steps);
            steps += 1;
        }
    }

    /// Returns true if any of its items is running.
    #[inline(always)]
    pub(super) fn has_runs(&self) -> bool {
        !self.runs.is_null()
    }

    /// Returns the active run of an item, if there is one.
    #[inline(always)]
    pub(super) fn run_of(&self, work: NonNull<EmbeddedWork>) -> Option<&Run<P>> {
        let mut run = self.runs;
        // SAFETY: a run is alive while it is on the list.
        while let Some(found) = unsafe { run.as_ref() } {
            if found.ticket.is_of(work) {
                return Some(found);
            }
            run = found.next.get();
        }
        None
    }

    /// Puts a run on the list; the caller removes it by [`Self::end`] before it moves or is dropped.
    #[inline(always)]
    pub(super) fn begin(&mut self, run: &Run<P>) {
        run.next.set(self.runs);
        self.runs = run;
    }

    /// Removes a run from the list, and returns the place that was kept and the waiters to wake.
    #[inline(always)]
    pub(super) fn end(
        &mut self,
        run: &Run<P>,
    ) -> (Option<KeptPlace<P, QueueingTicket>>, Afterwards<P>) {
        if ptr::eq(self.runs, run) {
            self.runs = run.next.get();
        } else {
            let mut before = self.runs;
            // SAFETY: the list holds live runs, this one among them.
            while let Some(found) = unsafe { before.as_ref() } {
                before = found.next.get();
                if ptr::eq(before, run) {
                    found.next.set(run.next.get());
                    break;
                }
            }
        }
        let over = self.take_waiters(run.ticket);
        (run.parked.take(), Afterwards { over, ..Afterwards::nothing() })
    }

    /// Returns true if this ticket is a tombstone, and removes it from the tombstones.
    #[inline(always)]
    pub(super) fn take_tombstone(&mut self, ticket: QueueingTicket) -> bool {
        !self.tombstones.is_empty() && self.tombstones.remove(&ticket)
    }

    pub(super) fn is_tombstone(&self, ticket: QueueingTicket) -> bool {
        self.tombstones.contains(&ticket)
    }

    /// Makes the pending queueing a tombstone.
    pub(super) fn make_tombstone(&mut self, work: &mut Fields) -> Afterwards<P> {
        debug_assert!(work.is(PENDING), "it is pending");
        let ticket = work.ticket;
        let is_delayed = work.is(DELAYED);
        let armed = work.take_armed::<P>();
        work.end_queueing();
        let (timers, key) = armed.map_or((None, None), |(timers, key)| (Some(timers), Some(key)));
        let due = timers.as_ref().zip(key).and_then(|(timers, key)| timers.remove(key));
        if due.is_none() {
            let is_new = self.tombstones.insert(ticket);
            debug_assert!(is_new, "two tickets in use are equal");
        }
        if !is_delayed {
            P::item_is_taken();
        }
        Afterwards { over: self.tell_tombstone(ticket), due, timers }
    }

    /// As [`Self::make_tombstone`], by the holder of the ticket.
    pub(super) fn give_up(&mut self, work: &mut Fields) -> Afterwards<P> {
        let timers = work.take_armed::<P>().map(|(timers, _)| timers);
        work.end_queueing();
        Afterwards { over: self.tell_tombstone(work.ticket), due: None, timers }
    }

    /// Makes the waiters of a tombstone wait for the active run, if there is one, unless the queueing is their own.
    fn tell_tombstone(&mut self, ticket: QueueingTicket) -> *const RunWaiter<P> {
        let Some(run) = self.run_of(ticket.work()) else { return self.take_waiters(ticket) };
        run.behind.store(0, Relaxed);
        let running = run.ticket;
        let mut waiter = self.waiters;
        // SAFETY: a waiter on the list is alive, and changed only under the lock.
        while let Some(found) = unsafe { waiter.as_ref() } {
            if found.ticket.get() == ticket {
                found.ticket.set(running);
            }
            waiter = found.next.get();
        }
        self.take_waiters_if(|waiter| waiter.own.get() == ticket)
    }

    /// As [`Self::await_end`] for the active run, by a worker that holds the queueing `own`.
    pub(super) fn await_turn(
        &mut self,
        running: QueueingTicket,
        own: QueueingTicket,
        waiter: &RunWaiter<P>,
    ) {
        waiter.own.set(own);
        self.await_end(running, waiter);
    }

    /// Puts a waiter on the list; it is removed when that queueing has finished or is a tombstone.
    pub(super) fn await_end(&mut self, ticket: QueueingTicket, waiter: &RunWaiter<P>) {
        waiter.ticket.set(ticket);
        waiter.next.set(self.waiters);
        self.waiters = waiter;
    }

    /// Removes a waiter from the list; returns false if it was removed already: then its word changes soon.
    pub(super) fn take_off(&mut self, waiter: &RunWaiter<P>) -> bool {
        let mut is_there = false;
        self.keep_waiters(|found| {
            let is_it = ptr::eq(found, waiter);
            is_there |= is_it;
            !is_it
        });
        is_there
    }

    #[inline(always)]
    fn take_waiters(&mut self, ticket: QueueingTicket) -> *const RunWaiter<P> {
        if self.waiters.is_null() { ptr::null() } else { self.take_waiters_of_many(ticket) }
    }

    /// Moves the waiters of this queueing to a list of their own.
    #[cold]
    fn take_waiters_of_many(&mut self, ticket: QueueingTicket) -> *const RunWaiter<P> {
        self.take_waiters_if(|found| found.ticket.get() == ticket)
    }

    fn take_waiters_if(&mut self, is_over: impl Fn(&RunWaiter<P>) -> bool) -> *const RunWaiter<P> {
        let mut taken: *const RunWaiter<P> = ptr::null();
        self.keep_waiters(|found| {
            let is_over = is_over(found);
            if is_over {
                found.next.set(taken);
                taken = found;
            }
            !is_over
        });
        taken
    }

    /// Keeps the waiters that `keeps` returns true for.
    fn keep_waiters(&mut self, mut keeps: impl FnMut(&RunWaiter<P>) -> bool) {
        let mut waiter = std::mem::replace(&mut self.waiters, ptr::null());
        // SAFETY: as in `tell_tombstone`.
        while let Some(found) = unsafe { waiter.as_ref() } {
            waiter = found.next.get();
            if keeps(found) {
                found.next.set(self.waiters);
                self.waiters = found;
            }
        }
    }
}
