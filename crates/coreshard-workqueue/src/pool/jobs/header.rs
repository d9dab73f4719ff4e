//! The part of a forked job that a thief reads.

use coreshard_platform::Platform;

use crate::base::latch::Latch;
use crate::pool::frame::Frame;

/// Identifies a job that a caller waits for: an address that nothing else has meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobId(u64);

impl JobId {
    /// The id of a job that owns `place` until it has finished.
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
    /// The innermost frame of the forker: the thief runs the job inside it.
    pub(in crate::pool) forker: *const Frame<P>,
}

/// Functions shared by all jobs of one type.
pub(crate) struct JobKind<P: Platform> {
    /// Runs the job, once.
    pub(in crate::pool) run: unsafe fn(*const Header<P>),
    /// Its root job: the latch opens when that has finished, in `run` or later.
    pub(in crate::pool) root: unsafe fn(*const Header<P>) -> *const Latch<P>,
    /// The queue of the item it belongs to, if more subtasks of that item may be spawned; 0 for none.
    pub(in crate::pool) queue: unsafe fn(*const Header<P>) -> u64,
}
