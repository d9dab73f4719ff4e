//! The words that say which tags are taken.

use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use coreshard_platform::{AtomicInt, NodeMemoryError, Padded, Placement, Platform};
use coreshard_topology::NodeId;

use crate::node_slice::NodeSlice;

/// Set in a word while a port waits for one of its bits. Set and cleared under the set's lock. A port that
/// releases a bit sees the mark, since the release changes the same word.
const WAITED: u64 = 1 << 63;

/// A word holds at most 2⁵ tags, so that ports can spread over several words.
const MAX_SHIFT: u32 = 5;

/// One bit for each tag; each word is on its own lines.
#[derive(Debug)]
pub(super) struct Bitmap<P: Platform> {
    words: NodeSlice<Padded<P::AtomicU64>>,
    /// A word holds `1 << shift` tags.
    shift: u32,
    depth: u32,
}

impl<P: Platform> Bitmap<P> {
    /// Creates a bitmap of `depth` free tags on `node`, spread over at least `spread` words if there are
    /// enough tags.
    pub(super) fn new(
        depth: u32,
        spread: u32,
        node: Option<NodeId>,
    ) -> Result<Self, NodeMemoryError> {
        let spread = spread.clamp(4, depth.max(4));
        let shift = (0..=MAX_SHIFT).rev().find(|shift| spread << shift <= depth).unwrap_or(0);
        let words = depth.div_ceil(1 << shift) as usize;
        let words = NodeSlice::new::<P>(words, node, |_| Padded::new(P::AtomicU64::new(0)))?;
        Ok(Self { words, shift, depth })
    }

    pub(super) fn placement(&self) -> &Placement {
        self.words.placement()
    }

    /// Returns the number of tags in a word.
    pub(super) fn word_tags(&self) -> u32 {
        1 << self.shift
    }

    /// Returns the bits of `range` in a word.
    fn mask(&self, word: usize, range: &Range<u32>) -> u64 {
        let first = (word as u32) << self.shift;
        let from = range.start.max(first) - first;
        let to = range.end.min(first + self.word_tags()).min(self.depth).saturating_sub(first);
        if from >= to { 0 } else { ((1 << (to - from)) - 1) << from }
    }

    fn words_of(&self, range: &Range<u32>) -> Range<usize> {
        let last = range.end.min(self.depth).div_ceil(self.word_tags());
        (range.start >> self.shift) as usize..last as usize
    }

    /// Takes a free bit of `mask`, from `first_bit` on and wrapping around, unless a port waits for a bit of
    /// the word.
    #[inline]
    fn take_in(&self, word: usize, mask: u64, first_bit: u32) -> Option<u32> {
        let mut seen = self.words[word].load(Relaxed);
        loop {
            let free = !seen & mask;
            if seen & WAITED != 0 || free == 0 {
                return None;
            }
            let above = free >> first_bit << first_bit;
            let free = if above == 0 { free } else { above };
            let bit = free.trailing_zeros();
            // A read-modify-write that cannot fail. Acquire pairs with the Release of `put`: the tag's last
            // holder has finished with it.
            seen = self.words[word].fetch_or(1 << bit, Acquire);
            if seen & (1 << bit) == 0 {
                return Some(((word as u32) << self.shift) + bit);
            }
        }
    }

    /// Takes a free tag of `range`, `hint` first, unless a port waits for it.
    #[inline]
    pub(super) fn take(&self, range: Range<u32>, hint: u32) -> Option<u32> {
        let hinted = (hint >> self.shift) as usize;
        let first = hint & !(self.word_tags() - 1);
        // Usually all tags of the hint's word are in the range, and one of them is free.
        if range.start <= first && first + self.word_tags() <= range.end.min(self.depth) {
            let mask = (1 << self.word_tags()) - 1;
            if let Some(tag) = self.take_in(hinted, mask, hint - first) {
                return Some(tag);
            }
        }
        self.take_anywhere(range, hint)
    }

    #[inline(never)]
    fn take_anywhere(&self, range: Range<u32>, hint: u32) -> Option<u32> {
        if range.is_empty() {
            return None;
        }
        let words = self.words_of(&range);
        let start = ((hint >> self.shift) as usize).clamp(words.start, words.end - 1);
        let mut first_bit = hint & (self.word_tags() - 1);
        for word in (start..words.end).chain(words.start..start) {
            if let Some(tag) = self.take_in(word, self.mask(word, &range), first_bit) {
                return Some(tag);
            }
            first_bit = 0;
        }
        None
    }

    /// As [`take`](Self::take), for a waiter. Marks each word that it reads, so that a port which releases a
    /// bit of it later sees that a waiter exists. Called under the set's lock.
    pub(super) fn take_or_mark(&self, range: Range<u32>) -> Option<u32> {
        if range.is_empty() {
            return None;
        }
        for word in self.words_of(&range) {
            let mask = self.mask(word, &range);
            let mut seen = self.words[word].fetch_or(WAITED, AcqRel);
            while !seen & mask != 0 {
                let bit = (!seen & mask).trailing_zeros();
                // Acquire as in `take_in`.
                seen = self.words[word].fetch_or(1 << bit, Acquire);
                if seen & (1 << bit) == 0 {
                    return Some(((word as u32) << self.shift) + bit);
                }
            }
        }
        None
    }

    /// Releases `tag`. Returns true if a port waits for a tag of its word.
    ///
    /// # Panics
    /// If the tag was not taken, which is a bug of this crate.
    #[inline]
    pub(super) fn put(&self, tag: u32) -> bool {
        let bit = 1 << (tag & (self.word_tags() - 1));
        // Release pairs with the Acquire of the next taker. Acquire, since a port that sees a waiter's mark
        // then reads the state that was written before it.
        let before = self.words[(tag >> self.shift) as usize].fetch_and(!bit, AcqRel);
        assert!(before & bit != 0, "tag {tag} was released, but was not taken");
        before & WAITED != 0
    }

    /// Clears all marks: there are no waiters, or they will mark again. Called under the set's lock.
    pub(super) fn unmark(&self) {
        for word in self.words.iter() {
            if word.load(Relaxed) & WAITED != 0 {
                word.fetch_and(!WAITED, AcqRel);
            }
        }
    }

    /// Returns the number of taken tags. Exact while no tag is taken or released.
    pub(super) fn taken(&self) -> u32 {
        self.words.iter().map(|word| (word.load(Relaxed) & !WAITED).count_ones()).sum()
    }
}
