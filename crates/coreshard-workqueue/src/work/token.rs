//! One queueing of a [`Work`](super::Work), as stored in a pool, and how it is run.
//!
//! This module reaches these objects by address; they are alive because:
//!
//! - the *pool link* of a place that is kept has counted the queueing in, and a queue is freed only after all items that it
//!   counted in have finished. That may be as soon as the token is in the pool link's pool, so the sending thread keeps the
//!   *pool* alive (`KeptPlace::resume`), and does not access the pool link after that;
//! - all other objects are held: the item by its token, the queue of a delayed queueing by its handle, and the queue of an
//!   ongoing queueing by the caller, until the call returns.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Platform, user};

use super::delayed::{Added, Queueing};
use super::state::{Begin, Claimed, Number};
use super::way::KeptPlace;
use super::work_core::{Function, Work, WorkCore};
use crate::base::item::ItemBody;
use crate::base::returned::Returned;
use crate::insight::Label;
use crate::pool::{blocking, inside_work, report_here};
use crate::queue::SubmitPermit;
use crate::timers::Due;

/// A queueing as stored in a pool: 16 bytes, so that it fits inside an item's slot.
pub(super) struct Token<P: Platform> {
    pub(super) core: Arc<WorkCore<P>>,
    pub(super) number: Number,
}

impl<P: Platform> Clone for Token<P> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), number: self.number }
    }
}

impl<P: Platform> ItemBody for Token<P> {
    type Named = Self;
    const IS_AWAITED: bool = false;

    #[inline(always)]
    fn run(self) {
        Self::run(self);
    }

    fn name(&self) -> &'static str {
        self.core.function
    }

    fn is_tombstone(&self) -> bool {
        !self.core.state.is_to_run(self.number)
    }

    /// Treats the queueing as cancelled. If it was the item's last holder, the function is dropped as well.
    fn set_aside(self) -> Option<Returned> {
        self.give_up();
        None
    }
}

impl<P: Platform> Queueing<P> for Token<P> {
    fn fire(self, entry: SubmitPermit<'_, P>) -> Option<Self> {
        match self.core.state.fire(self.number) {
            Some(claimed) => {
                Self::dispatch(self.core, claimed, entry);
                None
            }
            None => {
                entry.abandon();
                Some(self)
            }
        }
    }

    fn give_up(&self) -> bool {
        self.core.finish_tombstone(self.core.state.cancel(Some(self.number)))
    }

    fn rearm(&self, add: impl FnOnce() -> Added<P>) -> Option<Due<P>> {
        let mut slot = self.core.slot.lock();
        match add() {
            Ok(key) => {
                let armed = slot.armed.as_mut().filter(|armed| armed.number == self.number);
                armed.into_iter().for_each(|armed| armed.key = key);
                None
            }
            Err((_, due)) => Some(due),
        }
    }

    fn into_function(self) -> Option<Function<P>> {
        Arc::into_inner(self.core)?.take_function()
    }
}

impl<P: Platform> Token<P> {
    /// Sends a claimed queueing to its place in a queue.
    #[inline(always)]
    pub(super) fn dispatch(core: Arc<WorkCore<P>>, claimed: Claimed, entry: SubmitPermit<'_, P>) {
        core.limiter.store(entry.limiter_id(), Relaxed);
        let token = Self { core, number: claimed.number };
        if claimed.running {
            token.core.behind.store(entry.queue_id(), Relaxed);
            token.send_while_running(entry);
        } else {
            token.send(entry);
        }
    }

    #[inline(always)]
    fn send(self, entry: SubmitPermit<'_, P>) {
        let (function, made_at) = (self.core.function, self.core.made_at);
        entry.send_as(|| Label::Work(function, made_at), self);
    }

    /// Sends a queueing while the item runs: the place is kept until that run has ended, so that no other worker reaches it. A
    /// place in a queue with a limit is instead taken in turn.
    fn send_while_running(self, entry: SubmitPermit<'_, P>) {
        if entry.waits_for_turn() {
            return self.send(entry);
        }
        let core = Arc::clone(&self.core);
        let mut slot = core.slot.lock();
        match &slot.parked {
            None if !core.state.park() => {
                drop(slot);
                self.send(entry);
            }
            // A later queueing was faster, so this one is a tombstone.
            Some(parked) if core.state.is_to_run(parked.number) => {
                drop(slot);
                entry.abandon();
            }
            _ => {
                let replaced = slot.parked.replace(KeptPlace::new(entry, self.number));
                drop(slot);
                replaced.into_iter().for_each(KeptPlace::abandon);
            }
        }
    }

    /// Runs the item, on a worker.
    #[inline]
    fn run(self) {
        let core = &*self.core;
        loop {
            match core.state.begin(self.number) {
                Begin::Run => break,
                Begin::Tombstone => return,
                Begin::Busy => {
                    // It was queued while it ran, in a queue with a limit. It keeps its turn until that run ends, or another
                    // queueing replaces this one.
                    let number = self.number;
                    blocking::<P, _>(|| {
                        core.over.wait_until(None, || core.state.await_turn(number));
                    });
                }
            }
        }
        let work = Work { core: Arc::clone(&self.core) };
        let called = user::call(|| {
            // SAFETY: `begin` has set RUNNING, and `end` clears it below.
            inside_work::<P, _>(
                Arc::as_ptr(&work.core).cast(),
                core.name,
                &core.behind,
                || unsafe { core.call(&work) },
            );
        });
        drop(work);
        self.end();
        let Err(thrown) = called else { return };
        // If this is the last handle, the function's captures are dropped as well, and may also panic.
        if let Err(again) = user::discard(self) {
            report_here::<P>(again);
        }
        thrown.resume();
    }

    /// Ends the run.
    #[inline]
    fn end(&self) {
        // From here on nothing waits for it.
        if self.core.behind.load(Relaxed) != 0 {
            self.core.behind.store(0, Relaxed);
        }
        let ended = self.core.state.end();
        if ended.parked {
            let parked = self.core.slot.lock().parked.take();
            let parked = parked.expect("a place is kept before it is told");
            parked.resume(|number, entry| {
                Self { core: Arc::clone(&self.core), number }.send(entry);
            });
        }
        if ended.awaited {
            self.core.over.notify();
        }
    }
}
