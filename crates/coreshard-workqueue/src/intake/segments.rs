//! The memory and the tickets of the lock-free intake. `README.md` beside this file describes the
//! protocol; the rules for this file's fields are:
//!
//! - `P:` written by producers (any CPU of the pod), atomically.
//! - `T:` accessed only by the taker (the holder of the pool's lock).
//! - `C:` written by takers and thieves that took items out of a segment, atomically.
//! - `I:` written by the segment's installer before it is linked; stable until it is recycled.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use coreshard_platform::{
    AtomicInt, AtomicPointer, DataCell, Lock, NodeMemory, Padded, Platform, fields,
};
use coreshard_topology::NodeId;

/// A slot's state while it is armed: its producer wakes the designated waiter.
const ARMED: u64 = 1 << 63;
/// A slot's state while it is armed for a burst: its producer wakes a runner-up.
const ARMED_FOR_BURST: u64 = ARMED | 1;
/// The taker has skipped this slot: its producer takes the item back and pushes it again.
const SKIPPED: u64 = ARMED | 2;

/// How many unfilled slots in front of a filled one are skipped, or searched for an armed one.
const MAX_SKIPPED: usize = if cfg!(loom) { 1 } else { 4 };

/// Of every this many slots the last one may be armed for a burst, if it is that far behind the head. (Models have
/// segments of two.)
pub(crate) const SLOTS_TO_A_BURST: u64 = if cfg!(loom) { 1 } else { 4 };
const BEHIND_HEAD: u64 = if cfg!(loom) { 1 } else { 2 };

/// Which sleeper the producer of an item wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tells {
    Nobody,
    Designated,
    RunnerUp,
}

impl Tells {
    /// The wake-up that a slot's previous state asks for.
    #[inline(always)]
    fn by(state: u64) -> Self {
        // All other states are numbers far below. `SKIPPED` never arrives here.
        if state < ARMED {
            Self::Nobody
        } else if state == ARMED {
            Self::Designated
        } else {
            Self::RunnerUp
        }
    }
}

/// The low bits of a filled slot's state are the item's tag; the segment's number is above.
const TAG_BITS: u32 = 16;

/// True if a slot of the segment with `number` is filled, by its state.
fn is_filled(state: u64, number: u64) -> bool {
    state >> TAG_BITS == number
}

/// A slot's state after the latest of all SeqCst accesses.
#[inline(always)]
fn latest(state: &impl AtomicInt<u64>) -> u64 {
    // The model checker has no order of SeqCst loads: there an exchange without a change reads the latest value.
    if cfg!(loom) { state.fetch_or(0, SeqCst) } else { state.load(SeqCst) }
}

/// A place for one item: 32 bytes with a workqueue's item, two in a cache line.
///
/// One slot per line (64 bytes) was measured first. Neighbours that are filled by two CPUs then share no line. But an unshared
/// line must still move from producer to worker, and twice as many of them cost more than the sharing.
#[repr(C)]
struct Slot<P: Platform, T> {
    /// P: the number of the segment and a tag once the item was written; `ARMED` or `ARMED_FOR_BURST` while the slot is
    /// armed; any other value means that it is empty. A recycled segment has a new number, so nothing has to be reset.
    state: P::AtomicU64,
    value: P::Cell<MaybeUninit<T>>,
}
fields!(Slot<P: Platform, T> { state, value });

/// The segment's own words, on lines that producers only read while they fill it.
struct SegmentLinks<P: Platform, T, const LEN: usize> {
    /// I: one more than (ticket / LEN); 0 while it is in the store.
    number: P::AtomicU64,
    /// P: the segment after this one, if it was needed yet.
    next: P::AtomicPtr<Segment<P, T, LEN>>,
    /// I: the segment before this one, null for the first.
    previous: P::AtomicPtr<Segment<P, T, LEN>>,
    /// I: the injector of the queue that the segment belongs to.
    injector: P::AtomicU32,
}
fields!(SegmentLinks<P: Platform, T; const LEN: usize> { number, next, previous, injector });

/// The counts that decide when a segment is recycled, on cache lines that takers write.
struct Holds<P: Platform> {
    /// C: items copied out.
    taken: P::AtomicU32,
    /// C: starts at two: one until its own items are out, and one until the next segment's are.
    holds: P::AtomicU32,
}
fields!(Holds<P: Platform> { taken, holds });

#[repr(C)]
pub(crate) struct Segment<P: Platform, T, const LEN: usize> {
    links: Padded<SegmentLinks<P, T, LEN>>,
    holds: Padded<Holds<P>>,
    slots: [Slot<P, T>; LEN],
}
fields!(Segment<P: Platform, T; const LEN: usize> { links, holds, slots });

