//! Shutting a queue down at once: what has not begun comes back, and what waits is dropped.
//!
//! An item lies in an intake that it shares with those of other queues, where nobody can look for it, or in a claim
//! of a worker's. So it is taken out as all others are, by a worker that comes to it: the queue's links are *stopped*,
//! and a worker that comes to an item of such a link sets it aside instead of running it, and leaves it in the
//! queue's *backlog*, under a lock. It counts as over then. While all workers are busy with what has begun, the pool's
//! monitor finds others, as for any items that wait behind long ones.
//!
//! What waits for its turn in a limiter is in no pool, and is taken out by the caller.
//!
//! Rules:
//!
//! 1. An item that was set aside is *claimed* first, where somebody may run it who waits for it (`results/claimable.rs`): from
//!    then on nothing of the pool link is looked at, which may be gone as soon as the item is counted.
//! 2. An item whose waiter has begun (a scope, an install) is a part of what has begun: it is run.
//! 3. No code of a user's is called or dropped under the backlog's lock, or the queue's.
use std::fmt;

use coreshard_platform::user;

use super::machine::Collected;
use crate::base::returned::Returned;
use crate::insight::diagnostic::say_panic;

const DROPPED: &str = "an item that came back panicked as it was dropped";

/// Items that had not begun when a queue, or all queues of a runtime, were shut down at once; see
/// [`Workqueue::shutdown_now`](crate::Workqueue::shutdown_now) and [`Runtime::shutdown_now`](crate::Runtime::shutdown_now). An iterator over them, in no
/// order but that of an ordered queue. Dropping it drops those that are left.
#[must_use = "dropping it drops the items, which never run then"]
pub struct Backlog {
    items: std::vec::IntoIter<Returned>,
    in_flight: u64,
}

impl Backlog {
    pub(crate) fn of((items, in_flight): Collected) -> Self {
        Self { items: items.into_iter(), in_flight }
    }

    /// Items that were not over when the time was: they have begun, or wait behind such ones.
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
            // In front of the net: where one panics, the others are dropped, too.
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

/// An item that has not begun; see [`Workqueue::shutdown_now`](crate::Workqueue::shutdown_now). Dropping it drops what it holds.
#[must_use = "dropping it drops the item, which never runs then"]
pub struct BacklogItem {
    returned: Option<Returned>,
}

impl BacklogItem {
    /// Runs it on this thread, as an item of no queue. The result of a submitted one goes to its handle.
    ///
    /// # Panics
    /// With what it throws, where no handle is there to tell.
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
