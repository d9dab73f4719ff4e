//! A queueing that waits for its time, as the timers hold it.

use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::Platform;
use coreshard_platform::user::{self, Thrown};

use super::work_core::Function;
use crate::base::error::RefusedReason;
use crate::base::item::ItemBody;
use crate::base::target::Target;
use crate::callbacks::Callback;
use crate::insight::diagnostic::say;
use crate::queue::{SubmitPermit, Workqueue};
use crate::timers::{Due, Key, Owed, Timed, TimerError};

/// How long a delayed item waits if its queue is being drained when its time has come.
const DRAIN_PAUSE: Duration = Duration::from_millis(1);

pub(super) type Added<P> = Result<Key, (TimerError, Due<P>)>;

/// One queueing of an item, wherever that lives. As an [`ItemBody`] it is what a pool holds.
pub(super) trait Queueing<P: Platform>: ItemBody + Clone + 'static {
    /// Its time has come: sends it, unless it is a tombstone. Returns it if it was not sent.
    fn fire(self, entry: SubmitPermit<'_, P>) -> Option<Self>;

    /// Makes it a tombstone; false if it was.
    fn give_up(&self) -> bool;

    /// Adds it to the timers once more. Returns the entry if that is refused.
    fn rearm(&self, add: impl FnOnce() -> Added<P>) -> Option<Due<P>>;

    /// Lets go of it. Returns the item's function if nothing else holds the item.
    fn into_function(self) -> Option<Function<P>>;
}

pub(super) struct Delayed<P: Platform, Q> {
    queueing: Q,
    queue: KeptQueue<P>,
    target: Target,
}

impl<P: Platform, Q: Queueing<P>> Timed<P> for Delayed<P, Q> {
    fn fire(self, _: &Owed<P>) {
        self.queue_now();
    }

    fn is_for(&self, queue: u64) -> bool {
        self.queue.get().id() == queue
    }

    fn revoke(self) {
        self.queueing.give_up();
        self.discard();
    }
}

impl<P: Platform, Q: Queueing<P>> Delayed<P, Q> {
    pub(super) fn new(queueing: Q, queue: Workqueue<P>, target: Target) -> Self {
        Self { queueing, queue: KeptQueue(Some(queue)), target }
    }

    /// Its time has come. Neither calls nor drops anything of a user's. Returns the limiter that it has to pass, or 0.
    pub(super) fn queue_now(self) -> u64 {
        let Self { queueing, queue, target } = self;
        let mut limiter = 0;
        let unsent = match queue.get().enter_accepted(target) {
            Ok(entry) => {
                limiter = entry.limiter_id();
                queueing.fire(entry)
            }
            Err(RefusedReason::Draining) => {
                Self { queueing, queue, target }.wait_for_drain();
                return 0;
            }
            Err(reason) => {
                let (queue, work) = (queue.get().name(), queueing.name());
                if queueing.give_up() {
                    say(|| tracing::warn!(queue, work, %reason, "a delayed work item is lost"));
                }
                Some(queueing)
            }
        };
        queue.let_go(unsent.and_then(Q::into_function));
        limiter
    }

    /// The drain is not to wait for it, nor it to be lost: it comes again a little later.
    fn wait_for_drain(self) {
        let (queueing, timers) = (self.queueing.clone(), Arc::clone(self.queue.get().timers()));
        let refused = queueing.rearm(|| timers.add(P::now() + DRAIN_PAUSE, Due::new(self)));
        if let Some(due) = refused {
            queueing.give_up();
            due.take().into_iter().for_each(Self::discard);
        }
        // All others may have let go of it meanwhile.
        if let Some(function) = queueing.into_function() {
            let left = LeftoverFunction::<P> { function: Some(function), queue: None };
            timers.call(Callback::new(|| left.discard()));
        }
    }

    /// Lets go of the item and the queue, without waiting, and without running anything of a user's.
    fn discard(self) {
        self.queue.let_go(self.queueing.into_function());
    }
}

/// A queue that lives until the time has come; `None` while it is dropped.
struct KeptQueue<P: Platform>(Option<Workqueue<P>>);

impl<P: Platform> KeptQueue<P> {
    fn get(&self) -> &Workqueue<P> {
        self.0.as_ref().expect("it is taken as it is dropped")
    }

    /// Lets go of the queue and a function. The last handle of a queue, and the function, go to the timers, which have
    /// threads for that: the one's drop waits for all that the queue has, the other's runs a user's code.
    fn let_go(mut self, function: Option<Function<P>>) {
        self.leave(function);
    }

    fn leave(&mut self, function: Option<Function<P>>) {
        let Some(queue) = self.0.take() else { return };
        let timers = Arc::clone(queue.timers());
        let queue = if function.is_some() { Some(queue) } else { queue.release() };
        if queue.is_some() {
            let left = LeftoverFunction { function, queue };
            timers.call(Callback::new(|| left.discard()));
        }
    }
}

impl<P: Platform> Drop for KeptQueue<P> {
    fn drop(&mut self) {
        self.leave(None);
    }
}

/// What a delayed queueing leaves behind that nobody else has.
struct LeftoverFunction<P: Platform> {
    function: Option<Function<P>>,
    queue: Option<Workqueue<P>>,
}

impl<P: Platform> LeftoverFunction<P> {
    /// Drops it; a panic goes to the queue's panic handler, or comes back if the queue is not known.
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