impl<P: Platform, T, const LEN: usize> Segment<P, T, LEN> {
    fn new() -> Self {
        Self {
            links: Padded::new(SegmentLinks {
                number: P::AtomicU64::new(0),
                next: P::AtomicPtr::new(ptr::null_mut()),
                previous: P::AtomicPtr::new(ptr::null_mut()),
                injector: P::AtomicU32::new(0),
            }),
            holds: Padded::new(Holds { taken: P::AtomicU32::new(0), holds: P::AtomicU32::new(0) }),
            slots: std::array::from_fn(|_| Slot {
                state: P::AtomicU64::new(0),
                value: P::Cell::new(MaybeUninit::uninit()),
            }),
        }
    }
}

impl<P: Platform, T, const LEN: usize> Segment<P, T, LEN> {
    /// Describes the fields of a segment at its final address to the platform.
    fn describe(&self) {
        P::describe(&raw const *self);
        P::describe(&raw const *self.links);
        P::describe(&raw const *self.holds);
        self.slots.iter().for_each(|slot| P::describe(&raw const *slot));
    }

    pub(crate) fn injector(&self) -> usize {
        self.links.injector.load(Relaxed) as usize
    }
}

/// Items that were claimed from one segment and not yet copied out.
pub(crate) struct Claim<P: Platform, T, const LEN: usize> {
    pub(crate) segment: *mut Segment<P, T, LEN>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl<P: Platform, T, const LEN: usize> Claim<P, T, LEN> {
    pub(crate) fn items(&self) -> usize {
        self.end - self.start
    }
}

struct Tail<P: Platform, T, const LEN: usize> {
    /// P: the next ticket.
    ticket: P::AtomicU64,
    /// P: a recent segment, to start the search from; may be stale.
    last: P::AtomicPtr<Segment<P, T, LEN>>,
    /// P: one more than the ticket whose slot was filled last: the next ticket, unless a producer is between the two steps.
    filled: P::AtomicU64,
    /// P: counters of the queues that push here. They fill the cache line that every producer fetches anyway.
    counters: [P::AtomicU64; TAIL_COUNTERS],
}
fields!(Tail<P: Platform, T; const LEN: usize> { ticket, last, filled, counters });

/// Unused segments, and the memory of all segments. Segments are never unmapped before the queue is dropped, so a stale
/// pointer to one is safe to read through.
struct Store<P: Platform, T, const LEN: usize> {
    injector: u32,
    free: Vec<*mut Segment<P, T, LEN>>,
    chunks: Vec<Chunk<P, T, LEN>>,
    /// For each skipped slot whose producer has not returned: the segment's number, and the segment.
    skipped: Vec<(u64, *mut Segment<P, T, LEN>)>,
}
fields!(Store<P: Platform, T; const LEN: usize> { injector, free, chunks, skipped });

struct Chunk<P: Platform, T, const LEN: usize> {
    memory: NodeMemory,
    segments: usize,
    /// Its pages were returned to the system: all its segments are unused, and none is in `free`.
    cold: bool,
    _of: std::marker::PhantomData<fn() -> Segment<P, T, LEN>>,
}

impl<P: Platform, T, const LEN: usize> Chunk<P, T, LEN> {
    fn new(segments: usize, node: Option<NodeId>) -> Self {
        let bytes = |segments| segments * size_of::<Segment<P, T, LEN>>();
        let (memory, segments) = match P::allocate(bytes(segments), node) {
            Ok(memory) => (memory, segments),
            // Nothing can be mapped; the program's allocator may still have memory.
            Err(_) => match NodeMemory::on_heap(bytes(FIRST_CHUNK_SEGMENTS)) {
                Ok(memory) => (memory, FIRST_CHUNK_SEGMENTS),
                // Like the standard collections when memory is exhausted: an accepted item cannot be returned from here.
                Err(_) => std::alloc::handle_alloc_error(Layout::new::<Segment<P, T, LEN>>()),
            },
        };
        let chunk = Self { memory, segments, cold: false, _of: std::marker::PhantomData };
        for segment in chunk.segments() {
            // SAFETY: the mapping is page-aligned, long enough for this many segments, and new.
            unsafe { segment.write(Segment::new()) };
            // SAFETY: written just now.
            unsafe { (*segment).describe() };
        }
        chunk
    }

    fn segments(
        &self,
    ) -> impl DoubleEndedIterator<Item = *mut Segment<P, T, LEN>> + use<P, T, LEN> {
        let first = self.memory.as_ptr().cast::<Segment<P, T, LEN>>();
        (0..self.segments).map(move |at| first.wrapping_add(at))
    }

