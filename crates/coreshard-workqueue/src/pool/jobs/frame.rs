//! Items and jobs that the worker on this thread is inside of: a wait for one of these would never end.
//!
//! A thread is inside the item that its worker runs, inside the reusable items whose functions were
//! called in it, and, while it runs a job that another thread has forked or sent, inside everything
//! that the other thread was inside of then. Each is a [`Frame`] on the stack of the thread that
//! entered it. Together they form an acyclic graph, which is searched from the innermost frame.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ptr;

use coreshard_platform::Platform;

use crate::pool::link::LinkHead;

/// Something that a thread is inside of.
///
/// A job carries the address of its forker's innermost frame to the thief, which reads that frame and all
/// behind it from another thread. That is sound because the forker does not leave any of them, or
/// change `link` or `whole`, before the job has finished: it waits for that in the frame that forked the job.
pub(crate) struct Frame<P: Platform> {
    /// The link of the worker's item. Changed by the worker between items, when no job is left.
    pub(in crate::pool) link: Cell<*const LinkHead<P>>,
    /// The latch of the item, if it may be waited for. Changed like `link`.
    pub(in crate::pool) whole: Cell<*const ()>,
    /// The reusable item whose function was called.
    pub(in crate::pool) work: *const (),
    /// The id of the queue that the reusable item has been queued on meanwhile: its next run there waits for this one.
    pub(in crate::pool) behind: *const P::AtomicU64,
    /// The previous innermost frame of this thread.
    pub(in crate::pool) outer: *const Frame<P>,
    /// The innermost frame of the thread that forked the current job.
    pub(in crate::pool) forker: *const Frame<P>,
}

impl<P: Platform> Frame<P> {
    /// The frame of a worker, the outermost of its thread: it is inside no item yet.
    pub(in crate::pool) const fn of_worker() -> Self {
        Self {
            link: Cell::new(ptr::null()),
            whole: Cell::new(ptr::null()),
            work: ptr::null(),
            behind: ptr::null(),
            outer: ptr::null(),
            forker: ptr::null(),
        }
    }

    /// Sets the link of the item that the worker runs, or null for none.
    #[inline]
    pub(in crate::pool) fn set_link(&self, link: *const LinkHead<P>) {
        self.link.set(link);
    }

    /// Whether a frame that is reachable from this one satisfies `is`.
    ///
    /// Jobs run in one another's waits, so several paths may lead to a frame: each job's origin is visited once.
    ///
    /// # Safety
    /// `innermost` is null, or the innermost frame of this thread.
    pub(in crate::pool) unsafe fn find(
        innermost: *const Self,
        mut is: impl FnMut(&Self) -> bool,
    ) -> Inside {
        let (mut seen, mut forkers) = (BTreeSet::new(), Vec::new());
        let (mut frame, mut found) = (innermost, Inside::Here);
        loop {
            // SAFETY: frames are left in reverse order, a forker's after the job has finished; and the jobs that lead there are
            // being run in the frames that carry them.
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

/// Whether this thread is inside something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// This thread has begun it, and runs nothing else of it meanwhile.
    Here,
    /// Another thread has begun it, and this one runs a job of it.
    Elsewhere,
    No,
}
