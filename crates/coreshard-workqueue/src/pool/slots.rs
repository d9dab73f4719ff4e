//! The parts of a pool's workers that other threads see, by worker index; and the limits of a pool's size.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, AtomicPointer, Padded, Parker, Platform, ThreadId, fields};

use super::jobs::{Deque, Header, JobList};
use super::link::LinkTag;
use crate::base::item::{Item, ItemKind, Name};
use crate::base::latch::Latch;
use crate::intake;
pub(crate) use crate::intake::MAX_INJECTORS;

/// Items in a segment of a pool's intake: 4 KiB of slots.
#[cfg(not(loom))]
pub(super) const SEGMENT_ITEMS: usize = 128;
#[cfg(loom)]
pub(super) const SEGMENT_ITEMS: usize = 2;

/// Workers that a pool may have if all but its limit are blocked.
#[cfg(not(loom))]
pub(crate) const MAX_WORKERS: usize = 512;
#[cfg(loom)]
pub(crate) const MAX_WORKERS: usize = 3;

/// Open claims of a worker, each at another injector: as many as 64 bytes describe.
pub(super) const MAX_CLAIMS: usize = 4;

pub(super) type Injectors<P> = intake::Injectors<P, Item, SEGMENT_ITEMS>;
pub(super) type SegmentQueue<P> = intake::SegmentQueue<P, Item, SEGMENT_ITEMS>;
pub(super) type Takers<P> = intake::Takers<P, Item, SEGMENT_ITEMS>;
pub(super) type Range<P> = intake::Range<P, Item, SEGMENT_ITEMS>;
pub(super) type Segment<P> = intake::Segment<P, Item, SEGMENT_ITEMS>;
pub(super) type Watches<P> = intake::Watches<P, Item, SEGMENT_ITEMS>;
pub(super) type Claim<P> = intake::Claim<P, Item, SEGMENT_ITEMS>;

/// Bit position of an item's kind in a slot's `begun`, above the count of items: user-space addresses have 48 bits.
const KIND_SHIFT: u32 = 16;
const ITEM_COUNT: u64 = (1 << KIND_SHIFT) - 1;

/// Set in a worker's `link` while it runs a stolen job, which is not an item of that link.
const STEALS: u32 = 1 << 31;

/// A worker's words that other threads access. Made for the first worker with this index and freed with the pool, so any index
/// can be woken at any time. All fields are atomic.
pub(super) struct WorkerSlot<P: Platform> {
    /// The word that the worker parks on.
    pub(super) parker: Padded<Parker<P>>,
    /// When it was last woken; 0 once the estimator has used that time.
    called_at_ns: P::AtomicU64,
    /// Its claimed items, see `intake::Range`.
    pub(super) ranges: Padded<[Range<P>; MAX_CLAIMS]>,
    /// Its forked jobs.
    pub(super) deque: Deque<P, Header<P>>,
    /// Its spawned jobs, which any worker of the pool may run.
    pub(super) listed: Padded<JobList<P>>,
    /// Of a team: jobs that only this worker may run.
    pub(super) mail: JobList<P>,
    /// Of a team: the latch that the worker sleeps at inside its work; null for none. Changed under the pool's lock.
    pub(super) waits_at: P::AtomicPtr<Latch<P>>,
    /// 1 if the worker must take the lock before its next job, since it counts as blocked.
    pub(super) is_called_back: P::AtomicU32,
    /// Of a team: 1 if the worker must run any job it finds while it waits, since no other worker runs.
    pub(super) is_last_resort: P::AtomicU32,
    /// Of a team: 1 while the worker waits for another team, and runs injected jobs meanwhile.
    pub(super) waits_elsewhere: P::AtomicU32,
    /// The link tag of the worker's last item plus one, or 0 before its first item; and [`STEALS`]. Written only by the
    /// worker.
    link: Padded<P::AtomicU32>,
    /// How often the worker has looked for items under the lock; wraps.
    looks: P::AtomicU32,
    /// The item that the worker has begun last; written only by the worker. The address of the item's kind is in the upper 48
    /// bits, the number of begun items in the lower 16.
    begun: Padded<P::AtomicU64>,
    /// Type name of the function of the reusable item that the worker is inside of; null for none.
    function: P::AtomicPtr<Name>,
    /// The worker's thread, for its CPU time; 0 before it starts.
    thread: P::AtomicU32,
    /// The injector of the CPU on which it parked last; written only by the worker.
    pub(super) slept_at: P::AtomicU32,
    /// The injector of the running thread that woke it to steal, plus one; 0 if it was woken otherwise.
    pub(super) called_from: P::AtomicU32,
}
fields!(WorkerSlot<P: Platform> {
    parker, called_at_ns, ranges, deque, listed, mail, waits_at, is_called_back, is_last_resort, waits_elsewhere, link, looks, begun, function, thread, slept_at, called_from,
});

