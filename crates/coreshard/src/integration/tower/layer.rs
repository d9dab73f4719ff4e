//! The layer: what is said of the services that it makes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Host, Platform};
use coreshard_workqueue::Workqueue;

/// What becomes of a request that finds the queue full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overload {
    Wait,
    Shed,
}

/// On which queue requests are handled, and how; see [the module](super).
#[must_use = "a layer does nothing until a service is made with it"]
pub struct WorkqueueLayer<P: Platform = Host> {
    pub(super) queue: Workqueue<P>,
    pub(super) name: Arc<str>,
    pub(super) overload: Overload,
    pub(super) deadline: Option<Duration>,
}

impl<P: Platform> WorkqueueLayer<P> {
    /// Requests are handled on `queue`; they wait where it is full, and have no deadline.
    pub fn new(queue: Workqueue<P>) -> Self {
        let name = queue.name().into();
        Self { queue, name, overload: Overload::Wait, deadline: None }
    }

    /// A request that finds the queue full is answered at once, by an error
    /// ([`ServiceErrorReason::Overloaded`](super::ServiceErrorReason)).
    pub fn shed(mut self) -> Self {
        self.overload = Overload::Shed;
        self
    }

    /// How long a request may take, waiting and running. Default: as long as it likes, which it has, too, where the clock ends before
    /// that.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }
}

impl<P: Platform> Clone for WorkqueueLayer<P> {
    fn clone(&self) -> Self {
        let (queue, name) = (self.queue.clone(), Arc::clone(&self.name));
        Self { queue, name, overload: self.overload, deadline: self.deadline }
    }
}

impl<P: Platform> fmt::Debug for WorkqueueLayer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkqueueLayer")
            .field("queue", &self.queue)
            .field("overload", &self.overload)
            .field("deadline", &self.deadline)
            .finish()
    }
}
