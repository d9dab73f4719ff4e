//! Items and jobs that the worker on this thread is inside of: a wait for one of these would never end.
//!
//! A thread is inside the item that its worker runs, inside the reusable items whose functions were
//! called in it, and, while it runs a job that another thread has forked or sent, inside all
//! that the other thread was inside of then. Each is a [`Frame`] on the stack of the thread that
//! entered it; together they are a graph without a cycle, which is searched from the innermost one.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ptr;

use coreshard_platform::Platform;

use super::link::LinkHead;

/// Something that a thread is inside of.
///
/// A job carries the address of its forker's innermost frame to the thief, who reads it and all
/// behind it from another thread. That is sound since the forker does not leave any of them, nor
/// changes `link` or `whole`, before the job is done: it waits for that where it has forked.
pub(crate) struct Frame<P: Platform> {
    /// The link of the worker's item. Changed by the worker between items, where no job is left.
    pub(super) link: Cell<*const LinkHead<P>>,
    /// The latch of the item, if it may be waited for. Changed as `link`.
    pub(super) whole: Cell<*const ()>,
    /// The reusable item whose function was called.
    pub(super) work: *const (),
    /// Where that says of which queue it has been queued meanwhile: there its next run waits for this one.
    pub(super) behind: *const P::AtomicU64,
    /// What this thread was inside of before.
    pub(super) outer: *const Frame<P>,
    /// The innermost frame of the thread whose job is run.
    pub(super) forker: *const Frame<P>,
}

impl<P: Platform> Frame<P> {
    /// That of a worker, which is the outermost of its thread: it is inside no item yet.
    pub(super) const fn of_worker() -> Self {
        Self {
            link: Cell::new(ptr::null()),
            whole: Cell::new(ptr::null()),
            work: ptr::null(),
            behind: ptr::null(),
            outer: ptr::null(),
            forker: ptr::null(),
        }
    }

    /// The worker runs an item of `link`, or none.
    #[inline]
    pub(super) fn set_link(&self, link: *const LinkHead<P>) {
        self.link.set(link);
    }

    /// Where there is a frame that satisfies `is`, of those that are reached from this one.
    ///
    /// Jobs run in one another's waits, so there may be many ways to a frame: where a job came from
    /// is looked at once.
    ///
    /// # Safety
    /// `innermost` is null, or the innermost frame of this thread.
    pub(super) unsafe fn find(innermost: *const Self, mut is: impl FnMut(&Self) -> bool) -> Inside {
        let (mut seen, mut forkers) = (BTreeSet::new(), Vec::new());
        let (mut frame, mut found) = (innermost, Inside::Here);
        loop {
            // SAFETY: frames are left in the opposite order, those of a forker after the job is
            // done; and the jobs that lead there are being run in the frames that carry them.
            while let Some(inside) = unsafe { frame.as_ref() } {
                if is(inside) {
                    return found;
                }
                if !inside.forker.is_null() && seen.insert(inside.forker) {
                    forkers.push(inside.forker);
                }
                frame = inside.outer;
            }
            found = Inside::Elsewhere;
            match forkers.pop() {
                Some(forker) => frame = forker,
                None => return Inside::No,
            }
        }
    }
}

/// Whether what this thread does is a part of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// This thread has begun it, and does nothing else of it meanwhile.
    Here,
    /// Another thread has begun it, and this one has a job of that.
    Elsewhere,
    No,
}
