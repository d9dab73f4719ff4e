//! A pool's side of its link with a queue, like the kernel's `struct pool_workqueue`. The pool counts finished
//! items there, and calls the queue when needed. It does not know the queue's type.
#![allow(unsafe_code)]

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use coreshard_platform::user::Thrown;
use coreshard_platform::{AtomicInt, AtomicPointer, Lock, Padded, Platform, fields};

use crate::base::returned::Returned;

/// A thread waits for the count of finished items to change.
const WATCHED: u64 = 1 << 63;

/// Flags, which a worker reads after each item. Here: the queue is called after each item.
const TAKES_TURNS: u32 = 1;
/// Items that have not begun are set aside; see [`LinkHead::stop`].
const STOPPED: u32 = 2;
/// Forks of an item stay on its worker.
const SERIAL: u32 = 4;

/// It is the first field of the queue's data for the pool, so that its address leads there.
#[repr(C)]
pub(crate) struct LinkHead<P: Platform> {
    /// Finished items, including rejected ones; and [`WATCHED`]. Written by workers of the pool.
    done: Padded<P::AtomicU64>,
    queue: &'static QueueSide<P>,
    /// [`TAKES_TURNS`] and [`SERIAL`] are set from the start or never, [`STOPPED`] once and for good.
    flags: P::AtomicU32,
}
fields!(LinkHead<P: Platform> { done, queue, flags });

/// The calls of a pool to a queue. Each is made with a link of that queue, which lives
/// while an item of it is not counted as finished.
pub(crate) struct QueueSide<P: Platform> {
    /// An item panicked, and no handle will report it.
    pub(crate) on_panic: unsafe fn(NonNull<LinkHead<P>>, Thrown),
    /// An item has finished, and is not counted yet: one that waits for its turn may begin.
    pub(crate) item_is_over: unsafe fn(NonNull<LinkHead<P>>),
    /// An item was set aside, and must be returned.
    pub(crate) hand_back: unsafe fn(NonNull<LinkHead<P>>, Returned),
    /// The pool's rescuer has run this many items.
    pub(crate) rescued: unsafe fn(NonNull<LinkHead<P>>, u64),
}

impl<P: Platform> LinkHead<P> {
    pub(crate) fn new(queue: &'static QueueSide<P>, takes_turns: bool, is_serial: bool) -> Self {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(takes_turns, TAKES_TURNS) | flag(is_serial, SERIAL);
        let flags = P::AtomicU32::new(flags);
        Self { done: Padded::new(P::AtomicU64::new(0)), queue, flags }
    }

    /// From here on, workers set aside the items they reach. A worker that has checked the flag before its next item,
    /// as it does after each, may still run that one.
    pub(crate) fn stop(&self) {
        // Relaxed: it publishes nothing. A thread that waits for the end waits for the items.
        self.flags.fetch_or(STOPPED, Relaxed);
    }

    /// # Safety
    /// As for [`Self::on_panic`].
    #[inline]
    pub(super) unsafe fn is_stopped(link: NonNull<Self>) -> bool {
        // SAFETY: by this function's contract.
        unsafe { link.as_ref() }.stopped()
    }

    /// True if the forks of an item stay on its worker.
    ///
    /// # Safety
    /// As for [`Self::on_panic`].
    #[inline]
    pub(super) unsafe fn is_serial(link: NonNull<Self>) -> bool {
        // SAFETY: by this function's contract.
        unsafe { link.as_ref() }.flags.load(Relaxed) & SERIAL != 0
    }

    /// True once items that have not begun are set aside.
    #[inline]
    pub(crate) fn stopped(&self) -> bool {
        self.flags.load(Relaxed) & STOPPED != 0
    }

    /// # Safety
    /// As for [`Self::on_panic`].
    #[cold]
    pub(super) unsafe fn hand_back(link: NonNull<Self>, returned: Returned) {
        // SAFETY: by this function's contract.
        unsafe { (link.as_ref().queue.hand_back)(link, returned) };
    }

    /// # Safety
    /// An item of the link is not counted as finished.
    #[cold]
    pub(super) unsafe fn on_panic(link: NonNull<Self>, thrown: Thrown) {
        // SAFETY: by this function's contract.
        unsafe { (link.as_ref().queue.on_panic)(link, thrown) };
    }

    /// Called after each item, before it is counted. Returns true if the next one may have to be set aside: the worker checks
    /// the link again.
    ///
    /// # Safety
    /// As for [`Self::on_panic`].
    #[inline]
    pub(super) unsafe fn item_is_over(link: NonNull<Self>) -> bool {
        // SAFETY: by this function's contract.
        let Self { queue, flags, .. } = unsafe { link.as_ref() };
        let flags = flags.load(Relaxed);
        if flags == 0 {
            return false;
        }
        if flags & TAKES_TURNS != 0 {
            // SAFETY: as above.
            unsafe { (queue.item_is_over)(link) };
        }
        flags & STOPPED != 0
    }