    fn holds(&self, segment: *mut Segment<P, T, LEN>) -> bool {
        let start = self.memory.as_ptr().addr();
        (start..start + self.memory.len()).contains(&segment.addr())
    }
}

impl<P: Platform, T, const LEN: usize> Drop for Chunk<P, T, LEN> {
    fn drop(&mut self) {
        for segment in self.segments() {
            // SAFETY: `grow` wrote segments at these places (and pages that were returned to the system read as zeros, which
            // are an unused segment), and each is dropped once.
            unsafe { ptr::drop_in_place(segment) };
        }
    }
}

/// A producer's place: the slot of its ticket. Two words, so that it is passed in registers.
pub(super) struct DrawnSlot<P: Platform, T, const LEN: usize> {
    pub(super) segment: *mut Segment<P, T, LEN>,
    ticket: u64,
}

impl<P: Platform, T, const LEN: usize> DrawnSlot<P, T, LEN> {
    #[inline(always)]
    fn at(self) -> usize {
        SegmentQueue::<P, T, LEN>::slot_of(self.ticket)
    }

    #[inline(always)]
    pub(super) fn number(self) -> u64 {
        SegmentQueue::<P, T, LEN>::number_of(self.ticket)
    }
}

impl<P: Platform, T, const LEN: usize> Clone for DrawnSlot<P, T, LEN> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform, T, const LEN: usize> Copy for DrawnSlot<P, T, LEN> {}

/// How many slots ahead a producer prefetches.
const PREFETCH_SLOTS: usize = 16;

/// Counters that fit into the tail's pair of cache lines beside its other words.
pub(crate) const TAIL_COUNTERS: usize = 13;

/// How many segments the first chunk holds; later ones hold as many as all earlier ones together.
const FIRST_CHUNK_SEGMENTS: usize = 2;
/// Upper bound of that.
const LARGEST_CHUNK_SEGMENTS: usize = 256;

/// An unbounded queue. Producers never wait for one another, and takers are serialized by a lock that
/// is not here (the holder of the [`Taker`] has it).
pub(crate) struct SegmentQueue<P: Platform, T, const LEN: usize> {
    tail: Padded<Tail<P, T, LEN>>,
    /// T writes, P reads: a segment that is not behind any ticket whose slot is still to be written.
    first: Padded<P::AtomicPtr<Segment<P, T, LEN>>>,
    store: Padded<Lock<P, Store<P, T, LEN>>>,
    node: Option<NodeId>,
}
fields!(SegmentQueue<P: Platform, T; const LEN: usize> { tail, first, store, node });

// SAFETY: raw pointers lead to segments that the queue owns and never unmaps while it lives. All their shared words are
// atomics, and the slots' states hand the cells over. Items move between threads, hence `T: Send`.
unsafe impl<P: Platform, T: Send, const LEN: usize> Send for SegmentQueue<P, T, LEN> {}
// SAFETY: as above.
unsafe impl<P: Platform, T: Send, const LEN: usize> Sync for SegmentQueue<P, T, LEN> {}

/// The right to take items: there is one per queue, kept under the pool's lock.
pub(crate) struct Taker<P: Platform, T, const LEN: usize> {
    /// T: the first ticket that was not claimed.
    head: u64,
    /// T: the segment of `head`, or the one before it while that one is not installed.
    segment: *mut Segment<P, T, LEN>,
    /// T: tickets that were skipped.
    skipped: u64,
}

impl<P: Platform, T, const LEN: usize> Taker<P, T, LEN> {
    /// The first ticket that was not claimed.
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// Tickets that were skipped: their items were pushed again, with other tickets.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }
}

// SAFETY: the pointer leads to a segment of the queue, see there.
unsafe impl<P: Platform, T: Send, const LEN: usize> Send for Taker<P, T, LEN> {}

/// A slot that a worker may spin on before it sleeps: the slot of the next item.
pub(crate) struct Watch<P: Platform, T, const LEN: usize> {
    segment: *mut Segment<P, T, LEN>,
    at: usize,
    number: u64,
}

impl<P: Platform, T, const LEN: usize> SegmentQueue<P, T, LEN> {
    const fn number_of(ticket: u64) -> u64 {
        ticket / LEN as u64 + 1
    }

    const fn slot_of(ticket: u64) -> usize {
        (ticket % LEN as u64) as usize
    }

    /// The segment behind a pointer that was once in this queue. Its words may be stale if the segment was recycled meanwhile;
    /// its number shows that.
    #[inline(always)]
    fn segment(&self, segment: *mut Segment<P, T, LEN>) -> &Segment<P, T, LEN> {
        // SAFETY: the queue uses only pointers from its store, whose segments stay mapped and initialised while the queue
        // lives. Their words are atomics, and their cells are accessed only as the slots' states permit.
        unsafe { &*segment }
    }

