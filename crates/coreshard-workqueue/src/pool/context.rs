//! Queries from code on a worker's thread: about its worker, and about the items and jobs that the thread is inside of.
#![allow(unsafe_code)]

use std::cell::{Cell, OnceCell};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::user::Thrown;
use coreshard_platform::{AtomicInt, LocalKey, Platform, stack_pointer};
use coreshard_topology::PodId;

use super::jobs::{Fifo, Owner, Tickets, fifo};
use super::jobs::{Frame, Inside};
use super::link::LinkHead;
use super::pool::{Neighbours, Pool};
use super::slots::WorkerSlot;
use crate::base::item::Name;
use crate::base::latch::Latch;
use crate::insight::stats::PoolId;

/// The state that code on a worker's thread may query; reached through the platform's local pointer.
pub(super) struct Context<P: Platform> {
    pub(super) pool: Arc<Pool<P>>,
    /// The same pool, to be cloned by this thread: no other thread uses this count.
    pub(super) own_pool: Arc<OwnPool<P>>,
    pub(super) index: usize,
    pub(super) slot: NonNull<WorkerSlot<P>>,
    pub(super) forks: Forks<P>,
    /// Detached jobs that this thread has spawned, and that must begin in that order.
    pub(super) in_order: Fifo<P>,
    /// The injector that its last items came from.
    pub(super) producer: Cell<Option<usize>>,
    /// The innermost frame of this thread, see `running`: never null.
    pub(super) frame: Cell<*const Frame<P>>,
    /// Approximate start of the thread's stack.
    pub(super) base: usize,
}

impl<P: Platform> Context<P> {
    /// Makes the context of the worker with this index, on its thread, whose outermost frame is `frame`.
    pub(super) fn new(pool: &Arc<Pool<P>>, index: usize, frame: &Frame<P>) -> Self {
        Self {
            pool: Arc::clone(pool),
            own_pool: OwnPool::new(pool),
            index,
            slot: NonNull::from(pool.slots.get(index)),
            forks: Forks::new(),
            in_order: fifo(),
            producer: Cell::new(None),
            frame: Cell::new(frame),
            base: stack_pointer(),
        }
    }

    /// Calls `run` inside one more frame.
    #[inline]
    fn inside<R>(&self, frame: Frame<P>, run: impl FnOnce() -> R) -> R {
        let frame = Frame { outer: self.frame.get(), ..frame };
        self.frame.set(&raw const frame);
        let _leave = Leave { context: self, outer: frame.outer };
        run()
    }
}

/// A worker's pool in an allocation of the worker's own: its reference count is on a cache line that no other worker uses.
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
/// stays on this thread; its use must end before the worker's item does.
#[inline]
pub(super) fn context_here<'item, P: Platform>() -> Option<&'item Context<P>> {
    let context = P::local(LocalKey::Worker).cast::<Context<P>>();
    // SAFETY: the pointer is set by `Worker::start` to a context on its own stack, for as long as that
    // lives, on this very thread; it is null elsewhere.
    unsafe { context.as_ref() }
}

/// Calls `ask` with the context of the worker on this thread, if there is one.
#[inline]
pub(super) fn with_context<P: Platform, R>(ask: impl FnOnce(&Context<P>) -> R) -> Option<R> {
    context_here().map(ask)
}

/// The index of the worker on this thread, if it belongs to `pool`.
pub(super) fn index_in<P: Platform>(pool: &Pool<P>) -> Option<usize> {
    with_context::<P, _>(|context| {
        ptr::eq(Arc::as_ptr(&context.pool), pool).then_some(context.index)
    })
    .flatten()
}

