//! What code on a worker's thread may ask about its worker.

use std::cell::{Cell, OnceCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use coreshard_platform::{LocalKey, Platform};

use super::deque::Owner;
use super::frame::Frame;
use super::pool::{Neighbours, Pool};
use super::slot::WorkerSlot;

/// What code on a worker's thread may ask about it; reached through the platform's local pointer.
pub(super) struct Context<P: Platform> {
    pub(super) pool: Arc<Pool<P>>,
    pub(super) index: usize,
    pub(super) slot: NonNull<WorkerSlot<P>>,
    pub(super) forks: Forks<P>,
    /// What this thread is inside of, see `running`: never null.
    pub(super) frame: Cell<*const Frame<P>>,
    /// Where the thread's stack begins, about.
    pub(super) base: usize,
}

/// The context of the worker on this thread, if there is one. It is not `Sync`, so the reference
/// stays on this thread; what it is used for must be over before the worker's item is.
#[inline]
#[allow(unsafe_code)]
pub(super) fn context_here<'item, P: Platform>() -> Option<&'item Context<P>> {
    let context = P::local(LocalKey::Worker).cast::<Context<P>>();
    // SAFETY: the pointer is set by `Worker::start` to a context on its own stack, for as long as it
    // lives, on this very thread; it is null elsewhere.
    unsafe { context.as_ref() }
}

/// Calls `ask` with the context of the worker on this thread, if there is one.
#[inline]
pub(super) fn with_context<P: Platform, R>(ask: impl FnOnce(&Context<P>) -> R) -> Option<R> {
    context_here().map(ask)
}

/// The index of the worker on this thread, if it is one of `pool`'s.
pub(super) fn index_in<P: Platform>(pool: &Pool<P>) -> Option<usize> {
    with_context::<P, _>(|context| {
        ptr::eq(Arc::as_ptr(&context.pool), pool).then_some(context.index)
    })
    .flatten()
}

/// A worker's side of forking; its own thread's alone.
pub(super) struct Forks<P: Platform> {
    pub(super) owner: Owner,
    /// It is counted in its pool's `forking`.
    pub(super) counted: Cell<bool>,
    /// How often not to look for a sleeper, and how often that is after the next failure.
    pub(super) uncalled: Cell<(u32, u32)>,
    pub(super) neighbours: OnceCell<Neighbours<P>>,
}

impl<P: Platform> Forks<P> {
    pub(super) fn new() -> Self {
        Self {
            owner: Owner::default(),
            counted: Cell::new(false),
            uncalled: Cell::new((0, 0)),
            neighbours: OnceCell::new(),
        }
    }
}
