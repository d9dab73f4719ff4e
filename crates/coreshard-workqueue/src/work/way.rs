//! The destination of a queueing, and a place in a queue that is kept for it.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::time::Duration;

use coreshard_platform::{Platform, Time};

use super::error::WorkErrorKind;
use crate::base::error::RefusedReason;
use crate::base::target::Target;
use crate::queue::{PoolLink, SubmitPermit, Workqueue, runs_item_of};

/// The destination of a queueing. It is found *before* the queueing is claimed: other callers that find it pending rely on the
/// upcoming run, so nothing may reject it any more.
pub(super) enum Way<'queue, P: Platform> {
    Queue(SubmitPermit<'queue, P>),
    Timers(Time),
}

impl<'queue, P: Platform> Way<'queue, P> {
    #[inline]
    pub(super) fn find(
        queue: &'queue Workqueue<P>,
        target: Target,
        deadline: Option<Time>,
    ) -> Result<Self, WorkErrorKind> {
        let found = match deadline {
            None => queue.enter_beyond(target).map(Self::Queue),
            Some(_) if queue.is_forked() => Err(RefusedReason::Forked),
            Some(deadline) => queue.check_target(target).map(|()| Self::Timers(deadline)),
        };
        found.map_err(WorkErrorKind::Refused)
    }

    /// Gives the place up, since the queueing was rejected.
    #[cold]
    pub(super) fn abandon(self) {
        if let Self::Queue(entry) = self {
            entry.abandon();
        }
    }
}

/// Returns the moment `delay` from now, with a timekeeper to wait for it; `None` for a delay of zero.
#[inline]
pub(super) fn deadline<P: Platform>(
    queue: &Workqueue<P>,
    delay: Duration,
) -> Result<Option<Time>, WorkErrorKind> {
    if delay.is_zero() { Ok(None) } else { far_deadline(queue, delay).map(Some) }
}

#[cold]
fn far_deadline<P: Platform>(queue: &Workqueue<P>, delay: Duration) -> Result<Time, WorkErrorKind> {
    if queue.is_forked() {
        return Err(WorkErrorKind::Refused(RefusedReason::Forked));
    }
    // Before the queueing is claimed: other callers that find it pending rely on it.
    queue.timers().kept_deadline(delay).map_err(WorkErrorKind::Timer)
}

/// Returns true if this thread runs the item that everything behind this limiter waits for, because it admits one at a time.
pub(super) fn is_behind_caller<P: Platform>(limiter: u64) -> bool {
    limiter != 0 && runs_item_of::<P>(|link| link.has_only_turn_of(limiter))
}

/// A place in a queue, kept for queueing `number` until the current run ends.
pub(super) struct KeptPlace<P: Platform, N> {
    /// The link that counted the queueing in, and so lives until that has finished.
    pub(super) link: NonNull<PoolLink<P>>,
    pub(super) injector: usize,
    pub(super) number: N,
}

// SAFETY: a pool link is shared between threads as it is.
unsafe impl<P: Platform, N: Send> Send for KeptPlace<P, N> {}

impl<P: Platform, N> KeptPlace<P, N> {
    pub(super) fn new(entry: SubmitPermit<'_, P>, number: N) -> Self {
        let (link, injector) = entry.keep();
        Self { link, injector, number }
    }

    /// Sends the queueing to its place, or gives the place up.
    pub(super) fn resume(self, then: impl FnOnce(N, SubmitPermit<'_, P>)) {
        // SAFETY: the pool link counted this queueing in, and lives until it has finished.
        let entry = unsafe { SubmitPermit::resume(self.link, self.injector) };
        // It may finish, and its queue and pools may be freed, while this thread is still inside the pool.
        let _pool = entry.pool();
        then(self.number, entry);
    }

    /// Gives up the place of a tombstone.
    pub(super) fn abandon(self) {
        self.resume(|_, entry| entry.abandon());
    }
}
