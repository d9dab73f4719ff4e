//! The findings: the fastest combination, whether its lead exceeds the noise, and the gain of each variant, all else
//! equal.

use coreshard_results::{QueueMeasurement, QueueResults, WakeRatio};

/// A dimension that a queue benchmark compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Scope,
    Wake,
    Intake,
}

impl Comparison {
    pub(crate) const ALL: [Comparison; 3] =
        [Comparison::Scope, Comparison::Wake, Comparison::Intake];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Comparison::Scope => "Affinity scope",
            Comparison::Wake => "Wake-up",
            Comparison::Intake => "Intake",
        }
    }

    pub(crate) fn variant(self, measurement: &QueueMeasurement) -> &str {
        match self {
            Comparison::Scope => &measurement.scope,
            Comparison::Wake => &measurement.wake,
            Comparison::Intake => &measurement.intake,
        }
    }

    /// Returns the names of this comparison's variants in `results`, without duplicates, in order of appearance.
    pub(crate) fn variants(self, results: &QueueResults) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for measurement in &results.results {
            if !names.contains(&self.variant(measurement)) {
                names.push(self.variant(measurement));
            }
        }
        names
    }

    /// Returns the baseline: the oldest variant. Measurements run from fine to coarse scopes, and the coarsest is the
    /// oldest. The other comparisons start with the oldest.
    fn baseline<'a>(self, variants: &[&'a str]) -> Option<&'a str> {
        match self {
            Comparison::Scope => variants.last().copied(),
            Comparison::Wake | Comparison::Intake => variants.first().copied(),
        }
    }
}

/// Returns the name of a combination: `scope · wake · intake`.
pub(crate) fn combination(measurement: &QueueMeasurement) -> String {
    format!("{} · {} · {}", measurement.scope, measurement.wake, measurement.intake)
}

/// Returns true if the range of `measurement` overlaps that of `best`, so that they cannot be distinguished. Ranges are
/// quartiles over seeds, or the range over runs. A measurement without a figure ties with none.
pub(crate) fn ties_with(measurement: &QueueMeasurement, best: &QueueMeasurement) -> bool {
    measurement.items_per_sec.is_finite() && measurement.range().1 >= best.range().0
}

/// Names the source of a measurement's range.
pub(crate) fn range_of(measurement: &QueueMeasurement) -> &'static str {
    if measurement.items_per_sec_q1.is_some() { QUARTILES } else { "runs" }
}

/// The range of a measurement simulated with several seeds.
pub(crate) const QUARTILES: &str = "quartiles";

/// The fastest and the slowest of at least two combinations.
pub(crate) struct Contest<'a> {
    pub(crate) best: &'a QueueMeasurement,
    pub(crate) worst: &'a QueueMeasurement,
    /// Number of other combinations whose range overlaps that of the best.
    pub(crate) ties: usize,
}

impl<'a> Contest<'a> {
    pub(crate) fn of(results: &'a QueueResults) -> Option<Self> {
        let (best, worst) = (results.best()?, results.worst()?);
        if std::ptr::eq(best, worst) {
            return None;
        }
        let ties = results
            .results
            .iter()
            .filter(|measurement| !std::ptr::eq(*measurement, best) && ties_with(measurement, best))
            .count();
        Some(Self { best, worst, ties })
    }

    /// Returns true if the ranges of the best and the worst do not overlap.
    pub(crate) fn is_decided(&self) -> bool {
        !ties_with(self.worst, self.best)
    }

    /// Returns the ratio of the best throughput to that of the library's default; `None` if the default is the best or the
    /// slowest, or was not measured.
    pub(crate) fn over_default(&self, results: &QueueResults) -> Option<f64> {
        let default = results.results.iter().find(|measurement| measurement.is_default())?;
        let ratio = self.best.items_per_sec / default.items_per_sec;
        let is_end = [self.best, self.worst].into_iter().any(|end| std::ptr::eq(default, end));
        (ratio.is_finite() && !is_end).then_some(ratio)
    }

