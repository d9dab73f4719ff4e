//! Combines simulations with several seeds.

use coreshard_results::{
    QueueMeasurement, QueueResults, ScalingCurve, ScalingPoint, Usl, WakeRatio,
};

use super::notes;
use crate::spread::{Quartiles, Spread};

fn median(all: impl IntoIterator<Item = f64>) -> f64 {
    Spread::of(all).map_or(f64::NAN, |spread| spread.median)
}

fn median_ns(all: impl IntoIterator<Item = u64>) -> u64 {
    median(all.into_iter().map(|ns| ns as f64)) as u64
}

/// Combines one benchmark's results with several seeds to medians, with quartiles and ranges.
///
/// Ratios are taken seed by seed. Notes are taken from the first results, except notes about ratios. Returns
/// `None` if there are no results.
///
/// ```
/// use coreshard_bench::over_seeds;
/// use coreshard_results::{QueueMeasurement, QueueResults};
///
/// let with = |items_per_sec| QueueResults {
///     results: vec![QueueMeasurement { items_per_sec, ..QueueMeasurement::default() }],
///     ..QueueResults::default()
/// };
/// let merged = over_seeds(&[with(1.0), with(5.0), with(2.0)]).expect("three seeds");
/// assert_eq!(merged.results[0].items_per_sec, 2.0);
/// assert_eq!(merged.results[0].items_per_sec_q1, Some(1.5));
/// ```
#[must_use]
pub fn over_seeds(all: &[QueueResults]) -> Option<QueueResults> {
    let first = all.first()?;
    let old_notes = notes::wake_ratios(&first.wake_ratios);
    // If curves were ended early, the last points may have fewer CPUs.
    let as_large = || all.iter().filter(|results| results.threads == first.threads);
    let mut whole = QueueResults {
        // A seed that was ended before its first run has no measurements.
        runs: all.iter().filter(|it| !it.results.is_empty()).map(|it| it.runs).sum(),
        results: merged(
            as_large().flat_map(|it| &it.results),
            |it| [&it.scope, &it.wake, &it.intake],
            measurement,
        ),
        wake_ratios: merged(
            as_large().flat_map(|it| &it.wake_ratios),
            |it| [&it.scope, &it.intake, &it.wake, &it.over],
            ratio,
        ),
        curves: merged(
            all.iter().flat_map(|it| &it.curves),
            |it| [&it.scope, &it.wake, &it.intake],
            curve,
        ),
        ..first.clone()
    };
    whole.notes.retain(|note| !old_notes.contains(note) && !notes::is_of_early_end(note));
    whole.notes.extend(notes::wake_ratios(&whole.wake_ratios));
    let done = all.iter().filter(|results| !notes::was_ended_early(results)).count();
    whole.notes.extend(notes::early_end(done, all.len(), "seeds were measured whole"));
    Some(whole)
}

