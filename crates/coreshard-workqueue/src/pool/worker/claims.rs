//! The claims that a worker has opened to thieves and not yet seen empty.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;

use coreshard_platform::Platform;

use crate::pool::context::Context;
use crate::pool::link::LinkTag;
use crate::pool::shared::PoolShared;
use crate::pool::slots::{Claim, MAX_CLAIMS, Range, Segment, SegmentQueue, WorkerSlot};
use crate::pool::waiting_items::TaggedItem;

/// A worker's open claims: the ranges of its slot say how much is left of each.
pub(super) struct OpenClaims<'pool, P: Platform> {
    ranges: &'pool [Range<P>; MAX_CLAIMS],
    /// The injector that the worker's items come from; the worker stores it here.
    producer: &'pool Cell<Option<usize>>,
    /// The segment of each.
    segments: [*mut Segment<P>; MAX_CLAIMS],
    /// Index of the claim that it takes from.
    at: usize,
    count: usize,
    /// The segment that it takes from; `taken` items of it were copied out and not yet released.
    segment: *mut Segment<P>,
    taken: u32,
}

impl<'pool, P: Platform> OpenClaims<'pool, P> {
    pub(super) fn new(slot: &'pool WorkerSlot<P>, context: &'pool Context<P>) -> Self {
        Self {
            ranges: &slot.ranges,
            producer: &context.producer,
            segments: [ptr::null_mut(); MAX_CLAIMS],
            at: 0,
            count: 0,
            segment: ptr::null_mut(),
            taken: 0,
        }
    }

    /// Takes the next item.
    #[inline]
    pub(super) fn next(&mut self, pool: &PoolShared<P>) -> Option<TaggedItem> {
        while self.at < self.count
            && let (Some(range), Some(segment)) =
                (self.ranges.get(self.at), self.segments.get(self.at))
        {
            if let Some(at) = range.next() {
                self.enter(pool, *segment);
                return Some(self.take(at));
            }
            self.at += 1;
            if self.at == self.count {
                (self.at, self.count) = (0, 0);
                pool.slots.close_claims();
            }
        }
        None
    }

    /// Opens a claim to thieves. With `keep_first`, the first item is returned instead.
    #[inline]
    pub(super) fn open(
        &mut self,
        pool: &PoolShared<P>,
        mut claim: Claim<P>,
        keep_first: bool,
    ) -> Option<TaggedItem> {
        self.enter(pool, claim.segment);
        let first = keep_first.then_some(claim.start);
        claim.start += usize::from(keep_first);
        if claim.items() > 0 {
            self.open_one_more(pool, &claim);
        }
        first.map(|at| self.take(at))
    }

    /// Steals items that another worker has claimed and not yet run, and opens them to further thieves. Returns the first of
    /// them, and how many there are.
    pub(super) fn steal(
        &mut self,
        pool: &PoolShared<P>,
        own_index: usize,
    ) -> Option<(TaggedItem, usize)> {
        let mut others = pool.slots.ranges().filter(|(index, _)| *index != own_index);
        let claim = others.find_map(|(_, range)| range.steal())?;
        let items = claim.items();
        Some((self.open(pool, claim, true)?, items))
    }

    #[inline]
    pub(super) fn open_one_more(&mut self, pool: &PoolShared<P>, claim: &Claim<P>) {
        if self.count == 0 {
            pool.slots.open_claims();
        }
        self.segments[self.count] = claim.segment;
        self.ranges[self.count].publish(claim);
        self.count += 1;
    }

    /// Makes `segment` the one that items are taken from.
    #[inline]
    fn enter(&mut self, pool: &PoolShared<P>, segment: *mut Segment<P>) {
        if !ptr::eq(self.segment, segment) {
            self.release_taken(pool);
            self.segment = segment;
            // SAFETY: a segment stays mapped until all its items are released, and this worker still holds a claim in it.
            self.producer.set(Some(unsafe { (*segment).injector() }));
        }
    }

    #[inline]
    fn take(&mut self, at: usize) -> TaggedItem {
        self.taken += 1;
        // SAFETY: this worker claimed or stole the place, from this segment, and each place is given out once. `release_taken`
        // releases it later.
        let (item, tag) = unsafe { SegmentQueue::<P>::take(self.segment, at) };
        (item, LinkTag(tag))
    }

    /// Releases the items that were copied out.
    #[inline]
    pub(super) fn release_taken(&mut self, pool: &PoolShared<P>) {
        if let Some(intake) = &pool.intake
            && self.taken > 0
        {
            // SAFETY: `take` counted the items that it took from this segment.
            unsafe { intake.release(self.segment, std::mem::take(&mut self.taken)) };
        }
    }
}
