//! Sequences that loops run over, and how they are cut.

use std::ops::Range;

use super::loops::Whole;

/// A sequence that a loop runs over: a range of numbers, a slice, or a mutable slice. Only this crate implements it.
pub trait Elements: Whole + IntoIterator<Item: Send> {}

impl Elements for Range<usize> {}
impl<T: Sync> Elements for &[T] {}
impl<T: Send> Elements for &mut [T] {}

impl<T: Sync> Whole for &[T] {
    fn len(&self) -> usize {
        <[T]>::len(self)
    }
    fn cut_at(self, len: usize) -> (Self, Self) {
        self.split_at(len)
    }
}

/// Two sequences of the same length, cut at the same place.
pub(crate) struct Zip<A, B>(pub(crate) A, pub(crate) B);

impl<A: Whole, B: Whole> Whole for Zip<A, B> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn cut_at(self, len: usize) -> (Self, Self) {
        let (first, rest) = self.0.cut_at(len);
        let (other_first, other_rest) = self.1.cut_at(len);
        (Self(first, other_first), Self(rest, other_rest))
    }
}

/// Chunks of `elements` elements; the last may have fewer.
pub(crate) struct Chunks<W> {
    whole: W,
    elements: usize,
    /// Elements before it.
    offset: usize,
}

impl<W: Whole> Chunks<W> {
    pub(crate) fn new(whole: W, elements: usize) -> Self {
        Self { whole, elements, offset: 0 }
    }

    /// Calls `body` with each chunk and the number of elements before it.
    pub(crate) fn for_each(self, body: &impl Fn(usize, W)) {
        let Self { mut whole, elements, mut offset } = self;
        while whole.len() > elements {
            let (chunk, rest) = whole.cut_at(elements);
            body(offset, chunk);
            (whole, offset) = (rest, offset + elements);
        }
        if whole.len() > 0 {
            body(offset, whole);
        }
    }
}

impl<W: Whole> Whole for Chunks<W> {
    fn len(&self) -> usize {
        self.whole.len().div_ceil(self.elements)
    }
    fn cut_at(self, len: usize) -> (Self, Self) {
        let Self { whole, elements, offset } = self;
        let at = len.saturating_mul(elements).min(whole.len());
        let (first, rest) = whole.cut_at(at);
        (
            Self { whole: first, elements, offset },
            Self { whole: rest, elements, offset: offset + at },
        )
    }
}
