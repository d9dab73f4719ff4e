//! Where the counts and masks of the rungs packed, padded and split lie.

use coreshard_platform::{AtomicInt, ByteAtomics, fields};

use super::levels::{Layout, LevelMask};
use crate::level::Level;

/// One level of [`Packed`]: 16 bytes, so that four levels share a line.
#[repr(C)]
#[derive(Debug)]
pub(super) struct PackedLevel<P: ByteAtomics> {
    count: P::AtomicU32,
    mask: Box<LevelMask<P>>,
}
fields!(PackedLevel<P: ByteAtomics> { count, mask });

/// Count and mask pointer side by side, and neighbouring levels on the same line: the Linux kernel's
/// `struct cpupri` until 2025 (kernel/sched/cpupri.h).
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Packed<P: ByteAtomics> {
    levels: [PackedLevel<P>; Level::COUNT],
}

impl<P: ByteAtomics> Packed<P> {
    pub(super) fn new() -> Self {
        let level =
            |_| PackedLevel { count: P::AtomicU32::new(0), mask: Box::new(LevelMask::new()) };
        Self { levels: std::array::from_fn(level) }
    }
}

impl<P: ByteAtomics> Layout<P> for Packed<P> {
    #[inline]
    fn count(&self, level: usize) -> &P::AtomicU32 {
        &self.levels[level].count
    }

    #[inline]
    fn mask(&self, level: usize) -> &LevelMask<P> {
        // The pointer is on the line that counts are written on: reading it is what costs.
        P::touch_read(&raw const self.levels[level].mask);
        &self.levels[level].mask
    }

    fn describe(&self) {
        for level in &self.levels {
            P::describe(level);
            P::describe(&raw const *level.mask);
        }
    }
}

/// One level of [`PaddedLevels`]: two lines.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct PaddedLevel<P: ByteAtomics> {
    count: P::AtomicU32,
    mask: OwnLine<P>,
}
fields!(PaddedLevel<P: ByteAtomics> { count, mask });

/// The mask pointer on its own line.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct OwnLine<P: ByteAtomics>(Box<LevelMask<P>>);

/// The mask pointer on a line of its own, and so each level too: the change that was made to the
/// Linux kernel for machines with hundreds of CPUs.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct PaddedLevels<P: ByteAtomics> {
    levels: [PaddedLevel<P>; Level::COUNT],
}

impl<P: ByteAtomics> PaddedLevels<P> {
    pub(super) fn new() -> Self {
        let level = |_| PaddedLevel {
            count: P::AtomicU32::new(0),
            mask: OwnLine(Box::new(LevelMask::new())),
        };
        Self { levels: std::array::from_fn(level) }
    }
}

impl<P: ByteAtomics> Layout<P> for PaddedLevels<P> {
    #[inline]
    fn count(&self, level: usize) -> &P::AtomicU32 {
        &self.levels[level].count
    }

    #[inline]
    fn mask(&self, level: usize) -> &LevelMask<P> {
        P::touch_read(&raw const self.levels[level].mask.0);
        &self.levels[level].mask.0
    }

    fn describe(&self) {
        for level in &self.levels {
            P::describe(level);
            P::describe(&raw const *level.mask.0);
        }
    }
}

/// All counts together, then all masks, each mask on lines of its own and found without a pointer.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Split<P: ByteAtomics> {
    counts: [P::AtomicU32; Level::COUNT],
    masks: [LevelMask<P>; Level::COUNT],
}
fields!(Split<P: ByteAtomics> { counts, masks });

impl<P: ByteAtomics> Split<P> {
    pub(super) fn new() -> Self {
        Self {
            counts: std::array::from_fn(|_| P::AtomicU32::new(0)),
            masks: std::array::from_fn(|_| LevelMask::new()),
        }
    }
}

impl<P: ByteAtomics> Layout<P> for Split<P> {
    #[inline]
    fn count(&self, level: usize) -> &P::AtomicU32 {
        &self.counts[level]
    }

    #[inline]
    fn mask(&self, level: usize) -> &LevelMask<P> {
        &self.masks[level]
    }

    fn describe(&self) {
        P::describe(self);
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use coreshard_platform::Host;

    use super::*;

    const LINE: usize = 64;

    /// The lines that a layout's own words take, without the masks behind pointers.
    const fn lines<L>() -> usize {
        size_of::<L>().div_ceil(LINE)
    }

    #[test]
    fn packed_has_count_and_mask_on_one_line_and_four_levels_too() {
        assert_eq!(offset_of!(PackedLevel<Host>, count), 0);
        assert_eq!(offset_of!(PackedLevel<Host>, mask), 8);
        assert_eq!(size_of::<PackedLevel<Host>>(), 16);
        assert_eq!(align_of::<Packed<Host>>(), LINE);
        // As published for the kernel's structure of the same content.
        assert_eq!(lines::<Packed<Host>>(), 26);
    }

    #[test]
    fn padded_has_the_mask_and_each_level_on_lines_of_their_own() {
        assert_eq!(offset_of!(PaddedLevel<Host>, count), 0);
        assert_eq!(offset_of!(PaddedLevel<Host>, mask), LINE);
        assert_eq!(size_of::<PaddedLevel<Host>>(), 2 * LINE);
        // Published: 203, with a line of the kernel's own behind it.
        assert_eq!(lines::<PaddedLevels<Host>>(), 202);
    }

    #[test]
    fn split_has_all_counts_on_seven_lines_and_no_mask_on_them() {
        assert_eq!(offset_of!(Split<Host>, counts), 0);
        assert_eq!(offset_of!(Split<Host>, masks), 7 * LINE);
        assert_eq!(size_of::<LevelMask<Host>>(), 2 * LINE);
        assert_eq!(lines::<Split<Host>>(), 7 + 2 * Level::COUNT);
    }
}