/// A worker's side of forking; used only by its own thread.
pub(super) struct Forks<P: Platform> {
    pub(super) owner: Owner,
    /// It is counted in its pool's `forking`.
    pub(super) counted: Cell<bool>,
    /// The root job of the subtask that the worker runs; null for none.
    pub(super) root: Cell<*const Latch<P>>,
    pub(super) spawner: Cell<Spawner<P>>,
    /// How many frames of this thread have subtasks that other workers run and that are not on its stack.
    pub(super) stolen: Cell<u32>,
    /// How many looks for a sleeper to skip, and how many after the next failure.
    pub(super) uncalled: Cell<(u32, u32)>,
    /// It has stolen nothing since it was started or woken.
    pub(super) has_just_come: Cell<bool>,
    pub(super) tickets: Tickets<P>,
    pub(super) neighbours: OnceCell<Neighbours<P>>,
}

impl<P: Platform> Forks<P> {
    fn new() -> Self {
        Self {
            owner: Owner::default(),
            counted: Cell::new(false),
            root: Cell::new(ptr::null()),
            spawner: Cell::new(Spawner { root: ptr::null(), depth: 0, place: SpawnPlace::NONE }),
            stolen: Cell::new(0),
            uncalled: Cell::new((0, 0)),
            has_just_come: Cell::new(true),
            tickets: Tickets::none(),
            neighbours: OnceCell::new(),
        }
    }
}

/// The job whose subtasks can be spawned on the worker's stack.
pub(super) struct Spawner<P: Platform> {
    pub(super) root: *const Latch<P>,
    /// Depth of the stack if nothing else is on top.
    pub(super) depth: u32,
    pub(super) place: SpawnPlace,
}

/// The item that subtasks are spawned in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpawnPlace {
    /// The queue of that item, if its link is direct (see `PoolLink::is_direct`); 0 for none.
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

/// A worker, by its pool and index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkerPlace {
    pub(crate) pool: PoolId,
    pub(crate) pod: PodId,
    pub(crate) worker: usize,
    pub(crate) is_rescuer: bool,
}

/// The place of the worker on this thread, if there is one.
#[inline]
pub(crate) fn worker_here<P: Platform>() -> Option<WorkerPlace> {
    with_context::<P, _>(|context| WorkerPlace {
        pool: context.pool.id,
        pod: context.pool.place.pod,
        worker: context.index,
        is_rescuer: context.pool.is_rescuer(context.index),
    })
}

/// True on a worker's thread.
#[inline]
pub(crate) fn is_worker<P: Platform>() -> bool {
    with_context::<P, _>(|_| ()).is_some()
}

/// Calls `run` as the function of the item at `work`. `behind` names the queue that the item has been
/// queued on meanwhile.
#[inline]
pub(crate) fn inside_work<P: Platform, R>(
    work: *const (),
    name: &'static Name,
    behind: &P::AtomicU64,
    run: impl FnOnce() -> R,
) -> R {
    let outer_name = set_function::<P>(name);
    let _restore = Restore::<P> { outer_name, platform: PhantomData };
    let Some(context) = context_here::<P>() else { return run() };
    context.inside(Frame { work, behind, ..Frame::of_worker() }, run)
}

/// Calls `run` as an item of `link`, inside the current frame. `whole` opens when the item has finished; it may be
/// null.
pub(crate) fn inside_item<P: Platform, R>(
    link: NonNull<LinkHead<P>>,
    whole: *const (),
    run: impl FnOnce() -> R,
) -> R {
    let Some(context) = context_here::<P>() else { return run() };
    let owner = &context.forks.owner;
    // SAFETY: the item has not finished, so its link is alive.
    let is_serial = unsafe { LinkHead::is_serial(link) };
    let was_serial = owner.set_serial(is_serial);
    // Otherwise the private jobs of the outer item would be shared together with the jobs of this one.
    owner.set_serial(is_serial || was_serial);
    let _restore = RestoreSerial { context, was_serial };
    let (link, whole) = (Cell::new(link.as_ptr().cast_const()), Cell::new(whole));
    context.inside(Frame { link, whole, ..Frame::of_worker() }, run)
}

/// True if this thread is inside the item whose end opens `whole`.
pub(crate) fn is_inside<P: Platform>(whole: *const ()) -> bool {
    // SAFETY: it is the innermost frame.
    unsafe {
        Frame::find(innermost::<P>(), |frame| ptr::eq(frame.whole.get(), whole)) != Inside::No
    }
}