    /// Returns the ratio of the best to the worst throughput; infinite if the worst is 0.
    pub(crate) fn ratio(&self) -> f64 {
        self.best.items_per_sec / self.worst.items_per_sec
    }
}

/// The gain of a variant over the oldest of its comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gain<'a> {
    pub(crate) variant: &'a str,
    /// Whether this is the baseline.
    pub(crate) is_baseline: bool,
    /// Geometric mean of the throughput ratios over all pairs that differ only in this comparison.
    pub(crate) mean: f64,
    /// Smallest ratio.
    pub(crate) min: f64,
    /// Largest ratio.
    pub(crate) max: f64,
    /// Number of pairs.
    pub(crate) pairs: usize,
}

/// Returns the gains of all variants of `comparison`, in order of appearance; empty if fewer than two can be compared.
pub(crate) fn gains<'a>(results: &'a QueueResults, comparison: Comparison) -> Vec<Gain<'a>> {
    let variants = comparison.variants(results);
    let Some(baseline) = comparison.baseline(&variants) else { return Vec::new() };
    let gains: Vec<Gain<'a>> = variants
        .into_iter()
        .filter_map(|variant| {
            let ratios = ratios(results, comparison, variant, baseline);
            let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
            (!ratios.is_empty()).then(|| Gain {
                variant,
                is_baseline: variant == baseline,
                mean: (logs / ratios.len() as f64).exp(),
                min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
                max: ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                pairs: ratios.len(),
            })
        })
        .collect();
    if gains.len() < 2 { Vec::new() } else { gains }
}

fn ratios(
    results: &QueueResults,
    comparison: Comparison,
    variant: &str,
    baseline: &str,
) -> Vec<f64> {
    let same_elsewhere = |a: &QueueMeasurement, b: &QueueMeasurement| {
        Comparison::ALL
            .iter()
            .all(|other| *other == comparison || other.variant(a) == other.variant(b))
    };
    let comparable = |measurement: &&QueueMeasurement| {
        measurement.items_per_sec.is_finite() && measurement.items_per_sec > 0.0
    };
    let measurements_of = |name: &str| {
        let name = name.to_owned();
        results
            .results
            .iter()
            .filter(comparable)
            .filter(move |measurement| comparison.variant(measurement) == name.as_str())
    };
    measurements_of(variant)
        .filter_map(|measurement| {
            let partner =
                measurements_of(baseline).find(|other| same_elsewhere(measurement, other))?;
            let of_runs = wake_ratio(results, measurement, partner)
                .filter(|_| comparison == Comparison::Wake);
            Some(of_runs.unwrap_or(measurement.items_per_sec / partner.items_per_sec))
        })
        .collect()
}

