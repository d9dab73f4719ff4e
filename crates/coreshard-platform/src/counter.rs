//! A counter that CPUs add to without sharing a line.

use std::sync::atomic::Ordering::Relaxed;

use crate::{AtomicInt, Padded, Platform};

/// One padded slot a CPU; adding touches the current CPU's slot alone, reading sums all of them.
///
/// The sum is exact with respect to every addition that happens before the read, and never counts
/// an addition twice. The slots are added to with a locked instruction, since a thread may be
/// moved between finding its CPU and adding; that costs a few nanoseconds on a line that stays.
#[derive(Debug)]
pub struct PerCpuCounter<P: Platform> {
    slots: Box<[Padded<P::AtomicU64>]>,
}

impl<P: Platform> PerCpuCounter<P> {
    /// A counter at zero for CPU ids below `cpu_ids` (at least one). CPUs beyond share slots.
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

    /// The sum of all additions, wrapping at 2⁶⁴. Reads one line a CPU.
    pub fn sum(&self) -> u64 {
        self.slots.iter().fold(0, |sum, slot| sum.wrapping_add(slot.load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;
    use std::sync::Arc;

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
