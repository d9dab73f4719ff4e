//! Work that borrows from its caller, which waits for all of it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{AtomicInt, Lock, Parker, Platform};

use crate::error::Refused;
use crate::handle::Forked;
use crate::insight::Label;
use crate::pool::blocking;
use crate::queue::Workqueue;
use crate::work::Target;

/// What the items and the waiting caller share; kept alive by whoever comes last.
struct Tally<P: Platform> {
    /// Items that are not over, and one for the caller's body.
    open: P::AtomicU64,
    caller: Parker<P>,
    /// What the first item that panicked threw.
    thrown: Lock<P, Option<Thrown>>,
}

impl<P: Platform> Tally<P> {
    /// Keeps what was thrown for the caller; gives it back if there is something already.
    fn keep(&self, thrown: Thrown) -> Option<Thrown> {
        let mut kept = self.thrown.lock();
        if kept.is_some() {
            return Some(thrown);
        }
        *kept = Some(thrown);
        None
    }

    /// One is over. AcqRel: the caller sees what all items did.
    fn one_is_over(&self) {
        if self.open.fetch_sub(1, AcqRel) == 1 {
            self.caller.unpark();
        }
    }
}

/// A scope in which work may borrow what lives outside it; see [`Workqueue::scope`].
pub struct WorkScope<'scope, 'env: 'scope, P: Platform> {
    queue: &'env Workqueue<P>,
    tally: Arc<Tally<P>>,
    /// Invariant in both lifetimes, as in [`std::thread::Scope`].
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope, P: Platform> WorkScope<'scope, '_, P> {
    /// Queues `work`, which may borrow from outside the scope, and queue more through it.
    ///
    /// # Errors
    /// Hands `work` back if the queue is shut down.
    #[track_caller]
    pub fn queue<F>(&'scope self, work: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'scope,
    {
        // Relaxed: the caller's own count keeps the sum above zero until the body is over, and an
        // item's until it is.
        self.tally.open.fetch_add(1, Relaxed);
        let tally = Arc::clone(&self.tally);
        let entry = match self.queue.enter(Target::Here) {
            Ok(entry) => entry,
            Err(reason) => {
                tally.one_is_over();
                return Err(Refused::new(work, reason));
            }
        };
        // The item outlives none of what it borrows: `run` does not return before it is over.
        entry.send_as(Label::item::<F>, move || {
            let more = user::call(work).err().and_then(|thrown| tally.keep(thrown));
            tally.one_is_over();
            // The caller hears of one. The queue's panic handler hears of this, from the worker.
            if let Some(thrown) = more {
                thrown.resume();
            }
        });
        Ok(())
    }
}

impl<P: Platform> fmt::Debug for WorkScope<'_, '_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkScope").field("queue", &self.queue.name()).finish_non_exhaustive()
    }
}

pub(crate) fn run<'env, P: Platform, R>(
    queue: &'env Workqueue<P>,
    body: impl for<'scope> FnOnce(&'scope WorkScope<'scope, 'env, P>) -> R,
) -> R {
    let forks = P::forks();
    let tally = Arc::new(Tally::<P> {
        open: P::AtomicU64::new(1),
        caller: Parker::new(),
        thrown: Lock::new(None),
    });
    let scope =
        WorkScope { queue, tally: Arc::clone(&tally), scope: PhantomData, env: PhantomData };
    let result = user::call(|| body(&scope));
    if tally.open.fetch_sub(1, AcqRel) != 1 {
        if P::forks() != forks {
            Forked::throw();
        }
        blocking::<P, _>(|| tally.caller.park());
    }
    let items = tally.thrown.lock().take();
    // One goes on to the caller; of another the queue's panic handler is told.
    let (thrown, other) = match (result, items) {
        (Ok(value), None) => return value,
        (Ok(value), Some(items)) => (items, user::discard(value).err()),
        (Err(bodys), items) => (bodys, items),
    };
    if let Some(other) = other {
        queue.on_panic(other);
    }
    thrown.resume()
}
