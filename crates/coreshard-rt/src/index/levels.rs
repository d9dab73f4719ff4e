//! The three rungs that keep, for each level, a count of its CPUs and the set of them. They differ in
//! where these lie; what is done with them is the same.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use coreshard_platform::{AtomicInt, ByteAtomics};

use super::cpu_mask::{CpuMask, WORDS};
use super::occupied::Occupied;
use crate::level::Level;

/// The set of CPUs at a level, one bit for each position. It begins on a line of its own, as from the kernel's
/// allocator.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct LevelMask<P: ByteAtomics> {
    pub(super) words: [P::AtomicU64; WORDS],
}
coreshard_platform::fields!(LevelMask<P: ByteAtomics> { words });

impl<P: ByteAtomics> LevelMask<P> {
    pub(super) fn new() -> Self {
        Self { words: std::array::from_fn(|_| P::AtomicU64::new(0)) }
    }
}

/// Where counts and masks lie.
pub(super) trait Layout<P: ByteAtomics> {
    /// How many CPUs run at a level.
    fn count(&self, level: usize) -> &P::AtomicU32;
    /// Which these are.
    fn mask(&self, level: usize) -> &LevelMask<P>;
    /// Tells the platform the names of its fields.
    fn describe(&self);
}

#[derive(Debug)]
pub(super) struct Levels<P: ByteAtomics, L> {
    occupied: Box<Occupied<P>>,
    layout: Box<L>,
    /// The words of a mask that have a CPU.
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

    /// Moves the CPU at `position` from one level to another: into the new one first, so that a search
    /// finds it in one of the two at any time.
    #[inline]
    pub(super) fn set(&self, position: usize, old: Option<Level>, new: Option<Level>) {
        let (word, bit) = (position / 64, 1_u64 << (position % 64));
        if let Some(level) = new.map(Level::index) {
            // The mask before the count: Release in the count's SeqCst pairs with the Acquire of a
            // search's load of the count, so whoever counts this CPU sees its bit. So this needs no
            // order of its own.
            self.layout.mask(level).words[word].fetch_or(bit, Relaxed);
            self.layout.count(level).fetch_add(1, SeqCst);
            self.occupied.entered(level);
        }
        if let Some(level) = old.map(Level::index) {
            // Release, both: whoever sees that this CPU has left sees that it was in the new level
            // before. Pairs with the Acquire of the loads of count and mask, and with that of the
            // occupied levels, which a search loads again after each level.
            self.layout.count(level).fetch_sub(1, SeqCst);
            self.layout.mask(level).words[word].fetch_and(!bit, Release);
        }
    }

    /// The lowest level below `below` with a CPU of `allowed`, and all such CPUs.
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
