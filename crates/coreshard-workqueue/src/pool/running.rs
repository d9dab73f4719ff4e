//! Which reusable items the worker on this thread is inside of: a wait for one of them would
//! never end.
#![allow(unsafe_code)]

use std::ptr;

use coreshard_platform::Platform;

use super::worker::with_context;
use crate::item::Name;

/// An item's function that was called on this thread and has not returned; an item may run others
/// inside itself, so there may be several.
pub(super) struct Frame {
    work: *const (),
    outer: *const Frame,
}

/// Calls `run` as the function of the item at `work`.
pub(crate) fn inside_work<P: Platform, R>(
    work: *const (),
    name: &'static Name,
    run: impl FnOnce() -> R,
) -> R {
    let outer_name = set_function::<P>(name);
    let frame = Frame { work, outer: innermost::<P>() };
    set_innermost::<P>(&raw const frame);
    let _leave = Leave::<P> { outer: frame.outer, outer_name, platform: std::marker::PhantomData };
    run()
}

/// True if this thread is inside the function of the item at `work`.
pub(crate) fn runs_work<P: Platform>(work: *const ()) -> bool {
    let mut frame = innermost::<P>();
    // SAFETY: frames are on this thread's stack, and taken off the list before they go.
    while let Some(inside) = unsafe { frame.as_ref() } {
        if ptr::eq(inside.work, work) {
            return true;
        }
        frame = inside.outer;
    }
    false
}

fn innermost<P: Platform>() -> *const Frame {
    with_context::<P, _>(|context| context.frame.get()).unwrap_or(ptr::null())
}

fn set_innermost<P: Platform>(frame: *const Frame) {
    with_context::<P, _>(|context| context.frame.set(frame));
}

/// Says to the monitor whose function this is.
fn set_function<P: Platform>(name: *const Name) -> *const Name {
    with_context::<P, _>(|context| context.pool.desk(context.index).set_function(name))
        .unwrap_or(ptr::null())
}

/// Takes the frame off the list, also where the item panicked.
struct Leave<P: Platform> {
    outer: *const Frame,
    outer_name: *const Name,
    platform: std::marker::PhantomData<P>,
}

impl<P: Platform> Drop for Leave<P> {
    fn drop(&mut self) {
        set_innermost::<P>(self.outer);
        set_function::<P>(self.outer_name);
    }
}
