//! Sets of CPUs that a search takes and fills without allocating.

use std::ops::Range;

/// The most CPUs of an index.
///
/// Sets of positions have a fixed size, so that a search allocates nothing. The largest machines sold have
/// half as many.
pub const MAX_INDEX_CPUS: usize = if cfg!(loom) { 64 } else { 1024 };

pub(super) const WORDS: usize = MAX_INDEX_CPUS / 64;

/// A set of CPUs of one index, created by [`PriorityIndex::mask`](super::PriorityIndex::mask) or filled by a
/// search.
///
/// Create it once for a task, not for each search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuMask {
    pub(super) words: [u64; WORDS],
}

impl CpuMask {
    /// The empty set.
    pub const EMPTY: Self = Self { words: [0; WORDS] };

    /// Returns the number of CPUs.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub(crate) fn add(&mut self, position: usize) {
        self.words[position / 64] |= 1 << (position % 64);
    }

    /// Returns whether all positions are among the first `positions`.
    pub(crate) fn is_within(&self, positions: usize) -> bool {
        self.words_in(positions.min(MAX_INDEX_CPUS)..MAX_INDEX_CPUS).all(|(_, bits)| bits == 0)
    }

    /// Returns whether all CPUs of `other` are in this set.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(these, those)| those & !these == 0)
    }

    /// Adds all CPUs of `other`.
    pub(crate) fn join(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(these, those)| *these |= those);
    }

    #[inline]
    pub(crate) fn has(&self, position: usize) -> bool {
        self.words[position / 64] & (1 << (position % 64)) != 0
    }

    /// Returns the members among the positions of `range`, one word at a time: the word's index, and its
    /// bits.
    #[inline]
    pub(super) fn words_in(&self, range: Range<usize>) -> impl Iterator<Item = (usize, u64)> + '_ {
        let words = if range.is_empty() { 0..0 } else { range.start / 64..range.end.div_ceil(64) };
        words.map(move |at| {
            let mut bits = self.words[at];
            if at == range.start / 64 {
                bits &= u64::MAX << (range.start % 64);
            }
            if range.end < (at + 1) * 64 {
                bits &= (1 << (range.end % 64)) - 1;
            }
            (at, bits)
        })
    }

    #[inline]
    pub(super) fn first_in(&self, range: Range<usize>) -> Option<usize> {
        self.words_in(range)
            .find(|(_, bits)| *bits != 0)
            .map(|(at, bits)| at * 64 + bits.trailing_zeros() as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        bits_of(self.words_in(0..MAX_INDEX_CPUS))
    }
}

/// Returns the positions of the bits in words.
#[inline]
pub(super) fn bits_of(words: impl Iterator<Item = (usize, u64)>) -> impl Iterator<Item = usize> {
    words.flat_map(|(at, mut bits)| {
        std::iter::from_fn(move || {
            (bits != 0).then(|| {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                at * 64 + bit
            })
        })
    })
}
