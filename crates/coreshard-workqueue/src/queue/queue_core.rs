//! What all pool links of a queue share.

use std::sync::{Arc, OnceLock, Weak};

use coreshard_platform::{Lock, Platform};

use crate::base::returned::Returned;
use crate::insight::Insight;
use crate::spec::request::{PanicHandler, PanicPolicy};
use crate::timers::Timers;

/// A queue, as an item sees it that panics.
pub(super) trait ClosesOnPanic: Send + Sync {
    /// The queue takes nothing more.
    fn close_after_panic(&self);
}

/// What all links of a queue share, and only read.
pub(crate) struct QueueCore<P: Platform> {
    pub(crate) name: String,
    pub(super) panic_handler: Option<PanicHandler>,
    pub(super) panic_policy: PanicPolicy,
    pub(crate) is_ordered: bool,
    pub(super) timers: Arc<Timers<P>>,
    pub(crate) insight: Insight<P>,
    /// What was set aside and not handed back yet; see `backlog.rs`.
    pub(super) backlog: Lock<P, Vec<Returned>>,
    /// The queue, for an item that closes it; set once it has its place.
    pub(super) queue: OnceLock<Weak<dyn ClosesOnPanic>>,
}

impl<P: Platform> QueueCore<P> {
    /// That of no queue, for models.
    #[cfg(all(test, loom))]
    pub(super) fn of_no_queue() -> Arc<Self> {
        Arc::new(Self {
            name: "model".to_owned(),
            panic_handler: None,
            panic_policy: PanicPolicy::default(),
            is_ordered: false,
            timers: Arc::new(Timers::new(Err)),
            queue: OnceLock::new(),
            backlog: Lock::new(Vec::new()),
            insight: Insight::new(crate::insight::Wanted::default(), 1),
        })
    }

    /// A name for the queue while it lives.
    pub(super) fn queue_id(self: &Arc<Self>) -> u64 {
        Arc::as_ptr(self).addr() as u64
    }
}
