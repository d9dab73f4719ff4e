//! The layer and the settings of its services.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Host, Platform};
use coreshard_workqueue::Workqueue;

/// What happens to a request if the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overload {
    Wait,
    Shed,
}

/// The queue and settings of a service; see [the module](super).
#[must_use = "a layer does nothing until a service is created with it"]
pub struct WorkqueueLayer<P: Platform = Host> {
    pub(super) queue: Workqueue<P>,
    pub(super) name: Arc<str>,
    pub(super) overload: Overload,
    pub(super) deadline: Option<Duration>,
}

impl<P: Platform> WorkqueueLayer<P> {
    /// Creates a layer that handles requests on `queue`. Requests wait if it is full, and have no deadline.
    pub fn new(queue: Workqueue<P>) -> Self {
        let name = queue.name().into();
        Self { queue, name, overload: Overload::Wait, deadline: None }
    }

    /// Rejects requests at once if the queue is full ([`ServiceErrorReason::Overloaded`](super::ServiceErrorReason)).
    pub fn shed(mut self) -> Self {
        self.overload = Overload::Shed;
        self
    }

    /// Limits the time of a request, waiting and running. Default: no limit, which is also the effect of a duration
    /// beyond the clock's range.
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
