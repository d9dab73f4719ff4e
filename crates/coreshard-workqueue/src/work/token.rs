//! A queueing on its way: in a pool, in a place that is kept for it, or with the timers.
//!
//! What is reached by an address here, and why it is alive:
//!
//! - the *pool link* of a place that is kept: it has counted the queueing in, and a queue is not freed before
//!   all that it counted in is over. That may be as soon as the token is in the pool link's pool, so whoever
//!   sends it holds on to the *pool* (`Parked::send`), and touches nothing of the pool link after that;
//! - everything else is held: the item by its token, the queue of a delayed queueing by its handle, and
//!   the queue that something is queued on by whoever queues it, until that call returns.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{AtomicInt, Platform};

use super::state::{Begin, Number};
use super::work_core::{Function, Parked, Work, WorkCore};
use crate::base::error::RefusedReason;
use crate::base::item::ItemBody;
use crate::base::returned::Returned;
use crate::base::target::Target;
use crate::callbacks::Callback;
use crate::insight::Label;
use crate::insight::trouble::say;
use crate::pool::{blocking, inside_work, report_here};
use crate::queue::{Entry, Workqueue};
use crate::timers::{Due, Owed, Timed};

/// How long a delayed item waits whose queue is being drained when its time has come.
pub(super) const DRAIN_PAUSE: Duration = Duration::from_millis(1);

/// What a pool holds of a queueing: 16 bytes, so that it travels inside an item's slot.
pub(super) struct Token<P: Platform> {
    pub(super) core: Arc<WorkCore<P>>,
    pub(super) number: Number,
}

impl<P: Platform> Parked<P> {
    /// Gives the place of a queueing up that is void.
    fn abandon(self) {
        // SAFETY: as in `send`.
        let entry = unsafe { Entry::resume(self.link, self.injector) };
        let _pool = entry.pool();
        entry.abandon();
    }

    /// Brings the queueing to its place, now that the run is over.
    fn send(self, core: &Arc<WorkCore<P>>) {
        let token = Token { core: Arc::clone(core), number: self.number };
        // SAFETY: the pool link counted this queueing in, and lives until it is over.
        let entry = unsafe { Entry::resume(self.link, self.injector) };
        // It may be over, and its queue and pools freed, while this thread is still inside the pool that
        // it brings the token to.
        let _pool = entry.pool();
        token.send(entry);
    }
}

/// What the timers hold of a queueing.
pub(crate) struct Delayed<P: Platform> {
    pub(super) work: Work<P>,
    pub(super) number: Number,
    /// The queue lives until the time has come.
    pub(super) queue: Workqueue<P>,
    pub(super) target: Target,
}

impl<P: Platform> Timed<P> for Delayed<P> {
    fn fire(self, _: &Owed<P>) {
        self.queue_now();
    }

    fn is_for(&self, queue: u64) -> bool {
        self.queue.id() == queue
    }

    fn revoke(self) {
        self.work.give_up(self.number);
        self.discard();
    }
}

impl<P: Platform> Delayed<P> {
    /// Its time has come. Neither calls nor drops anything of a user's.
    pub(super) fn queue_now(self) {
        let Self { work, number, queue, target } = self;
        let unsent = match queue.enter_accepted(target) {
            Ok(entry) => match work.core.state.fire(number) {
                Some(claimed) => {
                    work.dispatch(claimed, entry);
                    None
                }
                None => {
                    entry.abandon();
                    Some(work)
                }
            },
            Err(RefusedReason::Draining) => {
                return Self { work, number, queue, target }.wait_for_drain();
            }
            Err(reason) => {
                let names = (queue.name(), work.function());
                say(|| {
                    let (queue, work) = names;
                    tracing::warn!(queue, work, %reason, "a delayed work item is lost");
                });
                work.give_up(number);
                Some(work)
            }
        };
        let_go(unsent, queue);
    }

