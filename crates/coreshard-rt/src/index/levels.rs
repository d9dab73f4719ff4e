//! The three variants that store, for each level, a count of its CPUs and their set. They differ in where
//! these lie; the operations on them are the same.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use coreshard_platform::{AtomicInt, ByteAtomics, fields};

use super::cpu_mask::{CpuMask, WORDS};
use super::occupied::Occupied;
use crate::level::Level;

/// The set of CPUs at a level, one bit for each position. It begins on its own line, like memory from the
/// kernel's allocator.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct LevelMask<P: ByteAtomics> {
    pub(super) words: [P::AtomicU64; WORDS],
}
fields!(LevelMask<P: ByteAtomics> { words });

impl<P: ByteAtomics> LevelMask<P> {
    pub(super) fn new() -> Self {
        Self { words: std::array::from_fn(|_| P::AtomicU64::new(0)) }
    }
}

/// The places of counts and masks.
pub(super) trait Layout<P: ByteAtomics> {
    /// Returns the number of CPUs at a level.
    fn count(&self, level: usize) -> &P::AtomicU32;
    /// Returns the CPUs at a level.
    fn mask(&self, level: usize) -> &LevelMask<P>;
    /// Names the fields to the platform.
    fn describe(&self);
}

#[derive(Debug)]
pub(super) struct Levels<P: ByteAtomics, L> {
    occupied: Box<Occupied<P>>,
    layout: Box<L>,
    /// The number of mask words that have a CPU.
    words: usize,
}

impl<P: ByteAtomics, L: Layout<P>> Levels<P, L> {
    pub(super) fn new(layout: L, cpus: usize) -> Self {
        let levels = Self {
            occupied: Box::new(Occupied::new()),
            layout: Box::new(layout),
            words: cpus.div_ceil(64),
        };
        P::describe(&raw const *levels.occupied);
        levels.layout.describe();
        levels
    }

    /// Moves the CPU at `position` from one level to another. It enters the new level first, so that a search
    /// finds it in one of the two at any time.
    #[inline]
    pub(super) fn set(&self, position: usize, old: Option<Level>, new: Option<Level>) {
        let (word, bit) = (position / 64, 1_u64 << (position % 64));
        if let Some(level) = new.map(Level::index) {
            // The mask before the count. Release in the count's SeqCst pairs with the Acquire of the load of the count
            // in a search: a search that counts this CPU sees its bit. So the mask needs no further order.
            self.layout.mask(level).words[word].fetch_or(bit, Relaxed);
            self.layout.count(level).fetch_add(1, SeqCst);
            self.occupied.entered(level);
        }
        if let Some(level) = old.map(Level::index) {
            // Release, both: a search that sees this CPU gone from the old level sees it in the new one.
            // Pairs with the Acquire of the loads of count and mask, and with that of the occupied levels,
            // which a search loads again after each level.
            self.layout.count(level).fetch_sub(1, SeqCst);
            self.layout.mask(level).words[word].fetch_and(!bit, Release);
        }
    }

    /// Returns the lowest level below `below` with a CPU of `allowed`, and all such CPUs.
    #[inline]
    pub(super) fn find(&self, below: Level, allowed: &CpuMask) -> Option<(Level, CpuMask)> {
        let mut from = 0;
        while let Some(level) = self.occupied.next(from, below.index()) {
            let count = self.layout.count(level);
            if count.load(SeqCst) == 0 {
                self.occupied.clear_if(level, || count.load(SeqCst) == 0);
            } else {
                let mut found = CpuMask::EMPTY;
                let mut any = 0;
                let mask = self.layout.mask(level);
                for at in (0..self.words).filter(|at| allowed.words[*at] != 0) {
                    found.words[at] = mask.words[at].load(Acquire) & allowed.words[at];
                    any |= found.words[at];
                }
                if any != 0 {
                    return Some((Level::from_index(level), found));
                }
            }
            from = level + 1;
        }
        None
    }
}

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
        // The pointer shares its line with counts that are written, so reading it is the main cost.
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

/// The mask pointer, and so each level, on its own line: the change made to the Linux kernel for machines
/// with hundreds of CPUs.
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

/// All counts together, then all masks. Each mask is on its own lines and found without a pointer.
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

    /// Returns the number of lines of a layout's own words, without the masks behind pointers.
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
        // Published: 203, followed by a line of the kernel's own.
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