impl<P: Platform> WorkerSlot<P> {
    fn new() -> Self {
        Self {
            parker: Padded::new(Parker::new()),
            called_at_ns: P::AtomicU64::new(0),
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

    /// Records that the worker is about to be woken. Relaxed: the time feeds an estimate, and nothing else depends on it.
    #[inline]
    pub(super) fn set_called_at(&self, now_ns: u64) {
        self.called_at_ns.store(now_ns, Relaxed);
    }

    /// When the worker was woken; 0 if it was not woken since the last call.
    pub(super) fn take_called_at(&self) -> u64 {
        let called_at_ns = self.called_at_ns.load(Relaxed);
        self.called_at_ns.store(0, Relaxed);
        called_at_ns
    }

    /// True if any worker could take one of this worker's jobs.
    #[inline]
    pub(super) fn has_jobs_for_all(&self) -> bool {
        self.deque.has_shared() || self.listed.has_jobs()
    }

    /// Records that the worker begins an item. Only the worker writes the word, so no locked instruction is needed.
    #[inline]
    pub(super) fn begin(&self, kind: &'static ItemKind) {
        let address = std::ptr::from_ref(kind).expose_provenance() as u64;
        let count = self.begun.load(Relaxed).wrapping_add(1) & ITEM_COUNT;
        self.begun.store(address << KIND_SHIFT | count, Relaxed);
    }

    /// Records that the worker begins something else inside the same item.
    #[inline]
    pub(super) fn begin_inside(&self) {
        let begun = self.begun.load(Relaxed);
        self.begun.store(begun & !ITEM_COUNT | begun.wrapping_add(1) & ITEM_COUNT, Relaxed);
    }

    /// Changes with each item that the worker begins; 0 before the first.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    /// Type name of the function that the worker has begun last.
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

    /// Sets the function of the reusable item that the worker is inside of; returns the previous one.
    #[inline]
    pub(super) fn set_function(&self, name: *const Name) -> *const Name {
        self.function.swap(name.cast_mut(), Release).cast_const()
    }

    /// Records the thread that the worker runs on.
    pub(super) fn set_thread(&self, ThreadId(thread): ThreadId) {
        self.thread.store(thread, Release);
    }

    pub(super) fn thread_id(&self) -> ThreadId {
        ThreadId(self.thread.load(Acquire))
    }

    pub(super) fn cpu_time(&self) -> Option<Duration> {
        let thread = self.thread_id();
        if thread == ThreadId(0) { None } else { P::cpu_time_of(thread) }
    }

    /// Records that the worker runs items of this link from here on.
    #[inline]
    pub(super) fn set_link(&self, LinkTag(tag): LinkTag) {
        self.link.store(u32::from(tag) + 1, Relaxed);
    }

    /// Records that the worker runs a stolen job.
    pub(super) fn set_steals(&self) {
        self.link.store(self.link.load(Relaxed) | STEALS, Relaxed);
    }

    /// The link of the worker's last item.
    pub(super) fn latest_link(&self) -> Option<LinkTag> {
        let tag = (self.link.load(Relaxed) & !STEALS).checked_sub(1)?;
        Some(LinkTag(tag as u16))
    }

    /// The same, unless the worker runs a stolen job.
    pub(super) fn running_link(&self) -> Option<LinkTag> {
        (self.link.load(Relaxed) & STEALS == 0).then(|| self.latest_link())?
    }

    /// Counts a look for items under the lock. Written only by the worker.
    #[inline]
    pub(super) fn count_look(&self) {
        self.looks.store(self.looks.load(Relaxed).wrapping_add(1), Relaxed);
    }

    pub(super) fn looks(&self) -> u32 {
        self.looks.load(Relaxed)
    }
}

/// Pointer to the slot of a worker index; null before it has one.
struct SlotPlace<P: Platform> {
    slot: P::AtomicPtr<WorkerSlot<P>>,
}
fields!(SlotPlace<P: Platform> { slot });

/// The slots of a pool's workers.
pub(super) struct Slots<P: Platform> {
    /// Set once each, under the pool's lock, before the index is used.
    places: Box<[SlotPlace<P>]>,
    /// All lower indices have a slot. Written under the pool's lock.
    count: P::AtomicU32,
    /// Claims that were opened to thieves and whose owner has not yet seen that they are empty. Thieves read this first: it is
    /// one word, and there are as many ranges as workers.
    open_claims: Padded<P::AtomicU32>,
}
fields!(Slots<P: Platform> { places, count, open_claims });

impl<P: Platform> Slots<P> {
    pub(super) fn new() -> Self {
        let place = |_| SlotPlace { slot: P::AtomicPtr::new(std::ptr::null_mut()) };
        Self {
            places: (0..MAX_WORKERS).map(place).collect(),
            count: P::AtomicU32::new(0),
            open_claims: Padded::new(P::AtomicU32::new(0)),
        }
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> &WorkerSlot<P> {
        let slot = self.places[index].slot.load(Acquire);
        assert!(!slot.is_null(), "worker {index} has a slot before any thread knows it");
        // SAFETY: slots are made by `ensure`, never replaced, and freed with the pool.
        unsafe { &*slot }
    }

    /// Makes the slot of this index, if it has none. Called under the pool's lock, before the index is given to a worker.
    pub(super) fn ensure(&self, index: usize) {
        let place = &self.places[index];
        if place.slot.load(Relaxed).is_null() {
            P::describe(&raw const *place);
            let slot = Box::into_raw(Box::new(WorkerSlot::new()));
            P::describe(slot.cast_const());
            // Release pairs with the Acquire of `get`: a reader sees the slot initialized.
            place.slot.store(slot, Release);
            let count = u32::try_from(index + 1).expect("fewer workers than 2³²");
            if self.count.load(Relaxed) < count {
                self.count.store(count, Release);
            }
        }
    }

    /// The slots of all workers that ever existed.
    pub(super) fn each(&self) -> impl Iterator<Item = (usize, &WorkerSlot<P>)> {
        (0..self.count.load(Acquire) as usize).map(|at| (at, self.get(at)))
    }

    /// The ranges of all workers, with the worker's index.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (usize, &Range<P>)> {
        self.each().flat_map(|(at, slot)| slot.ranges.iter().map(move |range| (at, range)))
    }

    /// Counts a worker's claims as open to thieves; it had none open before. Counted before the claims are published, and both
    /// before the worker next releases the lock, which a thief takes next: a later holder of the lock sees the count.
    #[inline]
    pub(super) fn open_claims(&self) {
        self.open_claims.fetch_add(1, Release);
    }

    /// Called once a worker has seen that its open claims are empty.
    #[inline]
    pub(super) fn close_claims(&self) {
        // Relaxed: a count that is too high only costs a look at the ranges.
        self.open_claims.fetch_sub(1, Relaxed);
    }

    /// True if a claim has items that a thief could take.
    pub(super) fn has_open_items(&self) -> bool {
        self.has_open_claims() && self.ranges().any(|(_, range)| range.has_items())
    }

    /// True if a claim may have items that a thief could take.
    #[inline]
    pub(super) fn has_open_claims(&self) -> bool {
        self.open_claims.load(Acquire) > 0
    }
}

impl<P: Platform> Drop for Slots<P> {
    fn drop(&mut self) {
        for SlotPlace { slot } in &self.places {
            let slot = slot.load(Relaxed);
            if !slot.is_null() {
                // SAFETY: made by `Box::into_raw` in `ensure`; the last reference to the pool was dropped, so no thread reads
                // it.
                drop(unsafe { Box::from_raw(slot) });
            }
        }
    }
}
