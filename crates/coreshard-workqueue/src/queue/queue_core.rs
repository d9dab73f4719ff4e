//! What all pool links of a queue share.

use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};

use coreshard_platform::{Lock, Platform};

use super::capacity::Capacity;
use super::machine::Machine;
use super::set_aside::SetAside;
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
    /// What an item forks stays on its worker.
    pub(super) is_serial: bool,
    /// Items of the queue need a permit, until they begin.
    pub(super) capacity: Option<Arc<Capacity<P>>>,
    pub(super) timers: Arc<Timers<P>>,
    pub(crate) insight: Insight<P>,
    /// What was set aside and not handed back yet; see `backlog.rs`.
    pub(super) backlog: Lock<P, SetAside>,
    /// The queue, for an item that closes it; set once it has its place.
    pub(super) queue: OnceLock<Weak<dyn ClosesOnPanic>>,
    /// What the queue's handles share; set with the first of them.
    pub(super) handle: OnceLock<Weak<dyn Any + Send + Sync>>,
    /// The runtime's.
    pub(super) machine: Weak<Machine<P>>,
}

impl<P: Platform> QueueCore<P> {
    /// That of no queue, for models.
    #[cfg(all(test, loom))]
    pub(super) fn of_no_queue() -> Arc<Self> {
        Self::of_no_queue_with(None)
    }

    /// The same, with so much room.
    #[cfg(all(test, loom))]
    pub(super) fn of_no_queue_with(capacity: Option<Arc<Capacity<P>>>) -> Arc<Self> {
        Arc::new(Self {
            name: "model".to_owned(),
            panic_handler: None,
            panic_policy: PanicPolicy::default(),
            is_ordered: false,
            is_serial: false,
            capacity,
            timers: Arc::new(Timers::new(Err)),
            queue: OnceLock::new(),
            backlog: Lock::new(SetAside::default()),
            handle: OnceLock::new(),
            machine: Weak::new(),
            insight: Insight::new(crate::insight::Wanted::default(), 1),
        })
    }

    /// A name for the queue while it lives.
    pub(super) fn queue_id(self: &Arc<Self>) -> u64 {
        Arc::as_ptr(self).addr() as u64
    }
}
