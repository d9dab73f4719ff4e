//! Histograms of durations.

use coreshard_results::Durations;
use hdrhistogram::Histogram;

/// The longest duration that is distinguished; longer ones count as this.
const MAX_NS: u64 = 60_000_000_000;

/// Creates a histogram in nanoseconds.
pub(super) fn recorder() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_NS, 2).expect("the bounds are valid")
}

/// Returns the summary of a histogram.
pub(super) fn durations(recorded: &Histogram<u64>) -> Durations {
    let at = |quantile| recorded.value_at_quantile(quantile);
    let steps = recorded.iter_recorded();
    Durations {
        number: recorded.len(),
        p50_ns: at(0.5),
        p99_ns: at(0.99),
        max_ns: recorded.max(),
        by_ns: steps.map(|step| (step.value_iterated_to(), step.count_at_value())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_all_lengths_are_told_apart() {
        let mut one = recorder();
        for ns in [40, 1_500, 1_500, 2_000_000_000, u64::MAX] {
            one.saturating_record(ns);
        }
        let mut all = recorder();
        all.add(&one).unwrap();
        let found = durations(&all);
        let near = |found: u64, ns: u64| found >= ns && found - ns <= ns / 50;
        assert_eq!(found.number, 5);
        assert!(near(found.p50_ns, 1_500) && near(found.max_ns, MAX_NS), "{found:?}");
        assert_eq!(found.by_ns.values().copied().collect::<Vec<_>>(), [1, 2, 1, 1]);
    }
}
