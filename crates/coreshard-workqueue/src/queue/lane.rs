//! A lane: where one queue meets one pool. It counts the queue's items in that pool.
//!
//! | word | bits 0–62 | bit 63 | written by |
//! |---|---|---|---|
//! | `queued` | items that came in, and refusals | `CLOSED`: further items are refused | producers of the pod |
//! | `done` | items that are over, and refusals | `WATCHED`: somebody waits for it to change | workers of the pod |
//!
//! A producer counts first and then looks at the bit that the same instruction brought back: so
//! either whoever closes the lane sees its count and waits for it, or it sees the bit and takes
//! its count back. A worker counts, and may look at nothing of the lane after that: the last
//! count lets the queue be freed. That is why the bit is in the same word.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use coreshard_platform::{AtomicInt, Padded, Platform};

use super::limiter::Limiter;
use crate::item::Item;
use crate::pool::Pool;

const FLAG: u64 = 1 << 63;

pub(crate) type PanicHandler = Arc<dyn Fn(Box<dyn Any + Send>) + Send + Sync>;

/// What all lanes of a queue share, and only read.
pub(crate) struct Core<P: Platform> {
    pub(crate) name: String,
    pub(super) panic_handler: Option<PanicHandler>,
    pub(super) limiter: Option<Limiter<P>>,
}

pub(crate) struct Lane<P: Platform> {
    queued: Padded<P::AtomicU64>,
    done: Padded<P::AtomicU64>,
    pub(crate) pool: Arc<Pool<P>>,
    pub(crate) core: Arc<Core<P>>,
}

/// Proof that an item was counted in: it must be sent, or the queue waits for it for ever.
#[must_use]
pub(crate) struct Entry<'lane, P: Platform> {
    lane: &'lane Lane<P>,
}

impl<P: Platform> Entry<'_, P> {
    #[inline]
    pub(crate) fn send<F: FnOnce() + Send>(self, work: F) {
        let item = Item::new(NonNull::from(self.lane), work);
        match &self.lane.core.limiter {
            None => self.lane.pool.push(item),
            Some(limiter) => limiter.push(item),
        }
    }
}

impl<P: Platform> Lane<P> {
    pub(crate) fn new(pool: Arc<Pool<P>>, core: Arc<Core<P>>) -> Self {
        Self {
            queued: Padded::new(P::AtomicU64::new(0)),
            done: Padded::new(P::AtomicU64::new(0)),
            pool,
            core,
        }
    }

    /// Brings work in; gives it back if the lane is closed.
    #[inline]
    pub(crate) fn queue<F: FnOnce() + Send>(&self, work: F) -> Result<(), F> {
        match self.enter() {
            Some(entry) => {
                entry.send(work);
                Ok(())
            }
            None => Err(work),
        }
    }

    /// Counts an item in, unless the lane is closed.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Entry<'_, P>> {
        if self.queued.fetch_add(1, AcqRel) & FLAG != 0 {
            self.take_count_back();
            return None;
        }
        Some(Entry { lane: self })
    }

    #[cold]
    fn take_count_back(&self) {
        let pool = Arc::clone(&self.pool);
        if self.finish(1) {
            pool.event.notify();
        }
    }

    /// Counts items that are over. True if somebody waits to hear of it. The lane may be gone
    /// when this returns.
    #[inline]
    pub(crate) fn finish(&self, items: u64) -> bool {
        // AcqRel: whoever sees the lane empty sees all that its items did.
        self.done.fetch_add(items, AcqRel) & FLAG != 0
    }

    /// After each item, before it is counted: lets one that waits for its turn go on.
    #[inline]
    pub(crate) fn item_is_over(&self) {
        if let Some(limiter) = &self.core.limiter {
            limiter.one_is_over();
        }
    }

    /// A panic that no handle will tell of.
    #[cold]
    pub(crate) fn on_panic(&self, payload: Box<dyn Any + Send>) {
        match &self.core.panic_handler {
            Some(handler) => {
                // A handler that panics must not end the worker; its panic was printed.
                let outcome = panic::catch_unwind(AssertUnwindSafe(|| handler(payload)));
                if let Err(payload) = outcome {
                    std::mem::forget(payload);
                }
            }
            None => {
                tracing::error!(
                    queue = %self.core.name,
                    panic = crate::handle::message_of(payload.as_ref()),
                    "a work item panicked"
                );
                // Dropping what was thrown is user code too, and may throw again.
                if let Err(thrown) = panic::catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                    std::mem::forget(thrown);
                }
            }
        }
    }

    pub(super) fn close(&self) {
        self.queued.fetch_or(FLAG, AcqRel);
    }

    pub(super) fn watch(&self) {
        self.done.fetch_or(FLAG, AcqRel);
    }

    pub(super) fn unwatch(&self) {
        self.done.fetch_and(!FLAG, AcqRel);
    }

    pub(super) fn queued(&self) -> u64 {
        self.queued.load(Acquire) & !FLAG
    }

    pub(super) fn done(&self) -> u64 {
        self.done.load(Acquire) & !FLAG
    }
}
