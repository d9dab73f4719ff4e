//! What simulations with several seeds found, as one.

use coreshard_results::{QueueCell, QueueResults, ScalingCurve, Usl, WakeRatio};

use super::notes;
use crate::spread::{Quartiles, Spread};

fn median(all: impl IntoIterator<Item = f64>) -> f64 {
    Spread::of(all).map_or(f64::NAN, |spread| spread.median)
}

fn median_ns(all: impl IntoIterator<Item = u64>) -> u64 {
    median(all.into_iter().map(|ns| ns as f64)) as u64
}

/// One benchmark's results with several seeds, as medians over them, with quartiles and ranges; ratios are taken seed by
/// seed. Notes are the first's, but for those of ratios. `None` of none.
///
/// ```
/// use coreshard_bench::over_seeds;
/// use coreshard_results::{QueueCell, QueueResults};
///
/// let with = |items_per_sec| QueueResults {
///     results: vec![QueueCell { items_per_sec, ..QueueCell::default() }],
///     ..QueueResults::default()
/// };
/// let merged = over_seeds(&[with(1.0), with(5.0), with(2.0)]).expect("three seeds");
/// assert_eq!(merged.results[0].items_per_sec, 2.0);
/// assert_eq!(merged.results[0].items_per_sec_q1, Some(1.5));
/// ```
#[must_use]
pub fn over_seeds(all: &[QueueResults]) -> Option<QueueResults> {
    let first = all.first()?;
    // One that was ended early may lack cells at its end.
    let cells = all.iter().map(|results| results.results.len()).min()?;
    let ratios = all.iter().map(|results| results.wake_ratios.len()).min()?;
    let points = |results: &QueueResults| {
        results.curves.iter().map(|curve| curve.points.len()).min().unwrap_or(0)
    };
    let points = all.iter().map(points).min()?;
    let old_notes = notes::wake_ratios(&first.wake_ratios);
    let mut merged = QueueResults {
        runs: all.iter().map(|results| results.runs).sum(),
        results: (0..cells)
            .map(|at| cell(all.iter().map(|it| &it.results[at]).collect()))
            .collect(),
        wake_ratios: (0..ratios)
            .map(|at| ratio(all.iter().map(|it| &it.wake_ratios[at]).collect()))
            .collect(),
        curves: (0..first.curves.len())
            .map(|at| curve(all.iter().filter_map(|it| it.curves.get(at)).collect(), points))
            .collect(),
        ..first.clone()
    };
    merged.notes.retain(|note| !old_notes.contains(note));
    merged.notes.extend(notes::wake_ratios(&merged.wake_ratios));
    Some(merged)
}

fn cell(all: Vec<&QueueCell>) -> QueueCell {
    let rates = Quartiles::of(all.iter().map(|cell| cell.items_per_sec)).unwrap_or_default();
    let ns = |of: fn(&QueueCell) -> u64| median_ns(all.iter().map(|cell| of(cell)));
    let part = |of: fn(&QueueCell) -> Option<f64>| {
        Spread::of(all.iter().filter_map(|cell| of(cell))).map(|spread| spread.median)
    };
    QueueCell {
        items_per_sec: rates.median,
        items_per_sec_min: all.iter().map(|it| it.items_per_sec_min).fold(f64::INFINITY, f64::min),
        items_per_sec_max: all.iter().map(|it| it.items_per_sec_max).fold(0.0, f64::max),
        items_per_sec_q1: Some(rates.q1),
        items_per_sec_q3: Some(rates.q3),
        p50_ns: ns(|cell| cell.p50_ns),
        p90_ns: ns(|cell| cell.p90_ns),
        p95_ns: ns(|cell| cell.p95_ns),
        p99_ns: ns(|cell| cell.p99_ns),
        max_ns: all.iter().map(|cell| cell.max_ns).max().unwrap_or(0),
        end_to_end_p50_ns: ns(|cell| cell.end_to_end_p50_ns),
        end_to_end_p99_ns: ns(|cell| cell.end_to_end_p99_ns),
        lock_hold_ns_per_item: part(|cell| cell.lock_hold_ns_per_item),
        lock_hold_max_ns: all.iter().filter_map(|cell| cell.lock_hold_max_ns).max(),
        wakeups_per_item: part(|cell| cell.wakeups_per_item),
        ..all[0].clone()
    }
}

fn ratio(all: Vec<&WakeRatio>) -> WakeRatio {
    let low = all.iter().map(|it| it.items_per_sec_ratio_min).fold(f64::INFINITY, f64::min);
    let high = all.iter().map(|it| it.items_per_sec_ratio_max).fold(0.0, f64::max);
    let holds = Spread::of(all.iter().filter_map(|it| it.lock_hold_ratio));
    WakeRatio {
        items_per_sec_ratio: median(all.iter().map(|it| it.items_per_sec_ratio)),
        items_per_sec_ratio_min: low,
        items_per_sec_ratio_max: high,
        lock_hold_ratio: holds.map(|spread| spread.median),
        ..all[0].clone()
    }
}

fn curve(all: Vec<&ScalingCurve>, points: usize) -> ScalingCurve {
    let mut merged = all[0].clone();
    merged.points.truncate(points);
    for (at, point) in merged.points.iter_mut().enumerate() {
        let of = || all.iter().map(|curve| &curve.points[at]);
        point.items_per_sec = median(of().map(|point| point.items_per_sec));
        point.items_per_sec_min = of().map(|it| it.items_per_sec_min).fold(f64::INFINITY, f64::min);
        point.items_per_sec_max = of().map(|it| it.items_per_sec_max).fold(0.0, f64::max);
        point.p50_ns = median_ns(of().map(|point| point.p50_ns));
        point.end_to_end_p99_ns = median_ns(of().map(|point| point.end_to_end_p99_ns));
    }
    let points: Vec<_> = merged.points.iter().map(|it| (it.cpus, it.items_per_sec)).collect();
    merged.usl = Usl::fit(&points);
    merged
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
                lock_hold_ratio: None,
            }];
            let notes = notes::wake_ratios(&wake_ratios);
            QueueResults { runs: 1, wake_ratios, notes, ..QueueResults::default() }
        };
        let merged = over_seeds(&[with(0.9), with(1.2), with(1.1)]).unwrap();
        assert_eq!((merged.runs, merged.wake_ratios[0].items_per_sec_ratio), (3, 1.1));
        assert_eq!(
            merged.notes,
            [
                "after-unlock over under-lock, locked, items/s run by run: cache 1.10 × (0.90–1.20), by noise alone"
            ]
        );
        assert_eq!(over_seeds(&[]), None);
    }
}
