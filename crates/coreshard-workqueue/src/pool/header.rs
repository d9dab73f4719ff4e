//! What a thief needs to know of a forked job.

use coreshard_platform::Platform;

use super::frame::Frame;
use crate::base::latch::Latch;

/// What a thief needs to know of a job.
pub(crate) struct Header<P: Platform> {
    pub(super) run: unsafe fn(*const Header<P>),
    /// Opens when a thief is done.
    pub(crate) done: Latch<P>,
    /// What the forker is inside of: the thief runs it as part of that.
    pub(super) forker: *const Frame<P>,
}
