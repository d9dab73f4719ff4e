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
//! 1. An item that was set aside is *claimed* first, where somebody may run it who waits for it (`claimable.rs`): from
//!    then on nothing of the pool link is looked at, which may be gone as soon as the item is counted.
//! 2. An item whose waiter has begun (a scope, an install) is a part of what has begun: it is run.
//! 3. No code of a user's is called or dropped under the backlog's lock, or the queue's.
#![allow(unsafe_code)]

use std::fmt;
use std::time::Duration;

use coreshard_platform::user;
use coreshard_platform::{Platform, Time};

use super::limiter::CountedIn;
use super::machine::Collected;
use super::pool_link::PoolLink;
use super::shared::Shared;
use super::workqueue::Workqueue;
use crate::base::returned::Returned;
use crate::insight::trouble::say;

impl<P: Platform> Workqueue<P> {
    /// Shuts the queue down at once: takes no more work, begins nothing more, drops its futures, and waits until the
    /// items that have begun are over, or for `timeout`. What had not begun comes back.
    ///
    /// | what has not begun | what becomes of it |
    /// |---|---|
    /// | of [`queue`](Self::queue), [`submit`](Self::submit) | it comes back, to be run here, or dropped. Whoever joins a submitted one hears of what comes of that: the result, or [`Dropped`](crate::Dropped) |
    /// | a [`Work`](crate::Work), also one that waits for its time | its queueing is cancelled |
    /// | a future, also one that waits or sleeps | it is dropped. Its [`Task`](crate::Task) says that the queue is gone ([`TaskError::is_queue_gone`](crate::TaskError::is_queue_gone)) |
    /// | of a scope, `install` or a loop whose caller waits for it | it is run: a part of what has begun |
    ///
    /// What is still inside when the time is over goes on, and what waits behind that is set aside as before. Submitted
    /// items are dropped then, since their handles tell: [`Dropped`](crate::Dropped). The others are kept for another call, which has
    /// what was set aside since; what nobody asks for is dropped when the last handle of the queue is. Inside one of
    /// the queue's own items this does not wait.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let queue = coreshard::workqueue()?.name("mails").ordered().build()?;
    /// let (open, opened) = std::sync::mpsc::channel::<()>();
    /// # let (begun, begins) = std::sync::mpsc::channel();
    /// queue.queue(move || {
    ///     # begun.send(()).unwrap();
    ///     _ = opened.recv()
    /// })?;
    /// # begins.recv()?;
    /// for mail in 0..3 {
    ///     queue.queue(move || println!("mail {mail} is sent"))?;
    /// }
    /// let backlog = queue.shutdown_now(Duration::from_millis(5));
    /// assert_eq!((backlog.len(), backlog.in_flight()), (3, 1));
    /// drop(open);
    /// // Sent here after all; dropping one would be to give it up.
    /// backlog.for_each(|mail| mail.run());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("shutdownNow", "SIGTERM"))]
    pub fn shutdown_now(&self, timeout: Duration) -> Backlog {
        let shared = self.shared();
        shared.stop();
        Backlog::of(shared.collect(P::now() + timeout))
    }
}

impl<P: Platform> Shared<P> {
    /// Takes no more, and begins nothing more. [`Self::collect`] is to follow.
    pub(super) fn stop(&self) {
        if self.is_forked() {
            return;
        }
        self.core.backlog.lock().collectors += 1;
        for (mut item, CountedIn(link)) in self.generations.stop() {
            // SAFETY: its one use.
            match user::call(|| unsafe { item.set_aside() }) {
                Ok(returned) => self.core.backlog.lock().items.extend(returned),
                Err(thrown) => self.on_panic(thrown),
            }
            // SAFETY: the pool link that counted it in lives until it is counted as over, which is done here. A
            // link's head is the start of a pool link.
            if unsafe { PoolLink::<P>::finish(link.cast(), 1) } {
                self.event.notify();
            }
        }
        self.task_counts.drop_waiting();
        self.timers().revoke(self.core.queue_id());
    }

    /// Waits for what has begun, until `deadline`, and has what was set aside.
    pub(super) fn collect(&self, deadline: Time) -> Collected {
        if self.is_forked() {
            return (Vec::new(), self.in_flight());
        }
        let deadline = if self.waits_for_caller() { P::now() } else { deadline };
        let in_flight =
            self.wait_empty(Some(deadline)).map_or_else(|left| left.in_flight(), |()| 0);
        (self.core.backlog.lock().collect(), in_flight)
    }

    /// What nobody has asked for, at the queue's end.
    pub(super) fn discard_backlog(&self) {
        let left = std::mem::take(&mut self.core.backlog.lock().items);
        left.into_iter()
            .filter_map(|returned| returned.discard().err())
            .for_each(|thrown| self.on_panic(thrown));
    }
}

/// Items that had not begun when a queue, or all queues of a runtime, were shut down at once; see
/// [`Workqueue::shutdown_now`] and [`Runtime::shutdown_now`](crate::Runtime::shutdown_now). An iterator over them, in no
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
            if let Err(thrown) = user::discard(left) {
                report(&thrown);
            }
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

/// An item that has not begun; see [`Workqueue::shutdown_now`]. Dropping it drops what it holds.
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
        if let Err(thrown) = user::resume_unless_unwinding(returned.discard()) {
            report(&thrown);
        }
    }
}

fn report(thrown: &user::Thrown) {
    let panic = thrown.message().unwrap_or_default();
    say(|| tracing::error!(panic, "an item that came back panicked as it was dropped"));
}

impl fmt::Debug for BacklogItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BacklogItem").finish_non_exhaustive()
    }
}
