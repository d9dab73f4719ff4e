//! What the worker on this thread is inside of: a wait for one of these would never end.
//!
//! A thread is inside the item that its worker runs, inside the reusable items whose functions were
//! called in it, and, where it runs a job that another thread has forked or sent, inside all
//! that the other thread was inside of then. Each is a [`Frame`] on the stack of the thread that
//! entered it; together they are a graph, without a cycle, that is looked
//! through from the innermost one.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::user::Thrown;
use coreshard_platform::{AtomicInt, Platform};

use super::context::{Context, context_here, with_context};
use super::frame::{Frame, Inside};
use super::link::LinkHead;
use crate::base::item::Name;

/// Calls `run` as the function of the item at `work`, which says in `behind` of which queue it has been
/// queued meanwhile.
#[inline]
pub(crate) fn inside_work<P: Platform, R>(
    work: *const (),
    name: &'static Name,
    behind: &P::AtomicU64,
    run: impl FnOnce() -> R,
) -> R {
    let outer_name = set_function::<P>(name);
    let _restore = Restore::<P> { outer_name, platform: std::marker::PhantomData };
    let Some(context) = context_here::<P>() else { return run() };
    context.inside(Frame { work, behind, ..Frame::of_worker() }, run)
}

/// Calls `run` as an item of `link`, inside what this thread is inside of. `whole` is what opens when that is over; it may be
/// null.
pub(crate) fn inside_item<P: Platform, R>(
    link: NonNull<LinkHead<P>>,
    whole: *const (),
    run: impl FnOnce() -> R,
) -> R {
    let Some(context) = context_here::<P>() else { return run() };
    let owner = &context.forks.owner;
    // SAFETY: the item goes on, so its link is there.
    let is_serial = unsafe { LinkHead::is_serial(link) };
    let was_serial = owner.set_serial(is_serial);
    // What the outer item keeps to itself would be shared with what this one shares.
    owner.set_serial(is_serial || was_serial);
    let _restore = RestoreSerial { context, was_serial };
    let (link, whole) = (Cell::new(link.as_ptr().cast_const()), Cell::new(whole));
    context.inside(Frame { link, whole, ..Frame::of_worker() }, run)
}

/// True if this thread is inside the item that is over when `whole` opens.
pub(crate) fn is_inside<P: Platform>(whole: *const ()) -> bool {
    // SAFETY: it is the innermost one.
    unsafe {
        Frame::find(innermost::<P>(), |frame| ptr::eq(frame.whole.get(), whole)) != Inside::No
    }
}

/// Calls `run`, which is a job of a thread that was inside `forker` then.
pub(crate) fn inside_forker<P: Platform, R>(forker: *const Frame<P>, run: impl FnOnce() -> R) -> R {
    match context_here::<P>() {
        Some(context) if !forker.is_null() => {
            context.inside(Frame { forker, ..Frame::of_worker() }, run)
        }
        _ => run(),
    }
}

/// What this thread is inside of, for a job that it gives to another; null if it is no worker.
pub(crate) fn innermost<P: Platform>() -> *const Frame<P> {
    with_context::<P, _>(|context| context.frame.get()).unwrap_or(ptr::null())
}

/// True if this thread is inside the function of the item at `work`.
pub(crate) fn runs_work<P: Platform>(work: *const ()) -> bool {
    // SAFETY: it is the innermost one.
    unsafe { Frame::find(innermost::<P>(), |frame| ptr::eq(frame.work, work)) != Inside::No }
}

/// True if the queue of this name has an item that cannot begin before this thread is back: a reusable one
/// that this thread is inside of.
pub(crate) fn is_waited_for_by<P: Platform>(queue: u64) -> bool {
    let is = |frame: &Frame<P>| {
        // SAFETY: what a frame leads to is there while this thread is inside of it.
        unsafe { frame.behind.as_ref() }.is_some_and(|behind| behind.load(Relaxed) == queue)
    };
    // SAFETY: it is the innermost one.
    unsafe { Frame::find(innermost::<P>(), is) != Inside::No }
}

/// Whether this thread is inside an item whose link satisfies `of`. The link is there while `of` looks at it.
#[inline]
pub(crate) fn inside<P: Platform>(mut of: impl FnMut(NonNull<LinkHead<P>>) -> bool) -> Inside {
    // A link outlives its items, and where a frame tells one, that item goes on.
    let is = |frame: &Frame<P>| NonNull::new(frame.link.get().cast_mut()).is_some_and(&mut of);
    // SAFETY: it is the innermost one.
    unsafe { Frame::find(innermost::<P>(), is) }
}

/// Tells the queue whose item this worker is inside of of a panic that no handle will tell of.
#[cold]
pub(crate) fn report_here<P: Platform>(thrown: Thrown) {
    let mut innermost = None;
    let _ = inside::<P>(|link| {
        innermost = Some(link);
        true
    });
    if let Some(link) = innermost {
        // SAFETY: this thread is inside an item of that link, which goes on.
        unsafe { LinkHead::on_panic(link, thrown) };
    }
}

impl<P: Platform> Context<P> {
    /// Calls `run` inside one more frame.
    #[inline]
    fn inside<R>(&self, frame: Frame<P>, run: impl FnOnce() -> R) -> R {
        let frame = Frame { outer: self.frame.get(), ..frame };
        self.frame.set(&raw const frame);
        let _leave = Leave { context: self, outer: frame.outer };
        run()
    }
}

/// Takes a frame off, also where what ran in it panicked.
struct Leave<'thread, P: Platform> {
    context: &'thread Context<P>,
    outer: *const Frame<P>,
}

impl<P: Platform> Drop for Leave<'_, P> {
    fn drop(&mut self) {
        self.context.frame.set(self.outer);
    }
}

/// Says whether what is forked is shared as it was before, also where what ran meanwhile panicked.
struct RestoreSerial<'thread, P: Platform> {
    context: &'thread Context<P>,
    was_serial: bool,
}

impl<P: Platform> Drop for RestoreSerial<'_, P> {
    fn drop(&mut self) {
        self.context.forks.owner.set_serial(self.was_serial);
    }
}

/// Says to the monitor whose function this is.
#[inline]
fn set_function<P: Platform>(name: *const Name) -> *const Name {
    with_context::<P, _>(|context| context.pool.slot(context.index).set_function(name))
        .unwrap_or(ptr::null())
}

/// Says whose function it was before, also where this one panicked.
struct Restore<P: Platform> {
    outer_name: *const Name,
    platform: std::marker::PhantomData<P>,
}

impl<P: Platform> Drop for Restore<P> {
    fn drop(&mut self) {
        set_function::<P>(self.outer_name);
    }
}
