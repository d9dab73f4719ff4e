//! A queueing that waits for its time, as the timers hold it.
#![allow(unsafe_code)]

use std::sync::Arc;

use coreshard_platform::Platform;

use super::item::{EmbeddedWork, QueueingTicket};
use super::stripe::Stripe;
use super::token::dispatch;
use crate::base::error::RefusedReason;
use crate::base::target::Target;
use crate::insight::trouble::say;
use crate::queue::Workqueue;
use crate::timers::{Due, Owed, Timed};
use crate::work::token::{DRAIN_PAUSE, let_go};

pub(super) struct DelayedEmbedded<P: Platform> {
    stripe: &'static Stripe<P>,
    ticket: QueueingTicket,
    /// The queue lives until the time has come. There until then.
    queue: Option<Workqueue<P>>,
    target: Target,
}

impl<P: Platform> Timed<P> for DelayedEmbedded<P> {
    fn fire(self, _: &Owed<P>) {
        self.queue_now();
    }

    fn is_for(&self, queue: u64) -> bool {
        self.queue.as_ref().is_some_and(|waits_for| waits_for.id() == queue)
    }

    fn revoke(self) {
        let mut state = self.stripe.lock();
        if !state.take_void(self.ticket) {
            // SAFETY: neither void nor begun: the item is there, and under the lock.
            let work = unsafe { EmbeddedWork::fields(self.ticket.work()) };
            let afterwards = state.give_up(work);
            drop(state);
            afterwards.see_to_it();
        }
        // The drop lets go of the queue.
    }
}

impl<P: Platform> DelayedEmbedded<P> {
    pub(super) fn new(
        stripe: &'static Stripe<P>,
        ticket: QueueingTicket,
        queue: Workqueue<P>,
        target: Target,
    ) -> Self {
        Self { stripe, ticket, queue: Some(queue), target }
    }

    /// Its time has come. Neither calls nor drops anything of a user's. The limiter that it is to pass, if any.
    pub(super) fn queue_now(mut self) -> u64 {
        let (stripe, ticket, target) = (self.stripe, self.ticket, self.target);
        let Some(queue) = self.queue.take() else { return 0 };
        let mut state = stripe.lock();
        if state.take_void(ticket) {
            drop(state);
            let_go(None, queue);
            return 0;
        }
        // SAFETY: neither void nor begun: the item is there, and under the lock.
        let work = unsafe { EmbeddedWork::fields(ticket.work()) };
        let mut limiter = 0;
        match queue.enter_accepted(target) {
            Ok(entry) => {
                limiter = entry.limiter_id();
                let armed = work.take_armed::<P>();
                dispatch(stripe, state, ticket.work(), work, entry);
                drop(armed);
            }
            Err(RefusedReason::Draining) => {
                // The drain is not to wait for it, nor it to be lost: it comes again a little later.
                let timers = Arc::clone(queue.timers());
                let again = Self::new(stripe, ticket, queue, target);
                match timers.add(P::now() + DRAIN_PAUSE, Due::new(again)) {
                    Ok(key) => work.key = key,
                    Err((_, due)) => {
                        let afterwards = state.give_up(work);
                        drop(state);
                        afterwards.see_to_it();
                        drop(due);
                    }
                }
                return 0;
            }
            Err(reason) => {
                // SAFETY: as above.
                let name = unsafe { ticket.work().as_ref() }.name().get();
                let afterwards = state.give_up(work);
                drop(state);
                afterwards.see_to_it();
                let queue = queue.name();
                say(|| tracing::warn!(queue, work = name, %reason, "a delayed work item is lost"));
            }
        }
        let_go(None, queue);
        limiter
    }
}

impl<P: Platform> Drop for DelayedEmbedded<P> {
    /// Lets go of the queue, without waiting.
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            let_go(None, queue);
        }
    }
}
