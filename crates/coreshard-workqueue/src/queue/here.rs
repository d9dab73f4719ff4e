//! Which queue's item this thread is inside of.

use std::any::Any;
use std::sync::{Arc, Weak};

use coreshard_platform::Platform;

use super::machine::Machine;
use super::pool_link::runs_item_of;
use super::queue_core::QueueCore;

/// Calls `ask` with what the innermost item's queue is, if this thread is inside an item.
pub(super) fn with_queue_here<P: Platform, R>(ask: impl FnOnce(&QueueCore<P>) -> R) -> Option<R> {
    let (mut ask, mut answer) = (Some(ask), None);
    runs_item_of::<P>(|link| {
        answer = ask.take().map(|ask| ask(&link.core));
        true
    });
    answer
}

/// The name of that queue.
pub(crate) fn queue_name_here<P: Platform>() -> Option<String> {
    with_queue_here::<P, _>(|core| core.name.clone())
}

/// The machine of that queue's runtime.
pub(crate) fn machine_here<P: Platform>() -> Option<Arc<Machine<P>>> {
    with_queue_here::<P, _>(|core| core.machine.upgrade())?
}

/// What the queue's handles share, while there is one.
pub(super) fn handle_here<P: Platform, H: Any + Send + Sync>() -> Option<Arc<H>> {
    let handle = with_queue_here::<P, _>(|core| core.handle.get().and_then(Weak::upgrade))??;
    handle.downcast::<H>().ok()
}
