//! A worker that waits where readiness arrives; see [`Hooks::reactor`](crate::Hooks::reactor).
//!
//! One worker at a time is in the reactor. It lies down as every sleeper does, and is the designated waiter as long as
//! it is there: who lies down later does so unposted. So what it wakes itself, as it sees readiness, is its own to
//! run. Its parker's word says that it sleeps elsewhere; whoever gives it a permit then calls the reactor.
//!
//! Nobody is in the reactor while the worker that was has work. So busy workers look in now and then; and where the
//! monitor finds nobody there, it has one look, or wakes one who sleeps, which goes there when it lies down again.

use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::user::Thrown;
use coreshard_platform::{AtomicInt, LocalKey, Platform};

use super::pool::Pool;
use super::state::{Kick, State};
use super::worker::{ITEMS_BEFORE_LOOK, Worker};
use crate::base::error::message_of;
use crate::insight::trouble::say;
use crate::spec::reactor::InReactor;

impl<'pool, P: Platform> Worker<'pool, P> {
    /// The right to wait in the reactor, if there is one and nobody has it.
    pub(super) fn enter_reactor(&self) -> Option<InReactor<'pool>> {
        if self.is_rescuer() {
            // It leaves its pool to others.
            return None;
        }
        self.pool.attributes.hooks.reactor.as_ref()?.try_enter()
    }

    /// Waits until somebody who chose this worker wakes it.
    pub(super) fn sleep_in(&self, mut reactor: InReactor<'_>) {
        let parker = &self.slot.parker;
        while parker.begin_elsewhere() {
            let outcome = self.look_into(reactor, InReactor::wait);
            if parker.end_elsewhere() {
                break;
            }
            match outcome {
                Some(same) => reactor = same,
                None => return parker.park(),
            }
        }
    }

    /// Before a claim: every few items, looks whether something has become ready.
    #[cold]
    pub(super) fn look_now_and_then(&mut self) {
        // As many as it may claim: more often than not, about so many.
        let left = self.items_before_look.and_then(|items| items.checked_sub(self.patience.most()));
        if left.is_some() && self.pool.look_is_due.load(Relaxed) == 0 {
            self.items_before_look = left;
            return;
        }
        self.items_before_look = Some(ITEMS_BEFORE_LOOK);
        // Nobody waits meanwhile for what it has done.
        self.settle_items();
        self.pool.look_is_due.store(0, Relaxed);
        if let Some(reactor) = self.enter_reactor() {
            let reactor = self.look_into(reactor, InReactor::poll);
            drop(reactor);
        }
    }

    /// Calls the reactor, as a thread that is no worker. `None` if it has panicked.
    fn look_into<'reactor>(
        &self,
        reactor: InReactor<'reactor>,
        look: impl FnOnce(&InReactor<'reactor>) -> Result<(), Thrown>,
    ) -> Option<InReactor<'reactor>> {
        P::set_local(LocalKey::Worker, ptr::null_mut());
        let outcome = look(&reactor);
        P::set_local(LocalKey::Worker, ptr::from_ref(self.context).cast_mut().cast());
        match outcome {
            Ok(()) => Some(reactor),
            Err(thrown) => {
                reactor.close();
                let panic = message_of(thrown.payload());
                say(|| tracing::error!(panic, "a reactor panicked; it is not used any more"));
                None
            }
        }
    }
}

impl<P: Platform> State<P> {
    /// True unless another worker may be in the reactor: that one stays posted, since what it sees there is its own to run.
    #[inline]
    pub(super) fn leaves_reactor_to(&self, worker: usize) -> bool {
        self.in_reactor.is_none_or(|inside| inside == worker)
    }
}

impl<P: Platform> Pool<P> {
    /// Somebody there was given a permit.
    #[cold]
    pub(super) fn wake_in_reactor(&self) {
        let woken = self.attributes.hooks.reactor.as_ref().map(|reactor| reactor.wake());
        if let Some(Err(thrown)) = woken {
            let panic = message_of(thrown.payload());
            say(|| tracing::error!(panic, "a reactor's wake-up panicked"));
        }
    }

    /// For the monitor, where nobody is in the reactor: whoever is to be woken, to go there; or else a busy worker
    /// looks into it soon.
    pub(super) fn tend_reactor(&self, state: &mut State<P>) -> Option<Kick> {
        let reactor = self.attributes.hooks.reactor.as_ref()?;
        if reactor.is_taken() || state.stopping {
            return None;
        }
        let kick = state.choose_kick(self);
        if kick.is_none() {
            self.look_is_due.store(1, Relaxed);
        }
        kick
    }
}