    /// Makes an empty queue with its memory on `node`, and the right to take from it.
    pub(crate) fn new(node: Option<NodeId>, injector: u32) -> (Self, Taker<P, T, LEN>) {
        let mut store: Store<P, T, LEN> =
            Store { injector, free: Vec::new(), chunks: Vec::new(), skipped: Vec::new() };
        store.add(Chunk::new(store.wanted(), node));
        let segment = store.take().expect("a chunk has segments");
        let queue = Self {
            tail: Padded::new(Tail {
                ticket: P::AtomicU64::new(0),
                last: P::AtomicPtr::new(segment),
                filled: P::AtomicU64::new(0),
                counters: std::array::from_fn(|_| P::AtomicU64::new(0)),
            }),
            first: Padded::new(P::AtomicPtr::new(segment)),
            store: Padded::new(Lock::new(store)),
            node,
        };
        queue.segment(segment).links.number.store(Self::number_of(0), Relaxed);
        (queue, Taker { head: 0, segment, skipped: 0 })
    }

    /// Describes the fields to the platform, once they are at their final address.
    pub(crate) fn describe(&self) {
        P::describe(&raw const *self);
        P::describe(&raw const *self.tail);
        self.store.describe();
    }

    /// Adds an item. Returns which sleeper the caller must wake.
    #[inline(always)]
    #[must_use]
    pub(crate) fn push(&self, value: T, tag: u16) -> Tells {
        let (place, is_in_order) = self.draw();
        let before = self.put(place, value, tag);
        if before < ARMED && is_in_order { Tells::Nobody } else { self.see_to(place, tag, before) }
    }

    /// Draws a ticket. The flag is true if the slot before it was filled at that time.
    #[inline(always)]
    pub(super) fn draw(&self) -> (DrawnSlot<P, T, LEN>, bool) {
        let hint = self.tail.last.load(Acquire);
        // The ticket must be unique, and its slot's memory is published by the segment's number and the slot's state. SeqCst:
        // see `look_back`.
        let ticket = self.tail.ticket.fetch_add(1, SeqCst);
        // Acquire pairs with the Release of `put`. On the cache line of the ticket: checking the slot before instead cost a
        // quarter of a flood's throughput.
        let is_in_order = self.tail.filled.load(Acquire) == ticket;
        let number = Self::number_of(ticket);
        let segment = if self.segment(hint).links.number.load(Acquire) == number {
            hint
        } else {
            self.find(hint, number)
        };
        // This segment is not recycled before this slot's item is taken.
        (DrawnSlot { segment, ticket }, is_in_order)
    }

    /// Writes an item into a drawn slot. Returns the slot's previous state.
    #[inline(always)]
    fn put(&self, place: DrawnSlot<P, T, LEN>, value: T, tag: u16) -> u64 {
        let at = place.at();
        let slots = &self.segment(place.segment).slots;
        let slot = &slots[at];
        // The exchange below waits until this slot's cache line arrives. The following lines are prefetched
        // now, so that a burst finds them.
        P::prefetch_write(slots.as_ptr().wrapping_add(at + PREFETCH_SLOTS));
        slot.value.with_mut(|place| {
            // SAFETY: the ticket belongs to this call alone, so no other thread writes here. The reader of the previous use
            // has finished, since the segment was recycled after it (the Acquire of `number` pairs with the Release of the
            // installer, which had it from the store's lock).
            unsafe { (*place).write(value) };
        });
        // Release publishes the item to the taker's Acquire in `claim`. A swap, not a store: at this moment either the taker
        // sees the item before it arms the slot, or this call finds it armed. Acquire pairs with the Release of `arm`; SeqCst:
        // see `look_back`.
        let before = slot.state.swap(place.number() << TAG_BITS | u64::from(tag), SeqCst);
        self.tail.filled.store(place.ticket + 1, Release);
        before
    }

    /// Called after an item was written over the state `before`, unless that was not armed and the slot in front was filled.
    /// Returns which sleeper the caller must wake.
    #[cold]
    #[inline(never)]
    fn see_to(&self, mut place: DrawnSlot<P, T, LEN>, tag: u16, mut before: u64) -> Tells {
        while before == SKIPPED {
            let value = self.take_back(place);
            (place, _) = self.draw();
            before = self.put(place, value, tag);
        }
        if before < ARMED { self.look_back(place) } else { Tells::by(before) }
    }

    /// As [`push`](Self::push), into a slot that was drawn before.
    ///
    /// # Errors
    /// Returns the item if the taker has skipped the slot.
    #[cfg(test)]
    pub(super) fn fill(&self, place: DrawnSlot<P, T, LEN>, value: T, tag: u16) -> Result<Tells, T> {
        match self.put(place, value, tag) {
            SKIPPED => Err(self.take_back(place)),
            before => Ok(self.see_to(place, tag, before)),
        }
    }

