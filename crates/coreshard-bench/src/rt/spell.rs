//! How long something took, over and over.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest spell that is told apart; longer ones count as this one.
const MAX_NS: u64 = 60_000_000_000;

/// The distribution of how long something took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spells {
    /// How many there were.
    pub number: u64,
    /// The median, in nanoseconds.
    pub p50_ns: u64,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
    /// How many there were of each length, in nanoseconds, of which two digits are told apart.
    pub by_ns: BTreeMap<u64, u64>,
}

impl Spells {
    /// What a benchmark records into.
    pub(super) fn recorder() -> Histogram<u64> {
        Histogram::new_with_bounds(1, MAX_NS, 2).expect("the bounds are sound")
    }

    pub(super) fn of(recorded: &Histogram<u64>) -> Self {
        let at = |quantile| recorded.value_at_quantile(quantile);
        let steps = recorded.iter_recorded();
        Self {
            number: recorded.len(),
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            max_ns: recorded.max(),
            by_ns: steps.map(|step| (step.value_iterated_to(), step.count_at_value())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spells_of_all_lengths_are_told_apart() {
        let mut recorder = Spells::recorder();
        for ns in [40, 1_500, 1_500, 2_000_000_000, u64::MAX] {
            recorder.saturating_record(ns);
        }
        let mut all = Spells::recorder();
        all.add(&recorder).unwrap();
        let spells = Spells::of(&all);
        let near = |found: u64, ns: u64| found >= ns && found - ns <= ns / 50;
        assert_eq!(spells.number, 5);
        assert!(near(spells.p50_ns, 1_500) && near(spells.max_ns, MAX_NS), "{spells:?}");
        assert_eq!(spells.by_ns.values().copied().collect::<Vec<_>>(), [1, 2, 1, 1]);
    }
}
