//! State shared by all pool links of a queue.

use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};

use coreshard_platform::user::Thrown;
use coreshard_platform::{Lock, Platform};

use super::capacity::Capacity;
use super::panic_report::PanicReport;
use crate::base::returned::Returned;
use crate::insight::Insight;
use crate::queue::machine::{Machine, Queue};
use crate::timers::Timers;

/// State shared by all links of a queue, which they only read.
pub(crate) struct QueueCore<P: Platform> {
    pub(crate) name: String,
    pub(crate) panics: PanicReport,
    pub(crate) is_ordered: bool,
    /// True if jobs that an item forks stay on its worker.
    pub(crate) is_serial: bool,
    /// The permits that the queue's items need until they begin.
    pub(crate) capacity: Option<Arc<Capacity<P>>>,
    pub(crate) timers: Arc<Timers<P>>,
    pub(crate) insight: Insight<P>,
    /// Items that were set aside and not yet returned; see `../backlog.rs`.
    pub(crate) backlog: Lock<P, SetAside>,
    /// The queue, for an item that closes it; set once the queue has its final address.
    pub(crate) queue: OnceLock<Weak<dyn Queue>>,
    /// State shared by the queue's handles; set with the first of them.
    pub(crate) handle: OnceLock<Weak<dyn Any + Send + Sync>>,
    /// The runtime's machine.
    pub(crate) machine: Weak<Machine<P>>,
}

impl<P: Platform> QueueCore<P> {
    /// The core of no queue, for models.
    #[cfg(all(test, loom))]
    pub(crate) fn of_no_queue() -> Arc<Self> {
        Self::of_no_queue_with(None)
    }

    /// The core of no queue, with a capacity.
    #[cfg(all(test, loom))]
    pub(crate) fn of_no_queue_with(capacity: Option<Arc<Capacity<P>>>) -> Arc<Self> {
        Arc::new(Self {
            name: "model".to_owned(),
            panics: PanicReport::new(None, crate::config::request::PanicPolicy::default()),
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

    /// Returns an identifier that is unique while the queue lives.
    pub(crate) fn queue_id(self: &Arc<Self>) -> u64 {
        Arc::as_ptr(self).addr() as u64
    }

    /// Reports a panic that no handle will report. The caller holds no lock.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_panic(&self, thrown: Thrown) {
        let queue = || self.queue.get().and_then(Weak::upgrade);
        self.panics.report::<P>(&self.name, queue, thrown);
    }

    /// Drops the items that were set aside and never collected.
    pub(crate) fn discard_backlog(&self) {
        let left = std::mem::take(&mut self.backlog.lock().items);
        left.into_iter()
            .filter_map(|returned| returned.discard().err())
            .for_each(|thrown| self.on_panic(thrown));
    }
}

/// The items of a queue that was shut down at once; see `../backlog.rs`.
#[derive(Default)]
pub(crate) struct SetAside {
    pub(crate) items: Vec<Returned>,
    /// Callers that wait for more.
    pub(crate) collectors: usize,
}

impl SetAside {
    /// Keeps an item. Returns it, to be discarded, if its handle reports its fate and no caller collects items: a thread that
    /// joins it may hold the queue, and then nothing else would end that wait.
    pub(crate) fn put(&mut self, returned: Returned) -> Option<Returned> {
        if self.collectors == 0 && returned.has_handle() {
            return Some(returned);
        }
        self.items.push(returned);
        None
    }

    /// Takes all items, for a caller that waits no longer.
    pub(crate) fn collect(&mut self) -> Vec<Returned> {
        self.collectors -= 1;
        std::mem::take(&mut self.items)
    }
}