    /// Called after a slot was filled behind an unfilled one. If that one, or one of a few in front of it, is armed, its
    /// producer was preempted. This caller wakes the designated waiter in its place.
    ///
    /// SeqCst: a producer fills the slot behind and then looks here, and a taker arms this slot and then looks at
    /// the next one; at least one of them sees the other's write.
    #[cold]
    fn look_back(&self, place: DrawnSlot<P, T, LEN>) -> Tells {
        let (mut segment, mut at, mut number) = (place.segment, place.at(), place.number());
        for _ in 0..MAX_SKIPPED {
            if at == 0 {
                // It may be recycled meanwhile. Then this reads another use of it, and at worst wakes a worker for nothing.
                segment = self.segment(segment).links.previous.load(Acquire);
                if segment.is_null() {
                    break;
                }
                (at, number) = (LEN, number - 1);
            }
            at -= 1;
            let state = latest(&self.segment(segment).slots[at].state);
            if state == ARMED {
                return Tells::Designated;
            }
            if is_filled(state, number) {
                break;
            }
        }
        Tells::Nobody
    }

    /// Takes back the item that was just written into a skipped slot.
    #[cold]
    fn take_back(&self, place: DrawnSlot<P, T, LEN>) -> T {
        let segment = place.segment;
        {
            let skipped = &mut self.store.lock().skipped;
            let entry = skipped.iter().position(|(_, of)| ptr::eq(*of, segment));
            skipped.swap_remove(entry.expect("the taker noted what it skipped"));
        }
        // SAFETY: the taker is past this slot and takes nothing from it, so only this producer accesses it; it was written
        // just now.
        let value = self.segment(segment).slots[place.at()]
            .value
            .with(|place| unsafe { (*place).assume_init_read() });
        // SAFETY: no other thread takes this item out, and it was taken out just now.
        unsafe { self.release(segment, 1) };
        value
    }

    /// Walks to the segment with `number`. The caller has a ticket there whose slot it has not written yet, so neither that
    /// segment nor the one before it can be recycled meanwhile.
    #[cold]
    pub(super) fn find(
        &self,
        hint: *mut Segment<P, T, LEN>,
        number: u64,
    ) -> *mut Segment<P, T, LEN> {
        let mut segment = hint;
        let mut rounds = 0_u32;
        loop {
            let links = &self.segment(segment).links;
            let seen = links.number.load(Acquire);
            if seen == number {
                return segment;
            }
            let next =
                if seen == 0 || seen > number { ptr::null_mut() } else { links.next.load(Acquire) };
            if seen + 1 == number && seen != 0 {
                // The last step. The segment cannot be recycled, so its link is current.
                return if next.is_null() {
                    self.install(segment, number)
                } else {
                    self.name(next, number)
                };
            }
            if !next.is_null() && self.segment(next).links.number.load(Acquire) == seen + 1 {
                segment = next;
                continue;
            }
            // The hint is stale, or a segment on the way has not been linked by its installers yet.
            rounds += 1;
            if rounds.is_multiple_of(64) {
                P::yield_now();
            } else {
                P::spin_hint();
            }
            segment = self.first.load(Acquire);
            // The taker is past this ticket: it has skipped it.
            if self.segment(segment).links.number.load(Acquire) > number
                && let Some(skipped) = self.skipped_segment(number)
            {
                return skipped;
            }
        }
    }

    /// The segment with `number`, if the producer of a skipped slot in it has not returned: so it is not recycled.
    fn skipped_segment(&self, number: u64) -> Option<*mut Segment<P, T, LEN>> {
        let store = self.store.lock();
        store.skipped.iter().find(|(of, _)| *of == number).map(|(_, segment)| *segment)
    }

    /// Sets the number of `segment`, which is linked after number − 1. Its installer does the same; a thread that needs the
    /// number does not wait for that.
    fn name(&self, segment: *mut Segment<P, T, LEN>, number: u64) -> *mut Segment<P, T, LEN> {
        // It is not recycled meanwhile: the caller has a ticket in it whose slot is not written yet, or is the taker whose
        // head is in it.
        let links = &self.segment(segment).links;
        if links.number.load(Acquire) != number {
            // Release passes on the reset words that the Acquire load of the link made visible.
            links.number.store(number, Release);
        }
        segment
    }

    /// Takes a segment from the store. Memory is mapped without the lock, so that a preempted producer does not keep others
    /// from a segment.
    fn fresh(&self) -> *mut Segment<P, T, LEN> {
        loop {
            let wanted = {
                let mut store = self.store.lock();
                match store.take() {
                    Some(segment) => return segment,
                    None => store.wanted(),
                }
            };
            let chunk = Chunk::new(wanted, self.node);
            self.store.lock().add(chunk);
        }
    }

