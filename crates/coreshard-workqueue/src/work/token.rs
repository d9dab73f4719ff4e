//! A queueing on its way: in a pool, in a place that is kept for it, or with the timers.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::Platform;

use super::core::{Core, Target, Work};
use super::state::{Begin, Number};
use crate::error::RefusedReason;
use crate::insight::Label;
use crate::pool::{blocking, inside_work};
use crate::queue::{Entry, Lane, Workqueue};
use crate::timers::{Due, Key, Timers};

/// How long a delayed item waits whose queue is being drained when its time has come.
const DRAIN_PAUSE: Duration = Duration::from_millis(1);

/// What a pool holds of a queueing: 16 bytes, so that it travels inside an item's slot.
pub(super) struct Token<P: Platform> {
    pub(super) core: Arc<Core<P>>,
    pub(super) number: Number,
}

/// A place in a queue, kept until the run that goes on is over.
pub(super) struct Parked<P: Platform> {
    /// It counted the queueing in, and so lives until that is over.
    lane: NonNull<Lane<P>>,
    door: usize,
    number: Number,
}

// SAFETY: a lane is shared between threads as it is.
unsafe impl<P: Platform> Send for Parked<P> {}

/// An entry with the timers.
pub(super) struct Armed<P: Platform> {
    pub(super) timers: Arc<Timers<P>>,
    pub(super) key: Key,
    pub(super) number: Number,
}

/// What the timers hold of a queueing.
pub(crate) struct Delayed<P: Platform> {
    pub(super) work: Work<P>,
    pub(super) number: Number,
    /// The queue lives until the time has come.
    pub(super) queue: Workqueue<P>,
    pub(super) target: Target,
}

impl<P: Platform> Delayed<P> {
    /// Its time has come.
    pub(crate) fn fire(self) {
        match self.queue.enter(self.target) {
            Ok(entry) => match self.work.core.state.fire(self.number) {
                Some(claimed) => self.work.dispatch(claimed, entry),
                None => entry.abandon(),
            },
            Err(RefusedReason::Draining) => return self.wait_for_drain(),
            Err(reason) => {
                tracing::warn!(
                    queue = self.queue.name(), work = self.work.function(), %reason,
                    "a delayed work item is lost"
                );
                self.work.give_up(self.number);
            }
        }
        self.discard();
    }

    /// The drain is not to wait for it, nor it to be lost: it comes again a little later.
    fn wait_for_drain(self) {
        let (work, number) = (self.work.clone(), self.number);
        let timers = Arc::clone(self.queue.timers());
        let mut slot = work.core.slot.lock();
        if let Ok(key) = timers.add(P::now() + DRAIN_PAUSE, Due::Item(self)) {
            if let Some(armed) = slot.armed.as_mut().filter(|armed| armed.number == number) {
                armed.key = key;
            }
        } else {
            drop(slot);
            work.give_up(number);
        }
    }

    /// Lets go of the queue, without waiting for it if this was its last handle.
    pub(super) fn discard(self) {
        self.queue.release();
    }
}

impl<P: Platform> Token<P> {
    #[inline]
    pub(super) fn send(self, entry: Entry<'_, P>) {
        let (function, made_at) = (self.core.function, self.core.made_at);
        entry.send_as(|| Label::Work(function, made_at), move || self.run());
    }

    /// Where the item runs at this moment: the place is kept until that run is over, so that no
    /// other worker comes upon it. But a place in a queue with a limit is taken in turn.
    pub(super) fn send_while_running(self, entry: Entry<'_, P>) {
        if !entry.waits_for_turn() {
            let core = Arc::clone(&self.core);
            let mut slot = core.slot.lock();
            if slot.parked.is_none() && core.state.park() {
                let (lane, door) = entry.keep();
                slot.parked = Some(Parked { lane, door, number: self.number });
                return;
            }
        }
        self.send(entry);
    }

    /// On a worker.
    fn run(self) {
        let core = &*self.core;
        loop {
            match core.state.begin(self.number) {
                Begin::Run => break,
                Begin::Void => return,
                Begin::Busy => {
                    // It was queued while it ran, here in a queue with a limit. Its turn has come,
                    // and is kept.
                    blocking::<P, _>(|| core.over.wait_until(None, || core.state.await_idle()));
                }
            }
        }
        let run = Run { core: &self.core };
        let work = Work { core: Arc::clone(run.core) };
        // SAFETY: `begin` has set RUNNING, and `run` clears it when it is dropped.
        inside_work::<P, _>(Arc::as_ptr(run.core).cast(), run.core.name, || unsafe {
            run.core.call(&work)
        });
    }
}

/// While it lives, this worker is inside the item's function.
struct Run<'token, P: Platform> {
    core: &'token Arc<Core<P>>,
}

impl<P: Platform> Drop for Run<'_, P> {
    /// Also where the function panicked.
    fn drop(&mut self) {
        let ended = self.core.state.end();
        if ended.parked {
            let parked = self.core.slot.lock().parked.take();
            let Parked { lane, door, number } = parked.expect("a place is kept before it is told");
            let token = Token { core: Arc::clone(self.core), number };
            // SAFETY: the lane counted this queueing in, and lives until it is over.
            token.send(unsafe { Entry::resume(lane, door) });
        }
        if ended.awaited {
            self.core.over.notify();
        }
    }
}
