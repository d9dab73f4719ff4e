//! Latencies as a cell takes them, and as it reports them to the harness.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Samples in nanoseconds. Room for all of them is made before the clock starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Samples {
    values_ns: Vec<u64>,
}

impl Samples {
    pub(crate) fn with_capacity(samples: usize) -> Self {
        // Written once, so that taking a sample causes no page fault.
        let mut values_ns = vec![1; samples];
        values_ns.clear();
        Self { values_ns }
    }

    #[inline]
    pub(crate) fn push(&mut self, value_ns: u64) {
        self.values_ns.push(value_ns);
    }

    /// Returns the times from these moments to the ends, one by one.
    pub(crate) fn until(self, ends_ns: &[AtomicU64]) -> Samples {
        let ends_ns = ends_ns.iter().map(|end| end.load(Relaxed));
        self.values_ns
            .into_iter()
            .zip(ends_ns)
            .map(|(start, end)| end.saturating_sub(start))
            .collect()
    }

    /// Subtracts a cost from each sample.
    pub(crate) fn less(self, cost_ns: u64) -> Samples {
        self.values_ns.into_iter().map(|value_ns| value_ns.saturating_sub(cost_ns)).collect()
    }

    pub(crate) fn extend(&mut self, other: Samples) {
        self.values_ns.extend(other.values_ns);
    }

    /// Returns each value with its count, ascending.
    pub(crate) fn counted(mut self) -> Vec<(u64, u64)> {
        self.values_ns.sort_unstable();
        let runs = self.values_ns.chunk_by(|a, b| a == b);
        runs.map(|run| (run[0], run.len() as u64)).collect()
    }
}

impl FromIterator<u64> for Samples {
    fn from_iter<I: IntoIterator<Item = u64>>(values_ns: I) -> Self {
        Self { values_ns: values_ns.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_samples_are_counted_together() {
        let mut samples: Samples = [30, 10, 30].into_iter().collect();
        samples.extend([10, 30].into_iter().collect());
        assert_eq!(samples.counted(), [(10, 2), (30, 3)]);
    }
}
