//! Selects the items that are measured.

use std::fmt;

/// The share of a queue's items whose times are measured.
///
/// A measured item costs an allocation and three clock reads, between 100 and 200 ns in all. Other items cost a few
/// instructions. The selection depends only on an item's count at its CPU, by a sequence without a small period (multiples of
/// the golden ratio), so that all of several items that take turns are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sampling {
    shift: u32,
}

impl Sampling {
    /// Every item: for items of tens of microseconds and more.
    pub const EVERY_ITEM: Self = Self { shift: 0 };

    /// The most items that one sample may stand for.
    pub const MAX_ITEMS_PER_SAMPLE: u32 = 1 << 16;

    /// One item in `items` on average, rounded up to a power of two, between 1 and
    /// [`MAX_ITEMS_PER_SAMPLE`](Self::MAX_ITEMS_PER_SAMPLE).
    pub const fn one_in(items: u32) -> Self {
        let items =
            if items > Self::MAX_ITEMS_PER_SAMPLE { Self::MAX_ITEMS_PER_SAMPLE } else { items };
        Self { shift: items.next_power_of_two().trailing_zeros() }
    }

    /// How many items a sample stands for.
    pub const fn items_per_sample(self) -> u32 {
        1 << self.shift
    }

    /// True if the item with this count is measured. The first one (count 0) always is.
    #[inline]
    pub(crate) const fn draws(self, count: u64) -> bool {
        // 2⁶⁴ divided by the golden ratio: multiples of it are spread evenly (Knuth, The Art of
        // Computer Programming, volume 3, section 6.4).
        count.wrapping_mul(0x9E37_79B9_7F4A_7C15).leading_zeros() >= self.shift
    }
}

impl Default for Sampling {
    /// One item in 32: under 2 % of the time of items of a microsecond.
    fn default() -> Self {
        Self::one_in(32)
    }
}

impl fmt::Display for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.items_per_sample() {
            1 => f.write_str("every item"),
            items => write!(f, "one item in {items}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_rounds_up_to_a_power_of_two() {
        for (asked, given) in [(0, 1), (1, 1), (2, 2), (3, 4), (16, 16), (17, 32), (1 << 20, 65536)]
        {
            assert_eq!(Sampling::one_in(asked).items_per_sample(), given, "asked for {asked}");
        }
    }

    #[test]
    fn samples_are_as_many_as_asked_and_fall_on_items_of_every_turn() {
        const ITEMS: u64 = 1 << 16;
        for items in [1_u32, 2, 16, 64] {
            let sampling = Sampling::one_in(items);
            assert!(sampling.draws(0));
            let drawn: Vec<u64> = (0..ITEMS).filter(|count| sampling.draws(*count)).collect();
            let expected = ITEMS / u64::from(items);
            assert!(drawn.len().abs_diff(expected as usize) <= 2, "{} of {items}", drawn.len());
            // Items in turns of 2 to 64: each place in the turn is sampled about equally often.
            for turn in [2_u64, 3, 8, 16, 64] {
                let mut seen = vec![0_u64; turn as usize];
                drawn.iter().for_each(|count| seen[(count % turn) as usize] += 1);
                let even = drawn.len() as u64 / turn;
                for count in seen {
                    assert!(count.abs_diff(even) <= 3 + even / 4, "{items}, {turn}: {count}");
                }
            }
        }
    }
}