/// Merges values with the same key, in the order of the keys' first occurrence. A benchmark that was ended early
/// may lack some of them.
fn merged<'all, T: 'all, K: PartialEq>(
    all: impl Iterator<Item = &'all T>,
    key: impl Fn(&'all T) -> K,
    merge: fn(Vec<&T>) -> T,
) -> Vec<T> {
    let mut groups: Vec<Vec<&T>> = Vec::new();
    for one in all {
        match groups.iter_mut().find(|group| key(group[0]) == key(one)) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups.into_iter().map(merge).collect()
}

fn measurement(all: Vec<&QueueMeasurement>) -> QueueMeasurement {
    let rates =
        Quartiles::of(all.iter().map(|measurement| measurement.items_per_sec)).unwrap_or_default();
    let several = all.len() > 1;
    let ns =
        |of: fn(&QueueMeasurement) -> u64| median_ns(all.iter().map(|measurement| of(measurement)));
    let part = |of: fn(&QueueMeasurement) -> Option<f64>| {
        Spread::of(all.iter().filter_map(|measurement| of(measurement))).map(|spread| spread.median)
    };
    QueueMeasurement {
        items_per_sec: rates.median,
        items_per_sec_min: all.iter().map(|it| it.items_per_sec_min).fold(f64::INFINITY, f64::min),
        items_per_sec_max: all.iter().map(|it| it.items_per_sec_max).fold(0.0, f64::max),
        items_per_sec_q1: several.then_some(rates.q1),
        items_per_sec_q3: several.then_some(rates.q3),
        p50_ns: ns(|measurement| measurement.p50_ns),
        p90_ns: ns(|measurement| measurement.p90_ns),
        p95_ns: ns(|measurement| measurement.p95_ns),
        p99_ns: ns(|measurement| measurement.p99_ns),
        max_ns: all.iter().map(|measurement| measurement.max_ns).max().unwrap_or(0),
        end_to_end_p50_ns: ns(|measurement| measurement.end_to_end_p50_ns),
        end_to_end_p99_ns: ns(|measurement| measurement.end_to_end_p99_ns),
        lock_hold_ns_per_item: part(|measurement| measurement.lock_hold_ns_per_item),
        lock_hold_max_ns: all.iter().filter_map(|measurement| measurement.lock_hold_max_ns).max(),
        wakeups_per_item: part(|measurement| measurement.wakeups_per_item),
        ..all[0].clone()
    }
}

fn ratio(all: Vec<&WakeRatio>) -> WakeRatio {
    let low = all.iter().map(|it| it.items_per_sec_ratio_min).fold(f64::INFINITY, f64::min);
    let high = all.iter().map(|it| it.items_per_sec_ratio_max).fold(0.0, f64::max);
    let holds = Spread::of(all.iter().filter_map(|it| it.lock_hold_ratio));
    let quartiles = Quartiles::of(all.iter().map(|it| it.items_per_sec_ratio)).unwrap_or_default();
    let several = all.len() > 1;
    WakeRatio {
        items_per_sec_ratio: quartiles.median,
        items_per_sec_ratio_q1: several.then_some(quartiles.q1),
        items_per_sec_ratio_q3: several.then_some(quartiles.q3),
        items_per_sec_ratio_min: low,
        items_per_sec_ratio_max: high,
        lock_hold_ratio: holds.map(|spread| spread.median),
        ..all[0].clone()
    }
}

fn curve(all: Vec<&ScalingCurve>) -> ScalingCurve {
    let mut points = merged(all.iter().flat_map(|curve| &curve.points), |it| it.cpus, point);
    points.sort_by_key(|point| point.cpus);
    let rates: Vec<_> = points.iter().map(|it| (it.cpus, it.items_per_sec)).collect();
    ScalingCurve { points, usl: Usl::fit(&rates), ..all[0].clone() }
}

fn point(all: Vec<&ScalingPoint>) -> ScalingPoint {
    let rates = Quartiles::of(all.iter().map(|it| it.items_per_sec)).unwrap_or_default();
    let several = all.len() > 1;
    ScalingPoint {
        cpus: all[0].cpus,
        items_per_sec: rates.median,
        items_per_sec_q1: several.then_some(rates.q1),
        items_per_sec_q3: several.then_some(rates.q3),
        items_per_sec_min: all.iter().map(|it| it.items_per_sec_min).fold(f64::INFINITY, f64::min),
        items_per_sec_max: all.iter().map(|it| it.items_per_sec_max).fold(0.0, f64::max),
        p50_ns: median_ns(all.iter().map(|it| it.p50_ns)),
        end_to_end_p99_ns: median_ns(all.iter().map(|it| it.end_to_end_p99_ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_seed_by_seed_and_told_anew() {
        let with = |ratio: f64| {
            let wake_ratios = vec![WakeRatio {
                scope: "cache".into(),
                intake: "locked".into(),
                wake: "after-unlock".into(),
                over: "under-lock".into(),
                contended: true,
                items_per_sec_ratio: ratio,
                items_per_sec_ratio_min: ratio,
                items_per_sec_ratio_max: ratio,
                ..WakeRatio::default()
            }];
            let notes = notes::wake_ratios(&wake_ratios);
            let results = vec![QueueMeasurement::default()];
            QueueResults { runs: 1, results, wake_ratios, notes, ..QueueResults::default() }
        };
        let merged = over_seeds(&[with(0.9), with(1.2), with(1.1)]).unwrap();
        assert_eq!((merged.runs, merged.wake_ratios[0].items_per_sec_ratio), (3, 1.1));
        assert_eq!(
            merged.notes,
            [
                "after-unlock over under-lock, locked, items/s run by run: cache 1.10 × (1.00–1.15), by noise alone"
            ]
        );
        assert_eq!(over_seeds(&[]), None);
    }

    /// Whichever combinations had their turn before the end.
    #[test]
    fn a_seed_that_was_ended_early_is_merged_by_what_was_measured() {
        let measurement = |scope: &str, items_per_sec| QueueMeasurement {
            scope: scope.into(),
            items_per_sec,
            ..QueueMeasurement::default()
        };
        let point =
            |cpus, items_per_sec| ScalingPoint { cpus, items_per_sec, ..Default::default() };
        let curve = |points| vec![ScalingCurve { points, ..ScalingCurve::default() }];
        let whole = QueueResults {
            results: vec![measurement("cpu", 1.0), measurement("numa", 20.0)],
            curves: curve(vec![point(1, 1.0), point(2, 2.0)]),
            ..QueueResults::default()
        };
        let ended = QueueResults {
            results: vec![measurement("numa", 30.0)],
            curves: curve(vec![point(1, 3.0)]),
            notes: vec!["ended early: 1 of 2 turns were taken".into()],
            ..QueueResults::default()
        };
        for all in [[whole.clone(), ended.clone()], [ended, whole]] {
            let merged = over_seeds(&all).unwrap();
            let of = |scope| {
                let found = merged.results.iter().find(|measurement| measurement.scope == scope);
                found.map(|measurement| measurement.items_per_sec)
            };
            assert_eq!((of("cpu"), of("numa")), (Some(1.0), Some(25.0)));
            let points = merged.curves[0].points.iter().map(|it| (it.cpus, it.items_per_sec));
            assert!(points.eq([(1, 2.0), (2, 2.0)]), "{:?}", merged.curves);
            assert_eq!(merged.notes, ["ended early: 1 of 2 seeds were measured whole"]);
        }
    }
}
