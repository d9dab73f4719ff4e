//! The part of a forked job that a thief reads.

use coreshard_platform::Platform;

use crate::base::latch::Latch;
use crate::pool::frame::Frame;

/// Names what is waited for: an address that nothing else has meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobId(u64);

impl JobId {
    /// The id of what has `place` for itself until it is finished.
    pub(crate) fn at<T>(place: *const T) -> Self {
        Self(place.addr() as u64)
    }

    pub(in crate::pool) fn address(self) -> u64 {
        self.0
    }
}

/// The part of a job that a thief reads.
pub(crate) struct Header<P: Platform> {
    pub(in crate::pool) kind: &'static JobKind<P>,
    /// The innermost frame of the forker: the thief runs the job inside of that.
    pub(in crate::pool) forker: *const Frame<P>,
}

/// What jobs of one type have in common.
pub(crate) struct JobKind<P: Platform> {
    /// Runs it, once.
    pub(in crate::pool) run: unsafe fn(*const Header<P>),
    /// The job of which it is a subtask: opens when that has finished, in `run` or later.
    pub(in crate::pool) root: unsafe fn(*const Header<P>) -> *const Latch<P>,
    /// In which queue's item that is, if more parts of it may be spawned; 0 for none.
    pub(in crate::pool) queue: unsafe fn(*const Header<P>) -> u64,
}
