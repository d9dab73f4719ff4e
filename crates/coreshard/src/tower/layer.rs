//! The layer: what is said of the services that it makes.

use std::sync::Arc;
use std::time::Duration;

use crate::Workqueue;

/// What becomes of a request that finds the queue full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overload {
    Wait,
    Shed,
}

/// On which queue requests are handled, and how; see [the module](super).
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until a service is made with it"]
pub struct WorkqueueLayer {
    pub(super) queue: Workqueue,
    pub(super) name: Arc<str>,
    pub(super) overload: Overload,
    pub(super) deadline: Option<Duration>,
}

impl WorkqueueLayer {
    /// Requests are handled on `queue`; they wait where it is full, and have no deadline.
    pub fn new(queue: Workqueue) -> Self {
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
