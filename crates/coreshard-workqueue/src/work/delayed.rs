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

/// How long a delayed item waits if its queue is being drained when it becomes due.
const DRAIN_PAUSE: Duration = Duration::from_millis(1);

pub(super) type Added<P> = Result<Key, (TimerError, Due<P>)>;

/// One queueing of an item, wherever the item lives. As an [`ItemBody`] it is stored in a pool.
pub(super) trait Queueing<P: Platform>: ItemBody + Clone + 'static {
    /// Sends the queueing when it is due, unless it is a tombstone. Returns it if it was not sent.
    fn fire(self, entry: SubmitPermit<'_, P>) -> Option<Self>;

    /// Makes it a tombstone; returns false if it was one.
    fn give_up(&self) -> bool;

    /// Adds it to the timers once more. Returns the entry if the timers reject it.
    fn rearm(&self, add: impl FnOnce() -> Added<P>) -> Option<Due<P>>;

    /// Releases it. Returns the item's function if this was the item's last holder.
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

    /// Queues the item, which is due. Neither calls nor drops user code. Returns the limiter that it has to pass, or 0.
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

    /// Retries a little later, so that the drain does not wait for it and it is not lost.
    fn wait_for_drain(self) {
        let (queueing, timers) = (self.queueing.clone(), Arc::clone(self.queue.get().timers()));
        let refused = queueing.rearm(|| timers.add(P::now() + DRAIN_PAUSE, Due::new(self)));
        if let Some(due) = refused {
            queueing.give_up();
            due.take().into_iter().for_each(Self::discard);
        }
        // All other holders may have released it meanwhile.
        if let Some(function) = queueing.into_function() {
            let left = LeftoverFunction::<P> { function: Some(function), queue: None };
            timers.call(Callback::new(|| left.discard()));
        }
    }

    /// Releases the item and the queue, without waiting, and without running user code.
    fn discard(self) {
        self.queue.let_go(self.queueing.into_function());
    }
}

/// A queue that is kept alive until the item is due; `None` while it is dropped.
struct KeptQueue<P: Platform>(Option<Workqueue<P>>);

impl<P: Platform> KeptQueue<P> {
    fn get(&self) -> &Workqueue<P> {
        self.0.as_ref().expect("it is taken as it is dropped")
    }

    /// Releases the queue and a function. The last handle of a queue, and the function, go to the timers, which have threads
    /// for them: dropping the handle waits for all items of the queue, and dropping the function runs user code.
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

/// The function of a delayed queueing that was its last holder.
struct LeftoverFunction<P: Platform> {
    function: Option<Function<P>>,
    queue: Option<Workqueue<P>>,
}

impl<P: Platform> LeftoverFunction<P> {
    /// Drops it; a panic goes to the queue's panic handler, or is returned if the queue is not known.
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
