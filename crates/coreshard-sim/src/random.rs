//! The only source of randomness in a simulation: SplitMix64, seeded by the user.
//!
//! Sebastiano Vigna's public-domain generator (2015): one addition and two multiplications per number. Every
//! seed, including 0, is equally good. The simulator needs no better generator.

#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// Draws a number below `bound`, which must not be 0. The bias of the multiplication is below 2⁻³² for
    /// the bounds used here.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// Applies SplitMix64's finaliser: every bit of the result depends on every bit of `value`.
#[inline]
pub(crate) const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
