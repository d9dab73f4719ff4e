//! A set of levels, in one word.

use crate::level::Level;

/// A set of priorities or levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LevelSet(u128);

impl LevelSet {
    pub(super) fn add(&mut self, level: usize) {
        self.0 |= 1 << level;
    }

    pub(super) fn remove(&mut self, level: usize) {
        self.0 &= !(1 << level);
    }

    /// The highest; level 0 where there is none.
    pub(super) fn highest(self) -> Level {
        Level::from_index(
            127_usize.saturating_sub(self.0.leading_zeros() as usize) * usize::from(self.0 != 0),
        )
    }

    pub(super) fn below(self, bound: usize) -> Self {
        Self(self.0 & ((1 << bound) - 1))
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}