    /// Links a segment after `previous`, or finds that another thread did. The caller holds a ticket in the new segment, or is
    /// the taker whose head points there. So `previous` is not recycled, and its empty link is current (no ABA).
    #[cold]
    fn install(&self, previous: *mut Segment<P, T, LEN>, number: u64) -> *mut Segment<P, T, LEN> {
        let fresh = self.fresh();
        // From the store, so no other thread changes it; stale readers see number 0.
        let segment = self.segment(fresh);
        segment.links.next.store(ptr::null_mut(), Relaxed);
        segment.links.previous.store(previous, Relaxed);
        segment.holds.taken.store(0, Relaxed);
        segment.holds.holds.store(2, Relaxed);
        let link = &self.segment(previous).links.next;
        // Release publishes the words above to each thread that loads the link with Acquire. The number is set after the link:
        // a segment that lost this race must never have had a number that a stale hint could mistake for its own.
        match link.compare_exchange(ptr::null_mut(), fresh, AcqRel, Acquire) {
            Ok(_) => {
                self.name(fresh, number);
                self.tail.last.store(fresh, Release);
                fresh
            }
            Err(installed) => {
                self.store.lock().free.push(fresh);
                self.name(installed, number)
            }
        }
    }

    /// Moves the taker into its head's segment. Returns false while that is not installed.
    fn enter_segment(&self, taker: &mut Taker<P, T, LEN>) -> bool {
        let number = Self::number_of(taker.head);
        // The taker's segment is its head's or the one before, and neither is recycled before the head's item is taken.
        let links = &self.segment(taker.segment).links;
        if links.number.load(Acquire) == number {
            return true;
        }
        let next = links.next.load(Acquire);
        if next.is_null() {
            return false;
        }
        taker.segment = self.name(next, number);
        self.first.store(next, Release);
        true
    }

    /// The state of the next item's slot; the taker must have entered its segment.
    fn head_state(&self, taker: &Taker<P, T, LEN>) -> &P::AtomicU64 {
        &self.segment(taker.segment).slots[Self::slot_of(taker.head)].state
    }

    /// Claims up to `most` items that are ready at the head. Empty if the next item's producer has not finished, even if
    /// others behind it have: the queue is first in, first out.
    #[inline]
    pub(crate) fn claim(
        &self,
        taker: &mut Taker<P, T, LEN>,
        most: usize,
    ) -> Option<Claim<P, T, LEN>> {
        let (start, ready) =
            self.ready_at_head(taker, most).or_else(|| self.ready_behind_head(taker, most))?;
        taker.head += ready as u64;
        Some(Claim { segment: taker.segment, start, end: start + ready })
    }

    /// The head's place in its segment, and how many items are ready from there on.
    #[inline]
    fn ready_at_head(&self, taker: &mut Taker<P, T, LEN>, most: usize) -> Option<(usize, usize)> {
        if !self.enter_segment(taker) {
            return None;
        }
        let number = Self::number_of(taker.head);
        let start = Self::slot_of(taker.head);
        let slots = &self.segment(taker.segment).slots;
        // Acquire pairs with the swap in `fill`: the items are visible.
        let ready = slots[start..]
            .iter()
            .take(most)
            .take_while(|slot| is_filled(slot.state.load(Acquire), number))
            .count();
        (ready > 0).then_some((start, ready))
    }

    /// If the head was armed and is unfilled, a taker that looks there was woken for an item behind it: skips to that. Only
    /// then, since the slots behind the head are on cache lines that their producer has prefetched.
    #[cold]
    #[inline(never)]
    fn ready_behind_head(
        &self,
        taker: &mut Taker<P, T, LEN>,
        most: usize,
    ) -> Option<(usize, usize)> {
        let is_armed = self.enter_segment(taker) && self.head_state(taker).load(Acquire) == ARMED;
        let has_skipped = is_armed && self.skip_unfilled(taker);
        has_skipped.then(|| self.ready_at_head(taker, most)).flatten()
    }

    /// If the head is unfilled and a slot shortly behind it is filled, moves the head to that one, since the
    /// producer of the head was preempted. Returns false if nothing changed.
    fn skip_unfilled(&self, taker: &mut Taker<P, T, LEN>) -> bool {
        if !self.enter_segment(taker) {
            return false;
        }
        let mut segment = taker.segment;
        let is_behind = |behind: &usize| {
            let ticket = taker.head + *behind as u64;
            if Self::slot_of(ticket) == 0 && !segment.is_null() {
                // It is not recycled before its items are taken, which only the taker can do.
                segment = self.segment(segment).links.next.load(Acquire);
            }
            // SeqCst: see `look_back`.
            !segment.is_null()
                && is_filled(
                    latest(&self.segment(segment).slots[Self::slot_of(ticket)].state),
                    Self::number_of(ticket),
                )
        };
        let Some(behind) = (1..=MAX_SKIPPED).find(is_behind) else { return false };
        for _ in 0..behind {
            if !self.skip_head(taker) {
                // It was filled meanwhile.
                break;
            }
        }
        true
    }

