//! Divides the cores of a last-level cache into shards.
//!
//! The rule is that of Linux workqueues since 7.1: the number of shards is the one whose *average* size is nearest to
//! the target size, which is not a limit.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;

/// The target number of cores in a shard. The default is 8.
///
/// ```
/// use coreshard_topology::ShardSize;
///
/// assert_eq!(ShardSize::default().cores(), 8);
/// let corrected = ShardSize::new(0);
/// assert_eq!(corrected.cores(), 1);
/// assert!(corrected.was_corrected(), "the caller can warn");
/// ```
// Sizes are equal if they have the same effect. An original 0 matters only for a warning.
#[derive(Clone, Copy, Debug)]
pub struct ShardSize {
    cores: NonZeroUsize,
    was_corrected: bool,
}

impl ShardSize {
    /// 8 cores, the default of the Linux kernel.
    pub const DEFAULT: Self = Self::new(8);

    /// Creates a size in cores. 0 is corrected to 1, which [`was_corrected`](Self::was_corrected) reports.
    pub const fn new(cores: usize) -> Self {
        match NonZeroUsize::new(cores) {
            Some(cores) => Self { cores, was_corrected: false },
            None => Self { cores: NonZeroUsize::MIN, was_corrected: true },
        }
    }

    /// Returns the target number of cores, at least 1.
    pub const fn cores(self) -> usize {
        self.cores.get()
    }

    /// Returns true if 0 was given and corrected to 1.
    pub const fn was_corrected(self) -> bool {
        self.was_corrected
    }

    /// Returns the sizes in cores of the shards of a last-level cache with this many cores, in order. They differ by at
    /// most one, larger ones first. No cores give no shards.
    ///
    /// ```
    /// use coreshard_topology::ShardSize;
    ///
    /// let sizes: Vec<usize> = ShardSize::DEFAULT.divide(36).collect();
    /// assert_eq!(sizes, [8, 7, 7, 7, 7]);
    /// ```
    pub fn divide(self, cores: usize) -> impl Iterator<Item = usize> + use<> {
        let shards = if cores == 0 { 0 } else { self.shards_of(cores) };
        let small = cores.checked_div(shards).unwrap_or(0);
        let large_shards = cores.checked_rem(shards).unwrap_or(0);
        (0..shards).map(move |shard| if shard < large_shards { small + 1 } else { small })
    }

    /// Returns the number of units in each shard, given the cores of each unit. There are as many shards as
    /// [`divide`](Self::divide) makes, with sizes as near to its sizes as possible without splitting a unit.
    pub(crate) fn divide_units(self, units: &[usize]) -> Vec<usize> {
        let mut left: usize = units.iter().sum();
        let mut shards = if left == 0 { 0 } else { self.shards_of(left).min(units.len()) };
        let mut rest = units;
        let mut divided = Vec::with_capacity(shards);
        while shards > 0 {
            let goal = left.div_ceil(shards);
            // Leave at least one unit for each of the other shards.
            let most = rest.len() - (shards - 1);
            let (mut taken, mut cores) = (0, 0);
            // Take another unit if at most half of it exceeds the target.
            while taken < most && (taken == 0 || 2 * cores + rest[taken] <= 2 * goal) {
                cores += rest[taken];
                taken += 1;
            }
            divided.push(taken);
            rest = &rest[taken..];
            left -= cores;
            shards -= 1;
        }
        divided
    }

    /// Returns `cores / size`, rounded to the nearest whole number (halves up), at least 1.
    const fn shards_of(self, cores: usize) -> usize {
        let size = self.cores.get();
        let rest = cores % size;
        // "rest >= size / 2" without integer division.
        let rounded_up = rest >= size - rest;
        let shards = cores / size + rounded_up as usize;
        if shards == 0 { 1 } else { shards }
    }
}

impl Default for ShardSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl PartialEq for ShardSize {
    fn eq(&self, other: &Self) -> bool {
        self.cores == other.cores
    }
}

impl Eq for ShardSize {}

impl Hash for ShardSize {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.cores.hash(state);
    }
}

impl fmt::Display for ShardSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cores.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sizes(cores: usize) -> Vec<usize> {
        ShardSize::DEFAULT.divide(cores).collect()
    }

    /// The published table for a target size of 8: cores from, cores to, shards.
    const TABLE: [(usize, usize, usize); 13] = [
        (1, 11, 1),
        (12, 19, 2),
        (20, 27, 3),
        (28, 35, 4),
        (36, 43, 5),
        (44, 51, 6),
        (52, 59, 7),
        (60, 67, 8),
        (68, 75, 9),
        (76, 83, 10),
        (84, 91, 11),
        (92, 99, 12),
        (100, 107, 13),
    ];

    #[test]
    fn the_number_of_shards_follows_the_table() {
        for (from, to, shards) in TABLE {
            for cores in from..=to {
                assert_eq!(sizes(cores).len(), shards, "{cores} cores");
            }
        }
    }

    #[test]
    fn the_sizes_named_in_the_table_come_out() {
        assert_eq!(sizes(12), [6, 6]);
        assert_eq!(sizes(19), [10, 9]);
        assert_eq!(sizes(36), [8, 7, 7, 7, 7]);
        assert_eq!(sizes(72), [8; 9]);
        assert_eq!(sizes(100), [8, 8, 8, 8, 8, 8, 8, 8, 8, 7, 7, 7, 7]);
        assert_eq!(sizes(11), [11]);
        assert_eq!(sizes(0), [0; 0]);
    }

    #[test]
    fn halves_round_up_for_odd_and_even_sizes() {
        let shards = |size, cores| ShardSize::new(size).divide(cores).count();
        assert_eq!((shards(2, 2), shards(2, 3)), (1, 2));
        assert_eq!((shards(3, 4), shards(3, 5)), (1, 2));
        assert_eq!((shards(1, 1), shards(1, 7)), (1, 7));
        assert_eq!(shards(usize::MAX, 7), 1);
        assert_eq!(shards(0, 7), 7);
    }

    #[test]
    fn a_corrected_size_equals_the_size_it_became() {
        assert_eq!(ShardSize::new(0), ShardSize::new(1));
        assert!(!ShardSize::new(1).was_corrected());
    }

    proptest! {
        #[test]
        fn shards_hold_every_core_and_are_as_near_to_the_size_as_can_be(
            cores in 1_usize..5000, size in 1_usize..200,
        ) {
            let sizes: Vec<usize> = ShardSize::new(size).divide(cores).collect();
            prop_assert_eq!(sizes.iter().sum::<usize>(), cores);
            prop_assert!(sizes.is_sorted_by(|a, b| a >= b));
            prop_assert!(sizes[0] - sizes[sizes.len() - 1] <= 1);
            // The number of shards is nearest to cores / size: |2·shards·size - 2·cores| is at most size.
            if sizes.len() > 1 {
                prop_assert!((2 * sizes.len() * size).abs_diff(2 * cores) <= size);
            } else {
                prop_assert!(2 * cores < 3 * size);
            }
        }
    }
}
