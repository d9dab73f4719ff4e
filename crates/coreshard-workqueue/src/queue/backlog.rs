//! Immediate shutdown: items that have not begun are returned, and waiting tasks are dropped.
//!
//! An item lies in an intake that it shares with items of other queues, which cannot be searched, or in a worker's claim. So a
//! worker takes it out like any other item: the queue's links are *stopped*, and a worker that reaches an item of a stopped
//! link sets it aside instead of running it, and leaves it in the queue's *backlog*, under a lock. The item then counts as
//! finished. While all workers are busy with items that have begun, the pool's monitor finds other workers, as for any items
//! that wait behind long ones.
//!
//! Items that wait for their turn in a limiter are in no pool; the caller takes them out.
//!
//! Rules:
//!
//! 1. If a waiter may run an item (`results/claimable.rs`), setting it aside *claims* it first. From then on the pool link must
//!    not be accessed: it may be freed as soon as the item is counted.
//! 2. An item whose waiter has begun (a scope, an install) is part of work that has begun, so it is run.
//! 3. User code is never called or dropped under the backlog's lock or the queue's.
use std::fmt;

use coreshard_platform::user;

use super::machine::Collected;
use crate::base::returned::Returned;
use crate::insight::diagnostic::say_panic;

const DROPPED: &str = "an item that came back panicked as it was dropped";

/// Items that had not begun when a queue, or all queues of a runtime, were shut down at once; see
/// [`Workqueue::shutdown_now`](crate::Workqueue::shutdown_now) and [`Runtime::shutdown_now`](crate::Runtime::shutdown_now).
/// Iterates over the items in no particular order, or in queueing order for an ordered queue. Dropping it drops the remaining
/// items.
#[must_use = "dropping it drops the items, which never run then"]
pub struct Backlog {
    items: std::vec::IntoIter<Returned>,
    in_flight: u64,
}

impl Backlog {
    pub(crate) fn of((items, in_flight): Collected) -> Self {
        Self { items: items.into_iter(), in_flight }
    }

    /// Returns how many items had not finished when the timeout elapsed: items that have begun, or that wait behind such items.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }
}

impl Iterator for Backlog {
    type Item = BacklogItem;

    fn next(&mut self) -> Option<BacklogItem> {
        self.items.next().map(|returned| BacklogItem { returned: Some(returned) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
}

impl ExactSizeIterator for Backlog {}

impl Drop for Backlog {
    fn drop(&mut self) {
        for left in self.by_ref() {
            // Caught, so that a panic in one drop does not stop the others.
            say_panic(user::discard(left), DROPPED);
        }
    }
}

impl fmt::Debug for Backlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backlog")
            .field("len", &self.len())
            .field("in_flight", &self.in_flight)
            .finish()
    }
}

/// An item that has not begun; see [`Workqueue::shutdown_now`](crate::Workqueue::shutdown_now). Dropping it drops its contents.
#[must_use = "dropping it drops the item, which never runs then"]
pub struct BacklogItem {
    returned: Option<Returned>,
}

impl BacklogItem {
    /// Runs the item on this thread, as an item of no queue. The result of a submitted item goes to its handle.
    ///
    /// # Panics
    /// Panics with the item's panic if no handle can report it.
    pub fn run(mut self) {
        if let Some(returned) = self.returned.take() {
            returned.run();
        }
    }
}

impl Drop for BacklogItem {
    fn drop(&mut self) {
        let Some(returned) = self.returned.take() else { return };
        say_panic(user::resume_unless_unwinding(returned.discard()), DROPPED);
    }
}

impl fmt::Debug for BacklogItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BacklogItem").finish_non_exhaustive()
    }
}
