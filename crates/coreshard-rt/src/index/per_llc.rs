//! The variant per-llc. Each CPU has one byte, written only by its level writer, with a plain store. Each
//! last-level cache has a summary that says which levels a search may skip. See `README.md`.

use std::ops::Range;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use coreshard_platform::{AtomicInt, ByteAtomics, Padded, fields};

use super::cpu_mask::{CpuMask, bits_of};
use super::cpu_order::CpuOrder;
use crate::level::Level;

const LINE_BYTES: usize = if cfg!(loom) { 1 } else { 64 };

/// The byte of a CPU that is not in the index: above all levels that a search requests.
const ABSENT: u8 = u8::MAX;

/// Bits 0–7 of a summary: no CPU of the group is at a lower level than this.
const BOUND: u64 = 0xff;
/// A search is about to raise the bound, and checks whether it may.
const DOUBT: u64 = 1 << 8;
/// The unit of the number that distinguishes one doubt from the next.
const VERSION_UNIT: u64 = 1 << 16;

/// A line of CPUs' levels, in the order of their positions.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct LevelBytes<P: ByteAtomics> {
    levels: [P::AtomicU8; LINE_BYTES],
}
fields!(LevelBytes<P: ByteAtomics> { levels });

/// A group's summary; on its own line pair, since it is mostly read.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Summary<P: ByteAtomics> {
    /// [`BOUND`], [`DOUBT`], and from bit 16 on the number of the last doubt.
    bound: P::AtomicU64,
}
fields!(Summary<P: ByteAtomics> { bound });

/// The CPUs of one last-level cache.
#[derive(Debug)]
struct Group<P: ByteAtomics> {
    positions: Range<usize>,
    summary: Padded<Summary<P>>,
    lines: Box<[LevelBytes<P>]>,
}

#[derive(Debug)]
pub(super) struct PerLlc<P: ByteAtomics> {
    groups: Box<[Group<P>]>,
}

impl<P: ByteAtomics> Group<P> {
    fn new(positions: Range<usize>) -> Self {
        let line = |_| LevelBytes { levels: std::array::from_fn(|_| P::AtomicU8::new(ABSENT)) };
        Self {
            lines: (0..positions.len().div_ceil(LINE_BYTES)).map(line).collect(),
            // No CPU has a level yet, and 0 is a valid bound.
            summary: Padded::new(Summary { bound: P::AtomicU64::new(0) }),
            positions,
        }
    }

    #[inline]
    fn byte(&self, position: usize) -> &P::AtomicU8 {
        let at = position - self.positions.start;
        &self.lines[at / LINE_BYTES].levels[at % LINE_BYTES]
    }

    /// Returns the bound. Returns 0 if it is in doubt.
    #[inline]
    fn bound(&self) -> u8 {
        // SeqCst: pairs with `lowered`, like the searcher's own fence (README, "At rest").
        let seen = self.summary.bound.load(SeqCst);
        if seen & DOUBT == 0 { (seen & BOUND) as u8 } else { 0 }
    }

    /// Lowers the bound for a CPU of the group whose level fell to `level`.
    fn lowered(&self, level: u8) {
        // Pairs with the fence in `raise_bound`: either this load sees the doubt, or that function sees the
        // byte that was written before this fence. Otherwise the bound could be raised above a CPU.
        P::fence();
        // SeqCst, also if the exchange fails. If the bound is low enough because another CPU has just lowered
        // it, that comes before this CPU reads which tasks wait (README, "At rest").
        let mut seen = self.summary.bound.load(SeqCst);
        while seen & BOUND > u64::from(level) || seen & DOUBT != 0 {
            let bound = (seen & BOUND).min(u64::from(level));
            let insisted = seen & !(BOUND | DOUBT) | bound;
            match self.summary.bound.compare_exchange(seen, insisted, SeqCst, SeqCst) {
                Ok(_) => break,
                Err(found) => seen = found,
            }
        }
    }

    /// Returns the lowest byte of all.
    fn lowest(&self) -> u8 {
        self.positions
            .clone()
            .map(|position| self.byte(position).load(Relaxed))
            .min()
            .unwrap_or(ABSENT)
    }

    /// Raises the bound to the lowest CPU of the group, after a search has read all of them in vain, so that
    /// the next search skips them. Does nothing if another thread is doing so.
    #[cold]
    fn raise_bound(&self) {
        let seen = self.summary.bound.load(Relaxed);
        if seen & DOUBT != 0 {
            return;
        }
        // The version makes this doubt distinct from all others.
        let doubted = (seen | DOUBT).wrapping_add(VERSION_UNIT);
        if self.summary.bound.compare_exchange(seen, doubted, Relaxed, Relaxed).is_err() {
            return;
        }
        // Pairs with the fence in `lowered`, and orders the doubt before the reads of the bytes.
        P::fence();
        let raised = doubted & !(BOUND | DOUBT) | u64::from(self.lowest());
        // If it fails, a CPU has lowered its level meanwhile and settled the doubt. Release (in SeqCst) pairs
        // with the SeqCst load of a search, which sees no older bytes than were seen here.
        let _ = self.summary.bound.compare_exchange(doubted, raised, SeqCst, Relaxed);
    }
}

