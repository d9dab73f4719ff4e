//! The items that a worker has claimed and not yet run, open to other workers of its pool.
//!
//! A worker claims several items at once, so that it takes the pool's lock less often than it runs items. A claimed item stays
//! in its segment. One word describes the claim: the worker takes from it with a fetch-and-add, thieves with a
//! compare-exchange. So an item that waits behind a long or blocked one is always within reach of an idle worker.
//!
//! | bits | meaning | changed by |
//! |---|---|---|
//! | 63–16 | epoch, one more for every claim | the owner |
//! | 15–8 | end: the place after the last | the owner; a thief lowers it |
//! | 7–0 | next: the next place to take; may exceed `end` by one | the owner |
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, AtomicPointer, Platform, fields};

use super::segments::{Claim, Segment};

const NEXT_BITS: u32 = 8;
const END_BITS: u32 = 8;
const FIELD: u64 = (1 << NEXT_BITS) - 1;

fn next_of(word: u64) -> usize {
    (word & FIELD) as usize
}

fn end_of(word: u64) -> usize {
    (word >> NEXT_BITS & FIELD) as usize
}

fn with_end(word: u64, end: usize) -> u64 {
    word & !(FIELD << NEXT_BITS) | (end as u64) << NEXT_BITS
}

/// One worker's claim. Only its owner calls `publish` and `next`.
pub(crate) struct Range<P: Platform, T, const LEN: usize> {
    word: P::AtomicU64,
    segment: P::AtomicPtr<Segment<P, T, LEN>>,
}
fields!(Range<P: Platform, T; const LEN: usize> { word, segment });

// SAFETY: the pointer leads to a segment of the pool's queue, which outlives the pool's workers; the word decides which thread
// takes which item.
unsafe impl<P: Platform, T: Send, const LEN: usize> Send for Range<P, T, LEN> {}
// SAFETY: as above.
unsafe impl<P: Platform, T: Send, const LEN: usize> Sync for Range<P, T, LEN> {}

impl<P: Platform, T, const LEN: usize> Range<P, T, LEN> {
    pub(crate) fn new() -> Self {
        const { assert!(LEN < FIELD as usize) };
        Self { word: P::AtomicU64::new(0), segment: P::AtomicPtr::new(ptr::null_mut()) }
    }

    /// Owner: opens a claim to itself and to thieves. The previous claim must be used up.
    pub(crate) fn publish(&self, claim: &Claim<P, T, LEN>) {
        let before = self.word.load(Relaxed);
        debug_assert!(next_of(before) >= end_of(before), "the last claim is used up");
        // A thief that reads this pointer together with the previous claim's word cannot succeed: that claim
        // is used up, and using it up changed the word.
        self.segment.store(claim.segment, Relaxed);
        let epoch = (before >> (NEXT_BITS + END_BITS)).wrapping_add(1);
        let word =
            epoch << (NEXT_BITS + END_BITS) | (claim.end as u64) << NEXT_BITS | claim.start as u64;
        // Release pairs with the thief's Acquire: it sees the segment and the items, which this
        // worker saw when it claimed them.
        self.word.store(word, Release);
    }

    /// Owner: the next place to take, if there is one.
    #[inline]
    pub(crate) fn next(&self) -> Option<usize> {
        // Acquire pairs with the AcqRel of a thief that lowered the end (its reads of the segment happen
        // before this worker's next claim).
        let word = self.word.fetch_add(1, Acquire);
        let next = next_of(word);
        if next < end_of(word) {
            return Some(next);
        }
        // Keeps `next` from growing with every empty look.
        self.word.store(with_end(word, next), Relaxed);
        None
    }

    /// True if a thief could take an item here. A hint.
    #[inline]
    pub(crate) fn has_items(&self) -> bool {
        let word = self.word.load(Relaxed);
        next_of(word) < end_of(word)
    }

    /// Thief: takes the later half of the remaining items, at least one.
    pub(crate) fn steal(&self) -> Option<Claim<P, T, LEN>> {
        let mut word = self.word.load(Acquire);
        loop {
            let (next, end) = (next_of(word), end_of(word));
            if next >= end {
                return None;
            }
            let middle = next + (end - next) / 2;
            // Between the load of the word and the exchange: if that succeeds, the claim has not changed meanwhile, and this
            // is its segment.
            let segment = self.segment.load(Relaxed);
            // Release keeps the load of the segment before the exchange; Acquire pairs with `publish`.
            match self.word.compare_exchange(word, with_end(word, middle), AcqRel, Acquire) {
                Ok(_) => return Some(Claim { segment, start: middle, end }),
                Err(now) => word = now,
            }
        }
    }
}
