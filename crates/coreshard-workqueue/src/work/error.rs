//! Errors of operations on a `Work`.

use std::fmt;

use crate::base::error::RefusedReason;
use crate::timers::TimerError;

/// The maximum nesting of `disable`.
pub(super) const MAX_DISABLES: u32 = (1 << 24) - 1;

/// The reason why an operation on a [`Work`](crate::Work) was rejected. The operation has changed nothing.
pub struct WorkError {
    /// The type name of the item's function.
    function: &'static str,
    kind: WorkErrorKind,
}

/// The kinds of [`WorkError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkErrorReason {
    /// The queue rejected it.
    Refused(RefusedReason),
    /// The item is disabled.
    Disabled,
    /// The delay ends beyond the range of the platform's clock.
    BeyondClock,
    /// No timer is available: no thread for it can be started, or 2³² − 1 delays are pending already.
    NoTimer,
    /// The wait could never end.
    WouldDeadlock,
    /// It cannot be enabled, since it is not disabled.
    NotDisabled,
    /// It is already disabled the maximum number of times.
    TooManyDisables,
    /// Only for an [`EmbeddedWork`](crate::EmbeddedWork): 262,144 queueings were cancelled and are still in queues that do not
    /// reach them, because they are frozen or busy. Try again later.
    TooManyCancelled,
    /// It was zero-initialized, and not set up.
    NotSetUp,
    /// It was pending when this process was forked from the one that queued it, so it never runs here. Cancel it, or create it
    /// anew, and then queue it on a queue of this process.
    PendingAtFork,
}

#[derive(Debug)]
pub(super) enum WorkErrorKind {
    Refused(RefusedReason),
    Disabled,
    PeriodZero,
    Timer(TimerError),
    InsideItself,
    BehindCaller,
    NotDisabled,
    TooManyDisables,
    TooManyCancelled,
    NotSetUp,
    PendingAtFork,
}

impl WorkError {
    pub(super) fn new(function: &'static str, kind: WorkErrorKind) -> Self {
        Self { function, kind }
    }

    /// Returns the kind of error.
    pub fn reason(&self) -> WorkErrorReason {
        match &self.kind {
            WorkErrorKind::Refused(reason) => WorkErrorReason::Refused(*reason),
            WorkErrorKind::Disabled => WorkErrorReason::Disabled,
            WorkErrorKind::Timer(TimerError::BeyondClock { .. }) | WorkErrorKind::PeriodZero => {
                WorkErrorReason::BeyondClock
            }
            WorkErrorKind::Timer(_) => WorkErrorReason::NoTimer,
            WorkErrorKind::InsideItself | WorkErrorKind::BehindCaller => {
                WorkErrorReason::WouldDeadlock
            }
            WorkErrorKind::NotDisabled => WorkErrorReason::NotDisabled,
            WorkErrorKind::TooManyDisables => WorkErrorReason::TooManyDisables,
            WorkErrorKind::TooManyCancelled => WorkErrorReason::TooManyCancelled,
            WorkErrorKind::NotSetUp => WorkErrorReason::NotSetUp,
            WorkErrorKind::PendingAtFork => WorkErrorReason::PendingAtFork,
        }
    }
}

impl fmt::Display for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "work item {}: ", self.function)?;
        match &self.kind {
            WorkErrorKind::Refused(reason) => reason.fmt(f),
            WorkErrorKind::Disabled => {
                f.write_str("it is disabled; enable it as often as it was disabled")
            }
            WorkErrorKind::Timer(error) => error.fmt(f),
            WorkErrorKind::PeriodZero => {
                f.write_str("a period of 0 was given; at least 1 ns is needed")
            }
            WorkErrorKind::InsideItself => f.write_str(
                "its own function waits for it to finish, which it cannot before that returns; wait \
                elsewhere, or cancel without waiting",
            ),
            WorkErrorKind::BehindCaller => f.write_str(
                "an item of the same workqueue waits for it, but it cannot begin before that item has \
                finished: the workqueue runs one at a time; wait outside the queue",
            ),
            WorkErrorKind::NotDisabled => {
                f.write_str("it is not disabled, so it cannot be enabled; pair the calls")
            }
            WorkErrorKind::TooManyDisables => {
                write!(f, "it is disabled {MAX_DISABLES} times, and no more can be counted")
            }
            WorkErrorKind::TooManyCancelled => f.write_str(
                "too many cancelled queueings are still in queues that are frozen or busy; thaw the queues, or retry \
                 when they have caught up",
            ),
            WorkErrorKind::NotSetUp => {
                f.write_str("it was not set up; make it with `EmbeddedWork::new`, or call `set_up`")
            }
            WorkErrorKind::PendingAtFork => f.write_str(
                "it was pending when this process was forked from the one that queued it, and never runs here; \
                 cancel it, or make it anew, and then queue it on a queue of this process",
            ),
        }
    }
}

coreshard_topology::readable_debug!(WorkError);

impl std::error::Error for WorkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            WorkErrorKind::Timer(error) => error.source(),
            _ => None,
        }
    }
}
