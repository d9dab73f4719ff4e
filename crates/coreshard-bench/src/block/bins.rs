//! Latencies counted in fio's own bins, so that its tools can read them.
//!
//! 64 bins for each power of two: a time is known to 1 in 64, and to the nanosecond below 128 ns (fio:
//! stat.h, "Aggregate completion latency"; stat.c, `plat_val_to_idx`). Counting is a shift and an addition,
//! cheap enough for three counts per request of a device that does nothing.

/// The number of bits kept below the highest.
const BITS: u32 = 6;
const VALUES: usize = 1 << BITS;
/// The number of powers of two with their own bins.
const GROUPS: usize = 29;
const BINS: usize = GROUPS * VALUES;

/// A histogram of times.
#[derive(Clone, Debug)]
pub(super) struct Bins {
    counts: Box<[u64]>,
}

impl Bins {
    pub(super) fn new() -> Self {
        Self { counts: vec![0; BINS].into_boxed_slice() }
    }

    #[inline]
    fn index(ns: u64) -> usize {
        let shift = ns.checked_ilog2().unwrap_or(0).saturating_sub(BITS);
        // The group determines the highest bit; in the first two groups the time is the index.
        let within = (ns >> shift) as usize;
        ((shift as usize) * VALUES + within).min(BINS - 1)
    }

    /// Returns the time in the middle of a bin.
    fn middle_ns(index: usize) -> u64 {
        if index < 2 * VALUES {
            return index as u64;
        }
        let shift = index / VALUES - 1;
        let first = ((VALUES + index % VALUES) as u64) << shift;
        first + (1 << shift) / 2
    }

    #[inline]
    pub(super) fn record(&mut self, ns: u64) {
        self.counts[Self::index(ns)] += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum += count;
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the bins that are not empty: a time in the middle of each, and its count.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(index, count)| (Self::middle_ns(index), *count))
    }

    /// Returns for each quantile, in rising order, the time that this part of the samples did not exceed.
    pub(super) fn quantiles(&self, parts: impl IntoIterator<Item = f64>) -> Vec<u64> {
        let total = self.total() as f64;
        let mut seen = 0;
        let mut bins = self.iter();
        let mut at_ns = 0;
        let quantile = |part: f64| {
            while (seen as f64) < part * total
                && let Some((ns, count)) = bins.next()
            {
                seen += count;
                at_ns = ns;
            }
            at_ns
        };
        parts.into_iter().map(quantile).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_fio_s() {
        // Pairs of a time and its bin, as written by fio 3.33 with --output-format=json+.
        for (ns, middle_ns) in [
            (0, 0),
            (1, 1),
            (63, 63),
            (64, 64),
            (127, 127),
            (128, 129),
            (129, 129),
            (168_000, 168_960),
            (177_000, 177_152),
            (1_003_000, 1_003_520),
        ] {
            assert_eq!(Bins::middle_ns(Bins::index(ns)), middle_ns, "{ns} ns");
        }
        assert_eq!(Bins::index(u64::MAX), BINS - 1);
    }

    #[test]
    fn a_time_is_known_to_one_in_64() {
        for ns in (0..1_000).chain((10..34).flat_map(|power| {
            let one = 1_u64 << power;
            [one - 1, one, one + one / 3, 2 * one - 1]
        })) {
            let bin_ns = Bins::middle_ns(Bins::index(ns));
            assert!(bin_ns.abs_diff(ns) * 64 <= ns, "{ns} ns is counted as {bin_ns} ns");
        }
    }

    #[test]
    fn quantiles_are_of_what_was_counted() {
        let mut bins = Bins::new();
        assert_eq!(bins.quantiles([0.5]), [0]);
        (1..=100).for_each(|ns| bins.record(ns));
        assert_eq!(bins.quantiles([0.01, 0.5, 0.99, 1.0]), [1, 50, 99, 100]);
        let mut both = bins.clone();
        both.add(&bins);
        assert_eq!((both.total(), both.iter().next()), (200, Some((1, 2))));
        assert_eq!(both.quantiles([0.5]), [50]);
    }
}
