//! The lanes of the queues that a pool serves, by a tag that fits into an item's slot.
#![allow(unsafe_code)]

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use coreshard_platform::{AtomicPointer, Lock, Platform};

use crate::queue::Lane;

/// Lanes in a chunk of the table, and chunks in the table.
const CHUNK_LANES: usize = 128;
const CHUNKS: usize = if cfg!(loom) { 1 } else { 128 };

/// A lane's place in its pool's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneTag(pub(crate) u16);

/// Grows by chunks that stay where they are, so that a worker finds a lane with two loads and no
/// lock.
pub(crate) struct Lanes<P: Platform> {
    chunks: [P::AtomicPtr<Chunk<P>>; CHUNKS],
    /// Tags that no lane has, and how many tags were ever given.
    free: Lock<P, (Vec<LaneTag>, usize)>,
}

struct Chunk<P: Platform>([P::AtomicPtr<Lane<P>>; CHUNK_LANES]);

impl<P: Platform> Lanes<P> {
    pub(super) fn new() -> Self {
        Self {
            chunks: std::array::from_fn(|_| P::AtomicPtr::new(ptr::null_mut())),
            free: Lock::new((Vec::new(), 0)),
        }
    }

    /// Reserves a tag; `None` where the pool serves as many queues as it can.
    pub(crate) fn reserve(&self) -> Option<LaneTag> {
        let mut free = self.free.lock();
        if let Some(tag) = free.0.pop() {
            return Some(tag);
        }
        let at = free.1;
        if at >= CHUNKS * CHUNK_LANES {
            return None;
        }
        let chunk = &self.chunks[at / CHUNK_LANES];
        if chunk.load(Relaxed).is_null() {
            let lanes = std::array::from_fn(|_| P::AtomicPtr::new(ptr::null_mut()));
            chunk.store(Box::into_raw(Box::new(Chunk::<P>(lanes))), Release);
        }
        free.1 += 1;
        Some(LaneTag(u16::try_from(at).expect("the table is smaller than 2¹⁶")))
    }

    /// Says where the lane with a reserved tag is. It must not move until the tag is released.
    pub(crate) fn set(&self, tag: LaneTag, lane: &Lane<P>) {
        self.place(tag).store(ptr::from_ref(lane).cast_mut(), Release);
    }

    /// Gives a tag back, when no item of its lane is left.
    pub(crate) fn release(&self, tag: LaneTag) {
        self.place(tag).store(ptr::null_mut(), Relaxed);
        self.free.lock().0.push(tag);
    }

    /// The lane of an item that is not told yet.
    pub(crate) fn lane(&self, tag: LaneTag) -> NonNull<Lane<P>> {
        NonNull::new(self.place(tag).load(Acquire)).expect("an item's lane lives until it is told")
    }

    fn place(&self, LaneTag(tag): LaneTag) -> &P::AtomicPtr<Lane<P>> {
        let chunk = self.chunks[usize::from(tag) / CHUNK_LANES].load(Acquire);
        assert!(!chunk.is_null(), "tag {tag} was reserved");
        // SAFETY: chunks are made by `reserve`, never replaced, and freed with the table.
        &unsafe { &*chunk }.0[usize::from(tag) % CHUNK_LANES]
    }
}

impl<P: Platform> Drop for Lanes<P> {
    fn drop(&mut self) {
        for chunk in &self.chunks {
            let chunk = chunk.load(Relaxed);
            if !chunk.is_null() {
                // SAFETY: made by `Box::into_raw` in `reserve`; the table is going.
                drop(unsafe { Box::from_raw(chunk) });
            }
        }
    }
}