    /// # Safety
    /// As for [`Self::on_panic`].
    #[cold]
    pub(super) unsafe fn rescued(link: NonNull<Self>, items: u64) {
        // SAFETY: by this function's contract.
        unsafe { (link.as_ref().queue.rescued)(link, items) };
    }

    /// Counts items that have finished. Returns true if a thread waits for that. The link may be freed when this returns, and
    /// even before. So it is passed by address, and only this word is borrowed.
    ///
    /// # Safety
    /// The link lives until these items are counted.
    #[inline]
    pub(crate) unsafe fn finish(link: NonNull<Self>, items: u64) -> bool {
        // SAFETY: alive until the addition, by this function's contract.
        let done: &P::AtomicU64 = unsafe { &(*link.as_ptr()).done };
        // AcqRel: a thread that sees all items finished sees all their effects.
        done.fetch_add(items, AcqRel) & WATCHED != 0
    }

    pub(crate) fn watch(&self) {
        self.done.fetch_or(WATCHED, AcqRel);
    }

    pub(crate) fn unwatch(&self) {
        self.done.fetch_and(!WATCHED, AcqRel);
    }

    /// Items that have finished.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Acquire) & !WATCHED
    }
}

/// Links in a chunk of the table, and chunks in the table.
const CHUNK_LINKS: usize = 128;
const CHUNKS: usize = if cfg!(loom) { 1 } else { 128 };

/// A link's place in its pool's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkTag(pub(crate) u16);

/// The links of the queues that a pool serves, by a tag that fits into an item's slot. The table grows by chunks that do not
/// move, so that a worker finds a link with two loads and no lock.
pub(crate) struct LinkTable<P: Platform> {
    chunks: [P::AtomicPtr<TableChunk<P>>; CHUNKS],
    /// Free tags, and how many tags were ever given out.
    free: Lock<P, (Vec<LinkTag>, usize)>,
}

struct TableChunk<P: Platform>([P::AtomicPtr<LinkHead<P>>; CHUNK_LINKS]);

impl<P: Platform> LinkTable<P> {
    pub(super) fn new() -> Self {
        Self {
            chunks: std::array::from_fn(|_| P::AtomicPtr::new(ptr::null_mut())),
            free: Lock::new((Vec::new(), 0)),
        }
    }

    /// Reserves a tag; `None` if the pool serves as many queues as it can.
    pub(crate) fn reserve(&self) -> Option<LinkTag> {
        let mut free = self.free.lock();
        if let Some(tag) = free.0.pop() {
            return Some(tag);
        }
        let at = free.1;
        if at >= CHUNKS * CHUNK_LINKS {
            return None;
        }
        let chunk = &self.chunks[at / CHUNK_LINKS];
        if chunk.load(Relaxed).is_null() {
            let links = std::array::from_fn(|_| P::AtomicPtr::new(ptr::null_mut()));
            chunk.store(Box::into_raw(Box::new(TableChunk::<P>(links))), Release);
        }
        free.1 += 1;
        Some(LinkTag(u16::try_from(at).expect("the table is smaller than 2¹⁶")))
    }

    /// Sets the link of a reserved tag. It must not move until the tag is released.
    pub(crate) fn set(&self, tag: LinkTag, link: NonNull<LinkHead<P>>) {
        self.place(tag).store(link.as_ptr(), Release);
    }

    /// Releases a tag, when no item of its link is left.
    pub(crate) fn release(&self, tag: LinkTag) {
        self.place(tag).store(ptr::null_mut(), Relaxed);
        self.free.lock().0.push(tag);
    }

    /// The link of an item that is not counted as finished.
    pub(super) fn link(&self, tag: LinkTag) -> NonNull<LinkHead<P>> {
        NonNull::new(self.place(tag).load(Acquire))
            .expect("an item's link lives until it is counted")
    }

    fn place(&self, LinkTag(tag): LinkTag) -> &P::AtomicPtr<LinkHead<P>> {
        let chunk = self.chunks[usize::from(tag) / CHUNK_LINKS].load(Acquire);
        assert!(!chunk.is_null(), "tag {tag} was reserved");
        // SAFETY: chunks are made by `reserve`, never replaced, and freed with the table.
        &unsafe { &*chunk }.0[usize::from(tag) % CHUNK_LINKS]
    }
}

impl<P: Platform> Drop for LinkTable<P> {
    fn drop(&mut self) {
        for chunk in &self.chunks {
            let chunk = chunk.load(Relaxed);
            if !chunk.is_null() {
                // SAFETY: made by `Box::into_raw` in `reserve`; the table is being dropped.
                drop(unsafe { Box::from_raw(chunk) });
            }
        }
    }
}
