//! The links of the queues that a pool serves, by a tag that fits into an item's slot.
#![allow(unsafe_code)]

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use coreshard_platform::{AtomicPointer, Lock, Platform};

use super::link::LinkHead;

/// LinkTable in a chunk of the table, and chunks in the table.
const CHUNK_LINKS: usize = 128;
const CHUNKS: usize = if cfg!(loom) { 1 } else { 128 };

/// A link's place in its pool's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkTag(pub(crate) u16);

/// Grows by chunks that stay where they are, so that a worker finds a link with two loads and no
/// lock.
pub(crate) struct LinkTable<P: Platform> {
    chunks: [P::AtomicPtr<TableChunk<P>>; CHUNKS],
    /// Tags that no link has, and how many tags were ever given.
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

    /// Reserves a tag; `None` where the pool serves as many queues as it can.
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

    /// Says where the link with a reserved tag is. It must not move until the tag is released.
    pub(crate) fn set(&self, tag: LinkTag, link: NonNull<LinkHead<P>>) {
        self.place(tag).store(link.as_ptr(), Release);
    }

    /// Gives a tag back, when no item of its link is left.
    pub(crate) fn release(&self, tag: LinkTag) {
        self.place(tag).store(ptr::null_mut(), Relaxed);
        self.free.lock().0.push(tag);
    }

    /// The link of an item that is not counted as over.
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
                // SAFETY: made by `Box::into_raw` in `reserve`; the table is going.
                drop(unsafe { Box::from_raw(chunk) });
            }
        }
    }
}
