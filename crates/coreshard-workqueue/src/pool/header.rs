//! What a thief needs to know of a forked job.

use coreshard_platform::Platform;

use super::frame::Frame;
use crate::base::latch::Latch;

/// What a thief needs to know of a job.
pub(crate) struct Header<P: Platform> {
    pub(super) kind: &'static JobKind<P>,
    /// What the forker is inside of: the thief runs it as part of that.
    pub(super) forker: *const Frame<P>,
}

/// What jobs of one type have in common.
pub(crate) struct JobKind<P: Platform> {
    /// Runs it, once.
    pub(super) run: unsafe fn(*const Header<P>),
    /// What it is a part of: opens, by what `run` does or later, when that is over.
    pub(super) whole: unsafe fn(*const Header<P>) -> *const Latch<P>,
    /// In which queue's item that is, if more parts of it may be spawned; 0 for none.
    pub(super) queue: unsafe fn(*const Header<P>) -> u64,
}