/// Returns the ratio taken run by run, which tables also show. It differs from the ratio of medians.
fn wake_ratio(
    results: &QueueResults,
    measurement: &QueueMeasurement,
    over: &QueueMeasurement,
) -> Option<f64> {
    let is_it = |ratio: &&WakeRatio| {
        (&ratio.scope, &ratio.intake) == (&measurement.scope, &measurement.intake)
            && (&ratio.wake, &ratio.over) == (&measurement.wake, &over.wake)
    };
    let ratio = results.wake_ratios.iter().find(is_it)?.items_per_sec_ratio;
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(scope: &str, wake: &str, low: f64, median: f64, high: f64) -> QueueMeasurement {
        QueueMeasurement {
            scope: scope.into(),
            wake: wake.into(),
            intake: "locked".into(),
            items_per_sec: median,
            items_per_sec_min: low,
            items_per_sec_max: high,
            ..QueueMeasurement::default()
        }
    }

    fn results(measurements: Vec<QueueMeasurement>) -> QueueResults {
        QueueResults { results: measurements, ..QueueResults::default() }
    }

    #[test]
    fn a_gain_is_the_geometric_mean_over_pairs_that_differ_in_one_comparison() {
        let results = results(vec![
            measurement("cpu", "under-lock", 1.0, 8.0, 9.0),
            measurement("cpu", "coalesced", 1.0, 18.0, 19.0),
            measurement("system", "under-lock", 1.0, 2.0, 3.0),
            measurement("system", "coalesced", 1.0, 1.0, 2.0),
        ]);
        let scope = gains(&results, Comparison::Scope);
        assert_eq!(scope.iter().map(|gain| gain.variant).collect::<Vec<_>>(), ["cpu", "system"]);
        assert!((scope[0].mean - (4.0f64 * 18.0).sqrt()).abs() < 1e-9, "{scope:?}");
        assert_eq!((scope[0].min, scope[0].max, scope[0].pairs), (4.0, 18.0, 2));
        assert!(scope[1].is_baseline && scope[1].mean == 1.0);
        let wake = gains(&results, Comparison::Wake);
        assert!(wake[0].is_baseline);
        assert!((wake[1].mean - (2.25f64 * 0.5).sqrt()).abs() < 1e-9, "{wake:?}");
        assert!(gains(&results, Comparison::Intake).is_empty(), "one variant cannot be compared");
    }

    #[test]
    fn wake_ups_are_compared_as_the_table_does_it() {
        let mut results = results(vec![
            measurement("cpu", "under-lock", 1.0, 8.0, 9.0),
            measurement("cpu", "coalesced", 1.0, 18.0, 19.0),
            measurement("system", "under-lock", 1.0, 2.0, 3.0),
            measurement("system", "coalesced", 1.0, 1.0, 2.0),
        ]);
        results.wake_ratios = vec![WakeRatio {
            scope: "system".into(),
            intake: "locked".into(),
            wake: "coalesced".into(),
            over: "under-lock".into(),
            items_per_sec_ratio: 0.75,
            ..WakeRatio::default()
        }];
        let wake = gains(&results, Comparison::Wake);
        assert_eq!((wake[1].min, wake[1].max), (0.75, 2.25));
        assert_eq!((wake[0].min, wake[0].max), (1.0, 1.0));
    }

    #[test]
    fn measurements_without_a_figure_are_not_compared() {
        let results = results(vec![
            measurement("cpu", "under-lock", 1.0, f64::NAN, 9.0),
            measurement("smt", "under-lock", 0.0, 0.0, 0.0),
            measurement("system", "under-lock", 1.0, 2.0, 3.0),
        ]);
        assert!(gains(&results, Comparison::Scope).is_empty());
        let contest = Contest::of(&results).unwrap();
        assert_eq!((contest.best.scope.as_str(), contest.worst.scope.as_str()), ("system", "smt"));
        assert!(contest.ratio().is_infinite());
    }

    #[test]
    fn overlapping_ranges_are_a_tie() {
        let clear = results(vec![
            measurement("cpu", "coalesced", 90.0, 100.0, 110.0),
            measurement("smt", "coalesced", 80.0, 85.0, 90.0),
            measurement("system", "coalesced", 10.0, 20.0, 30.0),
        ]);
        let contest = Contest::of(&clear).unwrap();
        assert!(contest.is_decided());
        assert_eq!((contest.ties, contest.ratio()), (1, 5.0));
        assert_eq!(contest.over_default(&clear), None);
        let mut with_default = clear.clone();
        with_default.results[1].scope = "cache_shard".into();
        with_default.results[1].intake = "lock-free".into();
        let over = |results: &QueueResults| Contest::of(results).unwrap().over_default(results);
        assert_eq!(over(&with_default), Some(100.0 / 85.0));
        with_default.results[1].items_per_sec = 101.0;
        assert_eq!(over(&with_default), None);
        with_default.results[1].items_per_sec = 1.0;
        assert_eq!(over(&with_default), None);
        let close = results(clear.results[..2].to_vec());
        assert!(!Contest::of(&close).unwrap().is_decided());
        assert!(Contest::of(&results(clear.results[..1].to_vec())).is_none());
        assert!(!ties_with(&measurement("cpu", "", 90.0, f64::NAN, 200.0), contest.best));
    }
}