    /// Moves the head past its slot. Returns false if that is filled.
    fn skip_head(&self, taker: &mut Taker<P, T, LEN>) -> bool {
        let number = Self::number_of(taker.head);
        if !self.enter_segment(taker) {
            return false;
        }
        let state = self.head_state(taker);
        // Held for the exchange: when the producer sees that it was skipped, or that `first` is past it, it finds the note.
        let mut store = self.store.lock();
        let mut seen = state.load(Acquire);
        while !is_filled(seen, number) {
            match state.compare_exchange(seen, SKIPPED, AcqRel, Acquire) {
                Ok(_) => {
                    store.skipped.push((number, taker.segment));
                    taker.head += 1;
                    taker.skipped += 1;
                    return true;
                }
                Err(now) => seen = now,
            }
        }
        false
    }

    /// How many items precede the first with a requested tag, among the first `most`. Considers only items that
    /// could be claimed.
    pub(super) fn look_for(
        &self,
        taker: &mut Taker<P, T, LEN>,
        most: usize,
        is_sought: impl Fn(u16) -> bool,
    ) -> Option<usize> {
        if !self.enter_segment(taker) {
            return None;
        }
        let mut segment = taker.segment;
        for before in 0..most {
            let ticket = taker.head + before as u64;
            if before > 0 && Self::slot_of(ticket) == 0 {
                // It is not recycled before its items are taken, which only the taker can do.
                segment = self.segment(segment).links.next.load(Acquire);
                if segment.is_null() {
                    return None;
                }
            }
            // Acquire as in `claim`.
            let state = self.segment(segment).slots[Self::slot_of(ticket)].state.load(Acquire);
            if !is_filled(state, Self::number_of(ticket)) {
                return None;
            }
            if is_sought(state as u16) {
                return Some(before);
            }
        }
        None
    }

    /// True if an item is ready at the head.
    pub(crate) fn ready(&self, taker: &mut Taker<P, T, LEN>) -> bool {
        let number = Self::number_of(taker.head);
        self.enter_segment(taker) && is_filled(self.head_state(taker).load(Acquire), number)
    }

