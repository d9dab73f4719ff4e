//! Numbers below a bound in random order, each once.

/// A generator of full period over the next power of two. Its states are mixed, and skipped if they are not
/// below the bound. It takes fewer than two steps per number, and no memory.
///
/// It is a linear congruential generator (Knuth, The Art of Computer Programming 2, theorem A in 3.2.1.2):
/// its increment is odd and its multiplier is 1 modulo 4. Its low bits have short periods, so each state is
/// mixed by two shifts and a multiplication, which are a bijection of its bits.
pub(super) struct Permutation {
    bound: u64,
    /// The power of two, minus 1.
    mask: u64,
    half: u32,
    state: u64,
    increment: u64,
    left: u64,
}

const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const MIXER: u64 = 0xD6E8_FEB8_6659_FD93;

impl Permutation {
    /// Creates a permutation of the numbers below `bound`, which is at least 1.
    pub(super) fn new(bound: u64, dice: &mut fastrand::Rng) -> Self {
        let bits = u64::BITS - (bound - 1).leading_zeros();
        let mask = if bits == 0 { 0 } else { u64::MAX >> (u64::BITS - bits) };
        let mut permutation =
            Self { bound, mask, half: (bits / 2).max(1), state: 0, increment: 1, left: bound };
        permutation.begin(dice);
        permutation
    }

    fn begin(&mut self, dice: &mut fastrand::Rng) {
        self.state = dice.u64(..) & self.mask;
        self.increment = dice.u64(..) | 1;
        self.left = self.bound;
    }

    /// Returns true after the last number, until `next` begins again.
    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Returns the next number. After the last one it begins again, in another order.
    #[inline]
    pub(super) fn next(&mut self, dice: &mut fastrand::Rng) -> u64 {
        if self.left == 0 {
            self.begin(dice);
        }
        self.left -= 1;
        loop {
            self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
            self.state &= self.mask;
            let mut mixed = self.state ^ self.state >> self.half;
            mixed = mixed.wrapping_mul(MIXER) & self.mask;
            mixed ^= mixed >> self.half;
            if mixed < self.bound {
                return mixed;
            }
        }
    }
}

/// A set of blocks, one bit each.
pub(super) struct BlockSet {
    words: Vec<u64>,
}

impl BlockSet {
    pub(super) fn new(blocks: u64) -> Self {
        Self { words: vec![0; blocks.div_ceil(64) as usize] }
    }

    pub(super) fn has(&self, block: u64) -> bool {
        self.words[(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    #[inline]
    pub(super) fn insert(&mut self, block: u64) {
        self.words[(block / 64) as usize] |= 1 << (block % 64);
    }

    pub(super) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Returns its blocks, in order.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let block = self.first_from(at)?;
            at = block + 1;
            Some(block)
        })
    }

    /// Returns the first block that is not below `from`.
    pub(super) fn first_from(&self, from: u64) -> Option<u64> {
        let at = (from / 64) as usize;
        let first = std::iter::once(self.words.get(at)? & u64::MAX << (from % 64));
        let words = first.chain(self.words[at + 1..].iter().copied());
        let (behind, word) = words.enumerate().find(|(_, word)| *word != 0)?;
        Some((at + behind) as u64 * 64 + u64::from(word.trailing_zeros()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once_in_each_round_and_rounds_differ() {
        for bound in [1, 2, 3, 7, 8, 9, 100, 255, 256, 257, 5_000] {
            let mut dice = fastrand::Rng::with_seed(bound);
            let mut permutation = Permutation::new(bound, &mut dice);
            let mut round = || -> Vec<u64> {
                let numbers = (0..bound).map(|_| permutation.next(&mut dice)).collect();
                assert!(permutation.is_over());
                numbers
            };
            let (first, second) = (round(), round());
            for numbers in [&first, &second] {
                let mut sorted = numbers.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..bound).collect::<Vec<_>>());
            }
            assert!(bound < 7 || first != second, "{bound}");
        }
    }

    #[test]
    fn the_order_has_no_pattern() {
        let mut dice = fastrand::Rng::with_seed(1);
        let mut permutation = Permutation::new(1 << 16, &mut dice);
        let numbers: Vec<u64> = (0..1 << 16).map(|_| permutation.next(&mut dice)).collect();
        // Each bit, and each difference of neighbours, is 0 as often as 1, within one per cent.
        for bit in 0..16 {
            let changes =
                numbers.windows(2).filter(|pair| (pair[0] ^ pair[1]) >> bit & 1 == 1).count();
            assert!((32_000..33_500).contains(&changes), "bit {bit}: {changes}");
        }
        let near = numbers.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 656).count();
        assert!((900..1_800).contains(&near), "{near}");
    }

    #[test]
    fn a_set_finds_its_blocks() {
        let mut set = BlockSet::new(200);
        for block in [0, 63, 64, 199] {
            set.insert(block);
        }
        assert!(set.has(63) && !set.has(62));
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 199]);
        assert_eq!(set.first_from(65), Some(199));
        assert_eq!(set.first_from(200), None);
        set.clear();
        assert_eq!(set.first_from(0), None);
    }
}