/// Calls `run`, which is a job of a thread that was inside `forker` when it forked the job.
pub(crate) fn inside_forker<P: Platform, R>(forker: *const Frame<P>, run: impl FnOnce() -> R) -> R {
    match context_here::<P>() {
        Some(context) if !forker.is_null() => {
            context.inside(Frame { forker, ..Frame::of_worker() }, run)
        }
        _ => run(),
    }
}

/// This thread's innermost frame, for a job that it gives to another; null if it is not a worker.
pub(crate) fn innermost<P: Platform>() -> *const Frame<P> {
    with_context::<P, _>(|context| context.frame.get()).unwrap_or(ptr::null())
}

/// True if this thread is inside the function of the item at `work`.
pub(crate) fn runs_work<P: Platform>(work: *const ()) -> bool {
    // SAFETY: it is the innermost frame.
    unsafe { Frame::find(innermost::<P>(), |frame| ptr::eq(frame.work, work)) != Inside::No }
}

/// True if the queue with this id has an item that cannot begin before this thread returns: a reusable item
/// that this thread is inside of.
pub(crate) fn is_waited_for_by<P: Platform>(queue: u64) -> bool {
    let is = |frame: &Frame<P>| {
        // SAFETY: a frame's pointers are valid while this thread is inside of it.
        unsafe { frame.behind.as_ref() }.is_some_and(|behind| behind.load(Relaxed) == queue)
    };
    // SAFETY: it is the innermost frame.
    unsafe { Frame::find(innermost::<P>(), is) != Inside::No }
}

/// Whether this thread is inside an item whose link satisfies `of`. The link is alive during the call of `of`.
#[inline]
pub(crate) fn inside<P: Platform>(mut of: impl FnMut(NonNull<LinkHead<P>>) -> bool) -> Inside {
    // A link outlives its items, and a frame that has a link belongs to an unfinished item.
    let is = |frame: &Frame<P>| NonNull::new(frame.link.get().cast_mut()).is_some_and(&mut of);
    // SAFETY: it is the innermost frame.
    unsafe { Frame::find(innermost::<P>(), is) }
}

/// Reports a panic that no handle will report to the queue whose item this worker is inside of.
#[cold]
pub(crate) fn report_here<P: Platform>(thrown: Thrown) {
    let mut innermost = None;
    let _ = inside::<P>(|link| {
        innermost = Some(link);
        true
    });
    if let Some(link) = innermost {
        // SAFETY: this thread is inside an unfinished item of that link.
        unsafe { LinkHead::on_panic(link, thrown) };
    }
}

/// Removes a frame, even if the code inside panicked.
struct Leave<'thread, P: Platform> {
    context: &'thread Context<P>,
    outer: *const Frame<P>,
}

impl<P: Platform> Drop for Leave<'_, P> {
    fn drop(&mut self) {
        self.context.frame.set(self.outer);
    }
}

/// Restores whether forks are shared, even if the code inside panicked.
struct RestoreSerial<'thread, P: Platform> {
    context: &'thread Context<P>,
    was_serial: bool,
}

impl<P: Platform> Drop for RestoreSerial<'_, P> {
    fn drop(&mut self) {
        self.context.forks.owner.set_serial(self.was_serial);
    }
}

/// Tells the monitor which function this thread is inside of.
#[inline]
fn set_function<P: Platform>(name: *const Name) -> *const Name {
    with_context::<P, _>(|context| context.pool.slots.get(context.index).set_function(name))
        .unwrap_or(ptr::null())
}

/// Restores the previous function, even if the inner one panicked.
struct Restore<P: Platform> {
    outer_name: *const Name,
    platform: PhantomData<P>,
}

impl<P: Platform> Drop for Restore<P> {
    fn drop(&mut self) {
        set_function::<P>(self.outer_name);
    }
}
