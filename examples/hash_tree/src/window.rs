//! A bounded queue between a walk that runs ahead and results that are printed in order.

use std::collections::VecDeque;
use std::collections::vec_deque::IntoIter;

/// Holds started and unfinished jobs, oldest first, and never more than its capacity: a push beyond that
/// returns the oldest one, to finish it before another is started.
#[derive(Debug)]
pub(crate) struct Window<T> {
    capacity: usize,
    held: VecDeque<T>,
}

impl<T> Window<T> {
    /// Returns an empty window for `capacity` jobs, at least one.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), held: VecDeque::new() }
    }

    /// Adds `new`, and returns the oldest if the window was full.
    #[must_use]
    pub(crate) fn push(&mut self, new: T) -> Option<T> {
        self.held.push_back(new);
        if self.held.len() > self.capacity { self.held.pop_front() } else { None }
    }
}

/// Iterates over the remaining jobs, oldest first.
impl<T> IntoIterator for Window<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        self.held.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order_and_the_bound() {
        for capacity in [0, 1, 3, 100] {
            let mut window = Window::new(capacity);
            let mut out = Vec::new();
            for number in 0..50 {
                out.extend(window.push(number));
                assert!(number + 1 - out.len() <= capacity.max(1), "capacity {capacity}");
            }
            out.extend(window);
            assert_eq!(out, (0..50).collect::<Vec<_>>(), "capacity {capacity}");
        }
    }
}
