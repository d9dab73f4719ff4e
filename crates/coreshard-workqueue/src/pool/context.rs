//! What code on a worker's thread may ask about its worker.

use std::cell::{Cell, OnceCell};
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use coreshard_platform::{LocalKey, Platform};

use super::deque::Owner;
use super::frame::Frame;
use super::jobs::Fifo;
use super::parts::Tickets;
use super::pool::{Neighbours, Pool};
use super::slot::WorkerSlot;
use crate::base::latch::Latch;

/// What code on a worker's thread may ask about it; reached through the platform's local pointer.
pub(super) struct Context<P: Platform> {
    pub(super) pool: Arc<Pool<P>>,
    /// The same, to be cloned by this thread: no other one counts there.
    pub(super) own_pool: Arc<OwnPool<P>>,
    pub(super) index: usize,
    pub(super) slot: NonNull<WorkerSlot<P>>,
    pub(super) forks: Forks<P>,
    /// What this thread has spawned that nobody waits for, and that is to begin in its order.
    pub(super) in_order: Fifo<P>,
    /// The injector that its items came from last.
    pub(super) producer: Cell<Option<usize>>,
    /// What this thread is inside of, see `running`: never null.
    pub(super) frame: Cell<*const Frame<P>>,
    /// Where the thread's stack begins, about.
    pub(super) base: usize,
}

/// A worker's pool in a cell of the worker's own: it is cloned on a line that no other worker counts on.
pub(crate) struct OwnPool<P: Platform>(Arc<Pool<P>>);

impl<P: Platform> OwnPool<P> {
    pub(crate) fn new(pool: &Arc<Pool<P>>) -> Arc<Self> {
        Arc::new(Self(Arc::clone(pool)))
    }
}

impl<P: Platform> Deref for OwnPool<P> {
    type Target = Pool<P>;
    fn deref(&self) -> &Pool<P> {
        &self.0
    }
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
    /// What the worker does a part of; null for nothing.
    pub(super) whole: Cell<*const Latch<P>>,
    pub(super) spawner: Cell<Spawner<P>>,
    /// How many times this thread is inside something of which others run parts that are not on its stack.
    pub(super) stolen: Cell<u32>,
    /// How often not to look for a sleeper, and how often that is after the next failure.
    pub(super) uncalled: Cell<(u32, u32)>,
    /// It has stolen nothing since it was started, or woken from its sleep.
    pub(super) has_just_come: Cell<bool>,
    pub(super) tickets: Tickets<P>,
    pub(super) neighbours: OnceCell<Neighbours<P>>,
}

impl<P: Platform> Forks<P> {
    pub(super) fn new() -> Self {
        Self {
            owner: Owner::default(),
            counted: Cell::new(false),
            whole: Cell::new(ptr::null()),
            spawner: Cell::new(Spawner { whole: ptr::null(), depth: 0, place: SpawnPlace::NONE }),
            stolen: Cell::new(0),
            uncalled: Cell::new((0, 0)),
            has_just_come: Cell::new(true),
            tickets: Tickets::none(),
            neighbours: OnceCell::new(),
        }
    }
}

/// Of what parts can be spawned on the worker's stack.
pub(super) struct Spawner<P: Platform> {
    pub(super) whole: *const Latch<P>,
    /// How deep the stack is if nothing else is on top.
    pub(super) depth: u32,
    pub(super) place: SpawnPlace,
}

/// Where parts are spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpawnPlace {
    /// Inside an item of this queue, which looks at none of its items; 0 for none.
    pub(crate) queue: u64,
    /// This thread has begun that item.
    pub(crate) is_here: bool,
}

impl SpawnPlace {
    pub(crate) const NONE: Self = Self { queue: 0, is_here: false };
}

impl<P: Platform> Clone for Spawner<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Spawner<P> {}
