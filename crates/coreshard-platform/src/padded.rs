//! Values on cache lines of their own, and a per-CPU counter built from them.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::{AtomicInt, Platform};

/// The distance in bytes at which two hot words no longer disturb each other.
///
/// x86-64 has lines of 64 bytes, but its second-level prefetcher fetches them in aligned pairs (Intel 64 and
/// IA-32 Architectures Optimization Reference Manual, "spatial prefetcher"), so a neighbour on the other half
/// of a pair still bounces. Several aarch64 server and desktop cores have lines of 128 bytes. Both
/// architectures therefore use 128.
pub const LINE_PAIR_BYTES: usize = 128;

/// A value that shares no pair of cache lines with anything else.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(T);

impl<T> Padded<T> {
    /// Puts `value` on its own lines.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Padded<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Padded<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// A counter with one padded slot per CPU. Adding touches only the current CPU's slot; reading sums all of
/// them.
///
/// The sum includes every addition that happens before the read, and never counts an addition twice.
/// Additions use a locked instruction, since a thread may migrate between reading its CPU and adding. This
/// costs a few nanoseconds on a line that stays in the cache.
#[derive(Debug)]
pub struct PerCpuCounter<P: Platform> {
    slots: Box<[Padded<P::AtomicU64>]>,
}

impl<P: Platform> PerCpuCounter<P> {
    /// Creates a counter at zero for CPU ids below `cpu_ids` (at least one). Higher CPU ids share slots.
    pub fn new(cpu_ids: usize) -> Self {
        let slots =
            (0..cpu_ids.max(1)).map(|_| Padded::new(P::AtomicU64::new(0))).collect::<Box<[_]>>();
        Self { slots }
    }

    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        let slot = P::current_cpu().index() % self.slots.len();
        self.slots[slot].fetch_add(n, Relaxed);
    }

    /// Adds `n`.
    ///
    /// The caller's earlier writes are visible to a thread that sees the addition in
    /// [`sum_acquired`](Self::sum_acquired).
    #[inline]
    pub fn add_released(&self, n: u64) {
        let slot = P::current_cpu().index() % self.slots.len();
        // Release pairs with the Acquire of `sum_acquired`. Later additions to the slot, also relaxed ones,
        // continue the release sequence, so they publish the writes as well.
        self.slots[slot].fetch_add(n, Release);
    }

    /// Returns the sum of all additions.
    ///
    /// Writes before an addition by [`add_released`](Self::add_released) are visible with it.
    pub fn sum_acquired(&self) -> u64 {
        // Acquire pairs with the Release of `add_released`.
        self.slots.iter().fold(0, |sum, slot| sum.wrapping_add(slot.load(Acquire)))
    }

    /// Returns the sum of all additions, wrapping at 2⁶⁴. Reads one cache line per CPU.
    pub fn sum(&self) -> u64 {
        self.slots.iter().fold(0, |sum, slot| sum.wrapping_add(slot.load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Host;

    #[test]
    fn neighbours_in_an_array_share_no_line_pair() {
        let pair = [Padded::new(1_u8), Padded::new(2_u8)];
        let distance = (&raw const pair[1]).addr() - (&raw const pair[0]).addr();
        assert_eq!(distance, LINE_PAIR_BYTES);
        assert_eq!((&raw const pair[0]).addr() % LINE_PAIR_BYTES, 0);
    }

    #[test]
    fn the_sum_is_exact_once_the_adders_are_done() {
        let counter = Arc::new(PerCpuCounter::<Host>::new(2));
        let threads: Vec<_> = (1..=4)
            .map(|n| {
                let counter = Arc::clone(&counter);
                std::thread::spawn(move || (0..10_000).for_each(|_| counter.add(n)))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(counter.sum(), 10_000 * (1 + 2 + 3 + 4));
    }
}
