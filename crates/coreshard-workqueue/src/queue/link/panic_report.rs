//! How a queue reports a panic that no handle reports.

use std::sync::Arc;

use coreshard_platform::Platform;
use coreshard_platform::user::Thrown;

use crate::base::error::message_of;
use crate::config::request::{PanicHandler, PanicPolicy};
use crate::insight::diagnostic::say;
use crate::queue::machine::Queue;

/// A queue's panic policy and handler.
pub(crate) struct PanicReport {
    handler: Option<PanicHandler>,
    policy: PanicPolicy,
}

impl PanicReport {
    pub(crate) fn new(handler: Option<PanicHandler>, policy: PanicPolicy) -> Self {
        Self { handler, policy }
    }

    /// Closes the queue, if that is the policy. Then calls the handler, or logs the panic if there is none.
    pub(super) fn report<P: Platform>(
        &self,
        name: &str,
        queue: impl FnOnce() -> Option<Arc<dyn Queue>>,
        thrown: Thrown,
    ) {
        if self.policy == PanicPolicy::CloseQueue
            && let Some(queue) = queue()
        {
            queue.close_after_panic();
        }
        let Some(handler) = &self.handler else {
            let panic = message_of(thrown.payload());
            P::item_panicked(name, panic);
            say(|| tracing::error!(queue = %name, panic, "a work item panicked"));
            return;
        };
        // A panic of the handler must not end the worker; it was printed already.
        drop(handler.call(|handler| handler(thrown.into_payload())));
    }
}