impl<P: ByteAtomics> PerLlc<P> {
    pub(super) fn new(order: &CpuOrder) -> Self {
        let groups: Box<[Group<P>]> =
            order.groups().iter().map(|positions| Group::new(positions.clone())).collect();
        for group in &groups {
            P::describe::<Summary<P>>(&raw const *group.summary);
            group.lines.iter().for_each(|line| P::describe(line));
        }
        Self { groups }
    }

    /// Moves the CPU at `position`, in `group`, to another level.
    #[inline]
    pub(super) fn set(
        &self,
        group: usize,
        position: usize,
        old: Option<Level>,
        new: Option<Level>,
    ) {
        let group = &self.groups[group];
        let byte = |level: Option<Level>| level.map_or(ABSENT, Level::get);
        let (old, new) = (byte(old), byte(new));
        // Relaxed: a search reads the old level or the new one, and either is right. There is no second word
        // that must agree. Accesses after a *lower* level are ordered by a fence.
        group.byte(position).store(new, Relaxed);
        if new < old {
            group.lowered(new);
        }
    }

    /// Returns the lowest level below `below` with a CPU of `allowed`, and all such CPUs. Reads only the
    /// bytes.
    pub(super) fn find(&self, below: Level, allowed: &CpuMask) -> Option<(Level, CpuMask)> {
        let mut lowest = below.get();
        let mut found = CpuMask::EMPTY;
        for group in &self.groups {
            for position in bits_of(allowed.words_in(group.positions.clone())) {
                let level = group.byte(position).load(Relaxed);
                if level < lowest {
                    (lowest, found) = (level, CpuMask::EMPTY);
                }
                if level == lowest {
                    found.add(position);
                }
            }
        }
        (lowest < below.get()).then(|| (Level::from_index(usize::from(lowest)), found))
    }

    /// Returns the nearest CPU of `allowed` at the lowest level below `below`. Stops at the first idle CPU.
    #[inline]
    pub(super) fn find_one(
        &self,
        below: Level,
        allowed: &CpuMask,
        near: usize,
        order: &CpuOrder,
    ) -> Option<(Level, usize)> {
        let home = order.group_of(near);
        let mut best = below.get();
        let mut found = None;
        for number in (home..self.groups.len()).chain(0..home) {
            let group = &self.groups[number];
            // The nearest come first, so the first of equal ones is kept.
            let (first, rest) = if number == home {
                (near..group.positions.end, group.positions.start..near)
            } else {
                (group.positions.clone(), 0..0)
            };
            let wanted = allowed.words_in(group.positions.clone());
            let wanted: usize = wanted.map(|(_, bits)| bits.count_ones() as usize).sum();
            if wanted == 0 || (wanted > LINE_BYTES && group.bound() >= best) {
                continue;
            }
            let mut in_vain = true;
            let both = bits_of(allowed.words_in(first)).chain(bits_of(allowed.words_in(rest)));
            for position in both {
                let level = group.byte(position).load(Relaxed);
                in_vain &= level >= below.get();
                if level < best {
                    best = level;
                    found = Some(position);
                    if level == Level::IDLE.get() {
                        return Some((Level::IDLE, position));
                    }
                }
            }
            if in_vain && wanted > LINE_BYTES && wanted == group.positions.len() {
                group.raise_bound();
            }
        }
        found.map(|position| (Level::from_index(usize::from(best)), position))
    }

    /// Returns the number of bytes of all groups' lines.
    pub(super) fn bytes(&self) -> usize {
        let lines: usize = self.groups.iter().map(|group| group.lines.len()).sum();
        lines * LINE_BYTES + self.groups.len() * size_of::<Padded<Summary<P>>>()
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn bound_of(&self, group: usize) -> u8 {
        self.groups[group].bound()
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn lowest_of(&self, group: usize) -> u8 {
        self.groups[group].lowest()
    }
}

#[cfg(test)]
mod tests {
    use coreshard_platform::Host;

    use super::*;

    #[test]
    fn a_line_holds_sixty_four_cpus_and_the_summary_none() {
        assert_eq!(std::mem::offset_of!(LevelBytes<Host>, levels), 0);
        assert_eq!((size_of::<LevelBytes<Host>>(), align_of::<LevelBytes<Host>>()), (64, 64));
        assert_eq!(std::mem::offset_of!(Summary<Host>, bound), 0);
        assert_eq!(size_of::<Padded<Summary<Host>>>(), coreshard_platform::LINE_PAIR_BYTES);
    }
}