    /// Arms the next item's slot. Returns false if that item, or one shortly behind it, is already there.
    pub(crate) fn arm(&self, taker: &mut Taker<P, T, LEN>) -> bool {
        let number = Self::number_of(taker.head);
        if !self.enter_segment(taker) {
            taker.segment = self.install(taker.segment, number);
            self.first.store(taker.segment, Release);
        }
        let state = self.head_state(taker);
        let mut seen = state.load(Acquire);
        while !is_filled(seen, number) {
            // Release pairs with the swap in `fill`: the producer that finds the slot armed sees everything that happened
            // before.
            // SeqCst: see `look_back`.
            match state.compare_exchange(seen, ARMED, SeqCst, Acquire) {
                Ok(_) => return !self.skip_unfilled(taker),
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Arms `slots` slots some items behind the next one, which was armed: that many items at once are a burst. Only slots
    /// in the same segment.
    pub(crate) fn arm_for_burst(&self, taker: &mut Taker<P, T, LEN>, slots: u64) {
        let first = (taker.head + BEHIND_HEAD) | (SLOTS_TO_A_BURST - 1);
        for ticket in (0..slots).map(|at| first + at * SLOTS_TO_A_BURST) {
            let number = Self::number_of(ticket);
            if number != Self::number_of(taker.head) || !self.enter_segment(taker) {
                return;
            }
            let state = &self.segment(taker.segment).slots[Self::slot_of(ticket)].state;
            let seen = state.load(Acquire);
            if !is_filled(seen, number) && seen < ARMED {
                // A hint: if a producer is quicker, the slot is filled. Release as in `arm`.
                let _ = state.compare_exchange(seen, ARMED_FOR_BURST, AcqRel, Relaxed);
            }
        }
    }

    /// The slot of the next item, to be watched without the taker.
    pub(crate) fn watch(&self, taker: &mut Taker<P, T, LEN>) -> Option<Watch<P, T, LEN>> {
        self.enter_segment(taker).then(|| Watch {
            segment: taker.segment,
            at: Self::slot_of(taker.head),
            number: Self::number_of(taker.head),
        })
    }

    /// True once the watched-for item has arrived, even if it was taken since.
    pub(crate) fn seen(&self, watch: &Watch<P, T, LEN>) -> bool {
        // If the segment was recycled meanwhile, its number has changed: the item was taken.
        let segment = self.segment(watch.segment);
        is_filled(segment.slots[watch.at].state.load(Relaxed), watch.number)
            || segment.links.number.load(Relaxed) != watch.number
    }

    /// Copies an item out, and its tag.
    ///
    /// # Safety
    /// `at` was claimed from `segment`, each place is taken once, and [`Self::release`] was not
    /// yet called for it.
    pub(crate) unsafe fn take(segment: *mut Segment<P, T, LEN>, at: usize) -> (T, u16) {
        // SAFETY: the segment is not recycled before this item is released; the claim read the slot's state with Acquire, so
        // the item is visible, and the caller takes it once.
        let slot = unsafe { &(*segment).slots[at] };
        let value = slot.value.with(|place| {
            // SAFETY: as above.
            unsafe { (*place).assume_init_read() }
        });
        // Relaxed: the claim has read it with Acquire, and it does not change until the segment is recycled.
        (value, slot.state.load(Relaxed) as u16)
    }

    /// Records that `items` items of `segment` were copied out.
    ///
    /// # Safety
    /// They were claimed and taken, and are counted once.
    pub(crate) unsafe fn release(&self, segment: *mut Segment<P, T, LEN>, items: u32) {
        let holds = &self.segment(segment).holds;
        // AcqRel: the last releaser sees all accesses of the others to their items, and passes that on.
        if holds.taken.fetch_add(items, AcqRel) + items < LEN as u32 {
            return;
        }
        // Its own hold still exists, so this is the link of the current use.
        let previous = self.segment(segment).links.previous.load(Relaxed);
        self.drop_hold(segment);
        if !previous.is_null() {
            self.drop_hold(previous);
        }
    }

    fn drop_hold(&self, segment: *mut Segment<P, T, LEN>) {
        let words = self.segment(segment);
        if words.holds.holds.fetch_sub(1, AcqRel) == 1 {
            // No thread has a ticket in it or in the one after it. From here on a stale hint sees that it is not the segment
            // it seeks.
            words.links.number.store(0, Relaxed);
            self.store.lock().free.push(segment);
        }
    }

    /// A counter on the cache line that producers fetch anyway; below [`TAIL_COUNTERS`].
    #[inline]
    pub(crate) fn counter(&self, at: usize) -> Option<&P::AtomicU64> {
        self.tail.counters.get(at)
    }

    /// The segment at which a producer with a stale hint starts.
    #[cfg(all(test, not(loom)))]
    pub(super) fn first(&self) -> *mut Segment<P, T, LEN> {
        self.first.load(Acquire)
    }

    /// Tickets that were ever drawn.
    pub(crate) fn pushed(&self) -> u64 {
        self.tail.ticket.load(Relaxed)
    }

    /// Memory that the queue holds, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let store = self.store.lock();
        store.chunks.iter().filter(|chunk| !chunk.cold).map(|chunk| chunk.memory.len()).sum()
    }

    /// Returns memory to the system that has not been needed since a burst.
    pub(crate) fn trim(&self) {
        self.store.lock().trim();
    }
}

impl<P: Platform, T, const LEN: usize> Store<P, T, LEN> {
    /// Takes an unused segment. `None` if the store must grow first.
    fn take(&mut self) -> Option<*mut Segment<P, T, LEN>> {
        if self.free.is_empty()
            && let Some(cold) = self.chunks.iter_mut().find(|chunk| chunk.cold)
        {
            cold.cold = false;
            self.free.extend(cold.segments().rev());
        }
        let segment = self.free.pop()?;
        // SAFETY: segments of the store are live and unused; stale readers may look at
        // their atomics.
        let words = unsafe { &*segment };
        words.links.injector.store(self.injector, Relaxed);
        // The first segment of a queue is not installed after another, so the count is set here.
        words.holds.holds.store(2, Relaxed);
        Some(segment)
    }

    /// How many segments to add.
    fn wanted(&self) -> usize {
        let have: usize = self.chunks.iter().map(|chunk| chunk.segments).sum();
        have.clamp(FIRST_CHUNK_SEGMENTS, LARGEST_CHUNK_SEGMENTS)
    }

    fn add(&mut self, chunk: Chunk<P, T, LEN>) {
        self.free.extend(chunk.segments().rev());
        self.chunks.push(chunk);
    }

    /// Returns the pages of chunks whose segments are all unused, except the first chunk's.
    fn trim(&mut self) {
        if cfg!(loom) {
            // A model's atomics are more than their bytes.
            return;
        }
        for chunk in self.chunks.iter_mut().skip(1).filter(|chunk| !chunk.cold) {
            let waiting = self.free.iter().filter(|segment| chunk.holds(**segment)).count();
            if waiting == chunk.segments && chunk.memory.give_back_pages() {
                self.free.retain(|segment| !chunk.holds(*segment));
                chunk.cold = true;
            }
        }
    }
}
