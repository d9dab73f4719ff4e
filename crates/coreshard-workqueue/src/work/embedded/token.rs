//! A queueing as stored in a pool, and how it is run.
#![allow(unsafe_code)]

use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, LockGuard, Platform, user};

use super::item::{EmbeddedFunction, EmbeddedWork, Fields, QueueingTicket};
use super::stripe::{Run, RunWaiter, Stripe, StripeState};
use crate::base::item::{ItemBody, Name};
use crate::base::returned::Returned;
use crate::insight::Label;
use crate::pool::{blocking, inside_work};
use crate::queue::SubmitPermit;
use crate::timers::Due;
use crate::work::delayed::{Added, Queueing};
use crate::work::way::KeptPlace;
use crate::work::work_core::Function;

/// A queueing as stored in a pool: 16 bytes, so that it fits inside an item's slot.
pub(super) struct EmbeddedToken<P: Platform> {
    pub(super) stripe: &'static Stripe<P>,
    pub(super) ticket: QueueingTicket,
}

impl<P: Platform> Clone for EmbeddedToken<P> {
    fn clone(&self) -> Self {
        Self { stripe: self.stripe, ticket: self.ticket }
    }
}

/// Sends a queueing that has its ticket to its place in a queue. If the item is running, the place is kept until that run has
/// ended, so that no other worker reaches it; a place in a queue with a limit is instead taken in turn.
#[inline(always)]
pub(super) fn dispatch<P: Platform>(
    stripe: &'static Stripe<P>,
    state: LockGuard<'_, P, StripeState<P>>,
    place: NonNull<EmbeddedWork>,
    work: &mut Fields,
    entry: SubmitPermit<'_, P>,
) {
    let ticket = work.ticket;
    let token = EmbeddedToken { stripe, ticket };
    if !state.has_runs() && entry.is_direct() {
        work.limiter = 0;
        drop(state);
        return entry.send_directly(token);
    }
    dispatch_in_turn(state, place, work, entry, token);
}

/// Handles an item that may be running, a queue with a limit, and a queue that bounds or measures its items.
#[inline(never)]
fn dispatch_in_turn<P: Platform>(
    mut state: LockGuard<'_, P, StripeState<P>>,
    place: NonNull<EmbeddedWork>,
    work: &mut Fields,
    entry: SubmitPermit<'_, P>,
    token: EmbeddedToken<P>,
) {
    work.limiter = entry.limiter_id();
    if let Some(run) = state.run_of(place) {
        run.behind.store(entry.queue_id(), Relaxed);
        if !entry.waits_for_turn() {
            if let Some(replaced) = run.park(KeptPlace::new(entry, token.ticket)) {
                let is_tombstone = state.take_tombstone(replaced.number);
                debug_assert!(is_tombstone, "this queueing is the one that is pending");
                drop(state);
                replaced.abandon();
            }
            return;
        }
    }
    drop(state);
    token.send(entry);
}

/// Begins a queueing that a worker has reached: puts its run on the list, and returns the function to call; `None` if the token
/// is a tombstone.
#[inline(always)]
pub(super) fn begin<P: Platform>(
    stripe: &'static Stripe<P>,
    run: &Run<P>,
) -> Option<(EmbeddedFunction, &'static Name)> {
    let ticket = run.ticket;
    loop {
        let mut state = stripe.lock();
        if state.take_tombstone(ticket) {
            return None;
        }
        if let Some(running) = state.run_of(ticket.work()).map(|run| run.ticket) {
            // It was queued while it ran, in a queue with a limit. It keeps its turn.
            let waiter = RunWaiter::new();
            state.await_turn(running, ticket, &waiter);
            drop(state);
            blocking::<P, _>(|| waiter.wait_until(None));
            continue;
        }
        // SAFETY: neither a tombstone nor begun: the item is alive, and accessed under the lock.
        let (work, name) =
            unsafe { (EmbeddedWork::fields(ticket.work()), ticket.work().as_ref().name()) };
        work.end_queueing();
        let called = (work.function, name);
        state.begin(run);
        return Some(called);
    }
}

impl<P: Platform> EmbeddedToken<P> {
    #[inline(always)]
    fn send(self, entry: SubmitPermit<'_, P>) {
        entry.send_as(|| Label::Work("an embedded work item", Location::caller()), self);
    }

    /// Runs the item, on a worker.
    #[inline]
    fn run(self) {
        let Self { stripe, ticket } = self;
        let run = Run::new(ticket);
        let Some((function, name)) = begin(stripe, &run) else { return };
        let place = ticket.work();
        let identity = place.as_ptr().cast_const().cast();
        let called = user::call(|| {
            inside_work::<P, _>(identity, name, &run.behind, || {
                // SAFETY: the caller that queued it guarantees that the function may be called with it.
                unsafe { function(place) };
            });
        });
        // The item may be freed from here on.
        let (parked, afterwards) = stripe.lock().end(&run);
        if let Some(parked) = parked {
            parked.resume(|ticket, entry| Self { stripe, ticket }.send(entry));
        }
        afterwards.see_to_it();
        if let Err(thrown) = called {
            thrown.resume();
        }
    }
}

impl<P: Platform> ItemBody for EmbeddedToken<P> {
    type Named = Self;
    const IS_AWAITED: bool = false;

    #[inline(always)]
    fn run(self) {
        Self::run(self);
    }

    fn name(&self) -> &'static str {
        let state = self.stripe.lock();
        if state.is_tombstone(self.ticket) {
            return "(a cancelled work item)";
        }
        let work: NonNull<EmbeddedWork> = self.ticket.work();
        // SAFETY: neither a tombstone nor begun: the item is alive, and accessed under the lock.
        unsafe { work.as_ref() }.name().get()
    }

    fn is_tombstone(&self) -> bool {
        self.stripe.lock().is_tombstone(self.ticket)
    }

    /// Treats the queueing as cancelled.
    fn set_aside(self) -> Option<Returned> {
        self.give_up();
        None
    }
}

impl<P: Platform> Queueing<P> for EmbeddedToken<P> {
    fn fire(self, entry: SubmitPermit<'_, P>) -> Option<Self> {
        let Self { stripe, ticket } = self;
        let mut state = stripe.lock();
        if state.take_tombstone(ticket) {
            drop(state);
            entry.abandon();
            return None;
        }
        // SAFETY: neither a tombstone nor begun: the item is alive, and accessed under the lock.
        let work = unsafe { EmbeddedWork::fields(ticket.work()) };
        let armed = work.take_armed::<P>();
        dispatch(stripe, state, ticket.work(), work, entry);
        drop(armed);
        None
    }

    fn give_up(&self) -> bool {
        let mut state = self.stripe.lock();
        if state.take_tombstone(self.ticket) {
            return false;
        }
        // SAFETY: as in `fire`.
        let afterwards = state.give_up(unsafe { EmbeddedWork::fields(self.ticket.work()) });
        drop(state);
        afterwards.see_to_it();
        true
    }

    fn rearm(&self, add: impl FnOnce() -> Added<P>) -> Option<Due<P>> {
        let state = self.stripe.lock();
        match add() {
            Ok(key) => {
                if !state.is_tombstone(self.ticket) {
                    // SAFETY: as in `fire`.
                    unsafe { EmbeddedWork::fields(self.ticket.work()) }.key = key;
                }
                None
            }
            Err((_, due)) => Some(due),
        }
    }

    fn into_function(self) -> Option<Function<P>> {
        None
    }
}