    /// The drain is not to wait for it, nor it to be lost: it comes again a little later.
    fn wait_for_drain(self) {
        let (work, number) = (self.work.clone(), self.number);
        let timers = Arc::clone(self.queue.timers());
        let mut slot = work.core.slot.lock();
        let added = timers.add(P::now() + DRAIN_PAUSE, Due::new(self));
        if let Ok(key) = &added
            && let Some(armed) = slot.armed.as_mut().filter(|armed| armed.number == number)
        {
            armed.key = *key;
        }
        drop(slot);
        if let Err((_, due)) = added {
            work.give_up(number);
            due.take().into_iter().for_each(Self::discard);
        }
        // Everybody else may have let go of it meanwhile.
        if let Some(function) = work.into_function() {
            let left = LeftoverFunction::<P> { function: Some(function), queue: None };
            timers.call(Callback::new(|| left.discard()));
        }
    }

    /// Lets go of the item and the queue, without waiting, and without running anything of a user's.
    pub(super) fn discard(self) {
        let_go(Some(self.work), self.queue);
    }
}

/// Lets go of handles; the last one of an item or a queue goes to the timers, which have threads for
/// that: the one's drop runs a user's code, the other's waits for all that the queue has.
pub(super) fn let_go<P: Platform>(work: Option<Work<P>>, queue: Workqueue<P>) {
    let timers = Arc::clone(queue.timers());
    let function = work.and_then(Work::into_function);
    let queue = if function.is_some() { Some(queue) } else { queue.release() };
    if function.is_some() || queue.is_some() {
        let left = LeftoverFunction { function, queue };
        timers.call(Callback::new(|| left.discard()));
    }
}

/// What a delayed queueing leaves behind that nobody else has.
struct LeftoverFunction<P: Platform> {
    function: Option<Function<P>>,
    queue: Option<Workqueue<P>>,
}

impl<P: Platform> LeftoverFunction<P> {
    /// Drops it; a panic goes to the queue's panic handler, or comes back where the queue is not known.
    fn discard(self) -> Result<(), Thrown> {
        match (user::discard(self.function), self.queue) {
            (Err(thrown), Some(queue)) => {
                queue.on_panic(thrown);
                user::discard(queue)
            }
            (outcome, queue) => outcome.and(user::discard(queue)),
        }
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

    fn is_void(&self) -> bool {
        !self.core.state.is_to_run(self.number)
    }

    /// As if it was cancelled. If it was the last to have the item, the function goes, too.
    fn set_aside(self) -> Option<Returned> {
        let Self { core, number } = self;
        Work { core }.give_up(number);
        None
    }
}

impl<P: Platform> Token<P> {
    #[inline(always)]
    pub(super) fn send(self, entry: Entry<'_, P>) {
        let (function, made_at) = (self.core.function, self.core.made_at);
        entry.send_as(|| Label::Work(function, made_at), self);
    }

    /// Where the item runs at this moment: the place is kept until that run is over, so that no
    /// other worker comes upon it. But a place in a queue with a limit is taken in turn.
    pub(super) fn send_while_running(self, entry: Entry<'_, P>) {
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
            // A later queueing was quicker, so this one is void.
            Some(parked) if core.state.is_to_run(parked.number) => {
                drop(slot);
                entry.abandon();
            }
            _ => {
                let (link, injector) = entry.keep();
                let void = slot.parked.replace(Parked { link, injector, number: self.number });
                drop(slot);
                void.into_iter().for_each(Parked::abandon);
            }
        }
    }

    /// On a worker.
    #[inline]
    fn run(self) {
        let core = &*self.core;
        loop {
            match core.state.begin(self.number) {
                Begin::Run => break,
                Begin::Void => return,
                Begin::Busy => {
                    // It was queued while it ran, here in a queue with a limit. Its turn has come, and is kept until that
                    // run ends, or another queueing takes the place of this one.
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
        // If this is the last handle, what the function holds goes as well, and may panic, too.
        if let Err(again) = user::discard(self) {
            report_here::<P>(again);
        }
        thrown.resume();
    }

    /// The run is over.
    #[inline]
    fn end(&self) {
        // From here on nothing waits for it.
        if self.core.behind.load(Relaxed) != 0 {
            self.core.behind.store(0, Relaxed);
        }
        let ended = self.core.state.end();
        if ended.parked {
            let parked = self.core.slot.lock().parked.take();
            parked.expect("a place is kept before it is told").send(&self.core);
        }
        if ended.awaited {
            self.core.over.notify();
        }
    }
}
