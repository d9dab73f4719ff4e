//! What others see of a worker, by its index.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, AtomicPointer, Padded, Parker, Platform, ThreadId, fields};

use super::deque::Deque;
use super::header::Header;
use super::jobs::JobList;
use super::sizes::{MAX_CLAIMS, Range};
use crate::base::item::{ItemKind, Name};
use crate::base::latch::Latch;

/// Where an item's kind and the count of items are in a slot's `begun`: addresses of user space
/// have 48 bits.
const KIND_SHIFT: u32 = 16;
const ITEM_COUNT: u64 = (1 << KIND_SHIFT) - 1;

/// Set in a worker's `link` while it runs a stolen job, which is no item of that link.
pub(super) const STEALS: u32 = 1 << 31;

/// A worker's words that others touch. Made with the first worker that takes the index, freed
/// with the pool, so an index is always good to wake.
pub(super) struct WorkerSlot<P: Platform> {
    /// A: where the worker sleeps; whoever chose it wakes it.
    pub(super) parker: Padded<Parker<P>>,
    /// A: what it has claimed, see `intake::Range`.
    pub(super) ranges: Padded<[Range<P>; MAX_CLAIMS]>,
    /// A: jobs that it has forked, see `deque`.
    pub(super) deque: Deque<P, Header<P>>,
    /// A: jobs that it has spawned, and that any worker of the pool may run.
    pub(super) listed: Padded<JobList<P>>,
    /// A: of a team: jobs that this worker alone may run.
    pub(super) mail: JobList<P>,
    /// L: of a team: what the worker sleeps at, in a wait inside its work; null for nothing.
    pub(super) waits_at: P::AtomicPtr<Latch<P>>,
    /// A: of a team: 1 where it is to take the lock before its next job, since it counts as blocked.
    pub(super) is_called_back: P::AtomicU32,
    /// A: of a team: 1 where it is to run whatever there is, in its wait: nobody else does.
    pub(super) is_last_resort: P::AtomicU32,
    /// A: of a team: 1 where it waits for another team, and does what comes from outside meanwhile.
    pub(super) waits_elsewhere: P::AtomicU32,
    /// A: one more than the tag of the pool link of the item that the worker had last, 0 before its
    /// first, and [`STEALS`]; written by the worker alone.
    pub(super) link: Padded<P::AtomicU32>,
    /// A: how often the worker has looked for items under the lock; wraps.
    pub(super) looks: P::AtomicU32,
    /// A: what the worker has begun last; written by the worker alone. The address of the item's
    /// kind in the upper 48 bits, and the number of items it has begun in the lower 16.
    pub(super) begun: Padded<P::AtomicU64>,
    /// A: the name of the reusable item's function that the worker is inside of; null for none.
    pub(super) function: P::AtomicPtr<Name>,
    /// A: the worker's thread, for its CPU time; 0 before it runs.
    pub(super) thread: P::AtomicU32,
    /// A: where it lay down last, by the CPU's injector; written by the worker alone.
    pub(super) slept_at: P::AtomicU32,
    /// A: one more than the injector of who has woken it to steal, and goes on there; 0 where it woke for something else.
    pub(super) called_from: P::AtomicU32,
}
fields!(WorkerSlot<P: Platform> {
    parker, ranges, deque, listed, mail, waits_at, is_called_back, is_last_resort, waits_elsewhere, link, looks, begun, function, thread, slept_at, called_from,
});

impl<P: Platform> WorkerSlot<P> {
    pub(super) fn new() -> Self {
        Self {
            parker: Padded::new(Parker::new()),
            ranges: Padded::new(std::array::from_fn(|_| Range::new())),
            deque: Deque::new(),
            listed: Padded::new(JobList::new()),
            mail: JobList::new(),
            waits_at: P::AtomicPtr::new(std::ptr::null_mut()),
            is_called_back: P::AtomicU32::new(0),
            is_last_resort: P::AtomicU32::new(0),
            waits_elsewhere: P::AtomicU32::new(0),
            link: Padded::new(P::AtomicU32::new(0)),
            looks: P::AtomicU32::new(0),
            begun: Padded::new(P::AtomicU64::new(0)),
            function: P::AtomicPtr::new(std::ptr::null_mut()),
            thread: P::AtomicU32::new(0),
            slept_at: P::AtomicU32::new(0),
            called_from: P::AtomicU32::new(0),
        }
    }

    /// True if any worker could take a job of this one's.
    #[inline]
    pub(super) fn has_jobs_for_all(&self) -> bool {
        self.deque.has_shared() || self.listed.has_jobs()
    }

    /// The worker begins an item. Only it writes the word: no locked instruction.
    #[inline]
    pub(super) fn begin(&self, kind: &'static ItemKind) {
        let address = std::ptr::from_ref(kind).expose_provenance() as u64;
        let count = self.begun.load(Relaxed).wrapping_add(1) & ITEM_COUNT;
        self.begun.store(address << KIND_SHIFT | count, Relaxed);
    }

    /// The worker begins something else inside the same item.
    #[inline]
    pub(super) fn begin_inside(&self) {
        let begun = self.begun.load(Relaxed);
        self.begun.store(begun & !ITEM_COUNT | begun.wrapping_add(1) & ITEM_COUNT, Relaxed);
    }

    /// The type name of the function that the worker has begun last.
    #[allow(unsafe_code)]
    pub(super) fn function(&self) -> &'static str {
        let name = self.function.load(Acquire);
        // SAFETY: null, or from a `&'static Name` in `set_function`.
        if let Some(name) = unsafe { name.as_ref() } {
            return name.get();
        }
        let address = (self.begun.load(Relaxed) >> KIND_SHIFT) as usize;
        let kind = std::ptr::with_exposed_provenance::<ItemKind>(address);
        // SAFETY: null, or exposed by `begin` from a `&'static Kind`.
        unsafe { kind.as_ref() }.map_or("(nothing yet)", |kind| kind.name.get())
    }

    /// Says which reusable item's function the worker is inside of; returns which it was.
    #[inline]
    pub(super) fn set_function(&self, name: *const Name) -> *const Name {
        self.function.swap(name.cast_mut(), Release).cast_const()
    }

    pub(super) fn thread_id(&self) -> ThreadId {
        ThreadId(self.thread.load(Acquire))
    }

    pub(super) fn cpu_time(&self) -> Option<std::time::Duration> {
        let thread = self.thread_id();
        if thread == ThreadId(0) { None } else { P::cpu_time_of(thread) }
    }
}
