//! Combines simulations of variants with several seeds to medians with quartiles.

use std::collections::BTreeMap;
use std::iter;

use coreshard_results::{
    CyclicResults, CyclicThread, Durations, HbaResults, HbaRow, IndexMeasurement, IndexResults,
    PiResults, Repeats, SeedRatio, SeedSpread, SeedSpreads, TranscodeResults,
};

use crate::spread::Quartiles;

/// One figure of results.
#[derive(Debug)]
pub struct SeedFigure<R> {
    key: &'static str,
    get: fn(&R) -> f64,
    set: fn(&mut R, f64),
}

/// A variant's results that can be combined over several seeds.
pub trait OverSeeds: Clone + 'static {
    /// The figures that become medians.
    const FIGURES: &'static [SeedFigure<Self>];

    /// Returns the field that records the spread of the figures.
    fn seeds(&mut self) -> &mut SeedSpreads;

    /// Merges the remaining fields from the results with the other seeds: distributions, sums and extremes.
    fn gather(&mut self, others: &[Self]);
}

/// Combines each variant's results over several seeds.
///
/// Figures become medians. The spread of the figures, and of their ratios to the first variant's, is recorded
/// seed by seed. With one seed, results are unchanged.
///
/// `variants` has the results of a variant with each seed, in the same order of seeds.
///
/// ```
/// use coreshard_bench::over_each_variants_seeds;
/// use coreshard_results::PiResults;
///
/// let with = |inversions_per_sec| PiResults { inversions_per_sec, ..PiResults::default() };
/// let packed = vec![with(100.0), with(120.0), with(110.0)];
/// let split = vec![with(150.0), with(180.0), with(165.0)];
/// let merged = over_each_variants_seeds(&[packed, split]);
/// assert_eq!(merged[1].inversions_per_sec, 165.0);
/// let ratio = merged[1].seeds.of("inversions_per_sec").and_then(|it| it.over_first.clone());
/// assert_eq!(ratio.map(|it| it.median), Some(1.5));
/// ```
pub fn over_each_variants_seeds<R: OverSeeds>(variants: &[Vec<R>]) -> Vec<R> {
    let merged = |(at, all): (usize, &Vec<R>)| -> Option<R> {
        let mut merged = all.first()?.clone();
        if all.len() == 1 {
            return Some(merged);
        }
        merged.gather(&all[1..]);
        let spread = |figure: &'static SeedFigure<R>| {
            let each: Vec<f64> = all.iter().map(figure.get).collect();
            let quartiles = Quartiles::of(each.iter().copied()).unwrap_or_default();
            let over_first = (at > 0).then(|| ratio(&each, variants[0].iter().map(figure.get)));
            let Quartiles { q1, q3, .. } = quartiles;
            let spread = SeedSpread { q1, q3, over_first: over_first.flatten(), each };
            (figure, quartiles.median, spread)
        };
        let spreads: Vec<_> = R::FIGURES.iter().map(spread).collect();
        spreads.iter().for_each(|(figure, median, _)| (figure.set)(&mut merged, *median));
        *merged.seeds() = spreads
            .into_iter()
            .map(|(figure, _, spread)| (figure.key.to_owned(), spread))
            .collect();
        Some(merged)
    };
    variants.iter().enumerate().filter_map(merged).collect()
}

/// Returns `None` if the first variant's figure was 0 with each seed.
fn ratio(own: &[f64], first: impl Iterator<Item = f64>) -> Option<SeedRatio> {
    let ratios = own.iter().zip(first).map(|(own, its)| own / its).filter(|it| it.is_finite());
    let ratio = Quartiles::of(ratios)?;
    let Quartiles { q1, median, q3 } = ratio;
    Some(SeedRatio { median, q1, q3, differs_by: ratio.differs_by() })
}

macro_rules! figures {
    ($results:ty: $($key:ident as $number:ty),+; $gather:expr) => {
        impl OverSeeds for $results {
            const FIGURES: &'static [SeedFigure<Self>] = &[$(SeedFigure {
                key: stringify!($key),
                get: |it| it.$key as f64,
                set: |it, figure| it.$key = figure as $number,
            }),+];

            fn seeds(&mut self) -> &mut SeedSpreads {
                &mut self.seeds
            }

            fn gather(&mut self, others: &[Self]) {
                let gather: fn(&mut Self, &[Self]) = $gather;
                gather(self, others);
            }
        }
    };
}

figures!(IndexMeasurement: ops_per_sec as f64, find_ns as f64, set_ns as f64; |it, others| {
    for other in others {
        it.ops_per_sec_min = it.ops_per_sec_min.min(other.ops_per_sec_min);
        it.ops_per_sec_max = it.ops_per_sec_max.max(other.ops_per_sec_max);
        it.each_run.extend(&other.each_run);
    }
});

figures!(CyclicResults: p50_ns as u64, p99_ns as u64, p99_9_ns as u64, cycles_per_sec as f64; |it, others| {
    it.max_ns = others.iter().map(|other| other.max_ns).fold(it.max_ns, u64::max);
    it.page_faults += others.iter().map(|other| other.page_faults).sum::<u64>();
    for (number, thread) in &mut it.thread {
        gather_thread(thread, &others.iter().filter_map(|it| it.thread.get(number)).collect::<Vec<_>>());
    }
});

figures!(PiResults: inversions_per_sec as f64; |it, others| {
    others.iter().for_each(|other| gather_durations(&mut it.waits, &other.waits));
});

figures!(TranscodeResults: frames_per_sec as f64, work_share as f64, between_tasks_ns as f64; |it, others| {
    others.iter().for_each(|other| gather_durations(&mut it.frame_times, &other.frame_times));
});

impl OverSeeds for HbaRow {
    const FIGURES: &'static [SeedFigure<Self>] = &[
        // The displayed value is that of all runs together.
        SeedFigure { key: "average", get: |it| it.runs.average, set: |_, _| () },
        SeedFigure { key: "spread", get: |it| it.runs.spread, set: |_, _| () },
    ];

    fn seeds(&mut self) -> &mut SeedSpreads {
        &mut self.seeds
    }

    fn gather(&mut self, others: &[Self]) {
        let iops = others.iter().flat_map(|other| &other.runs.iops);
        let all = self.runs.iops.iter().chain(iops).copied().collect();
        self.runs = Repeats::new(&self.runs.jobname, all);
    }
}

fn gather_thread(thread: &mut CyclicThread, others: &[&CyclicThread]) {
    let all = || iter::once(&*thread).chain(others.iter().copied());
    let median = |of: fn(&CyclicThread) -> u64| {
        let quartiles = Quartiles::of(all().map(|it| of(it) as f64)).unwrap_or_default();
        quartiles.median as u64
    };
    let cycles: u64 = all().map(|it| it.cycles).sum();
    let sum_us: f64 = all().map(|it| it.avg * it.cycles as f64).sum();
    let mut gathered = CyclicThread {
        cycles,
        min: all().filter(|it| it.cycles > 0).map(|it| it.min).min().unwrap_or(0),
        max: all().map(|it| it.max).max().unwrap_or(0),
        avg: sum_us / cycles.max(1) as f64,
        p50_ns: median(|it| it.p50_ns),
        p99_ns: median(|it| it.p99_ns),
        ..thread.clone()
    };
    others.iter().for_each(|other| add(&mut gathered.histogram, &other.histogram));
    *thread = gathered;
}

fn gather_durations(durations: &mut Durations, other: &Durations) {
    add(&mut durations.by_ns, &other.by_ns);
    durations.number += other.number;
    durations.max_ns = durations.max_ns.max(other.max_ns);
    (durations.p50_ns, durations.p99_ns) = (at(&durations.by_ns, 0.5), at(&durations.by_ns, 0.99));
}

fn add(counts: &mut BTreeMap<u64, u64>, others: &BTreeMap<u64, u64>) {
    for (value, count) in others {
        *counts.entry(*value).or_default() += count;
    }
}

/// Returns the least value that is not exceeded by the given part of all.
fn at(counts: &BTreeMap<u64, u64>, part: f64) -> u64 {
    let all: u64 = counts.values().sum();
    let wanted = (all as f64 * part).ceil().max(1.0) as u64;
    let mut seen = 0;
    let found = counts.iter().find(|(_, count)| {
        seen += **count;
        seen >= wanted
    });
    found.map_or(0, |(value, _)| *value)
}

/// Combines the variants of the index, each with several seeds, to one benchmark's results.
///
/// Returns `None` if there are none.
pub fn index_over_seeds(variants: &[Vec<IndexResults>]) -> Option<IndexResults> {
    let mut merged = variants.first()?.first()?.clone();
    let seeds = variants.iter().map(Vec::len).min().unwrap_or(0);
    merged.runs = variants[0].iter().map(|it| it.runs).sum();
    let measurements: Vec<Vec<IndexMeasurement>> = variants
        .iter()
        .map(|all| all[..seeds].iter().flat_map(|it| it.results.first().cloned()).collect())
        .collect();
    merged.results = over_each_variants_seeds(&measurements);
    let first = merged.results.first()?.each_run.clone();
    for measurement in &mut merged.results {
        let ratios = measurement.each_run.iter().zip(&first).map(|(own, its)| own / its);
        let spread = crate::spread::Spread::of(ratios).unwrap_or_default();
        measurement.over_first = spread.median;
        (measurement.over_first_min, measurement.over_first_max) = (spread.min, spread.max);
    }
    Some(merged)
}

/// Combines the results of the adapter model with several seeds. Returns `None` if there are none.
pub fn hba_over_seeds(all: &[HbaResults]) -> Option<HbaResults> {
    let first = all.first()?;
    let of_variant = |at: usize| all.iter().map(|it| it.rows[at].clone()).collect();
    let rows: Vec<Vec<HbaRow>> = (0..first.rows.len()).map(of_variant).collect();
    Some(HbaResults { rows: over_each_variants_seeds(&rows), ..first.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_medians_and_ratios_are_taken_seed_by_seed() {
        let with = |frames_per_sec, by_ns: &[(u64, u64)]| TranscodeResults {
            frames_per_sec,
            frame_times: Durations {
                number: by_ns.iter().map(|it| it.1).sum(),
                max_ns: by_ns.last().map_or(0, |it| it.0),
                by_ns: by_ns.iter().copied().collect(),
                ..Durations::default()
            },
            ..TranscodeResults::default()
        };
        let first =
            vec![with(1.0, &[(10, 1)]), with(4.0, &[(10, 2), (30, 1)]), with(2.0, &[(20, 1)])];
        let faster = first.iter().map(|it| with(it.frames_per_sec * 3.0, &[])).collect();
        let same = vec![with(1.1, &[]), with(3.0, &[]), with(2.1, &[])];
        let merged = over_each_variants_seeds(&[first.clone(), faster, same]);
        let [first_of, faster, same] = &merged[..] else { panic!("{merged:?}") };
        assert_eq!(first_of.frames_per_sec, 2.0);
        let spread = first_of.seeds.of("frames_per_sec").unwrap();
        assert_eq!((spread.q1, spread.q3, &spread.each[..]), (1.5, 3.0, &[1.0, 4.0, 2.0][..]));
        assert_eq!(spread.over_first, None);
        let times = &first_of.frame_times;
        assert_eq!((times.number, times.p50_ns, times.p99_ns, times.max_ns), (5, 10, 30, 30));
        let ratio = |of: &TranscodeResults| {
            of.seeds.of("frames_per_sec").unwrap().over_first.clone().unwrap()
        };
        assert_eq!((ratio(faster).median, &*ratio(faster).differs_by), (3.0, ""));
        assert_eq!((ratio(same).median, &*ratio(same).differs_by), (1.05, "noise alone"));
        // A single seed gives no spread.
        assert_eq!(over_each_variants_seeds(&[first[..1].to_vec()]), first[..1]);
    }

    #[test]
    fn threads_with_several_seeds_have_all_their_wake_ups() {
        let thread = |histogram: &[(u64, u64)], min, max, avg| CyclicThread {
            p50_ns: max,
            histogram: histogram.iter().copied().collect(),
            cycles: histogram.iter().map(|it| it.1).sum(),
            min,
            max,
            avg,
            ..CyclicThread::default()
        };
        let with = |thread, p50_ns, max_ns| CyclicResults {
            thread: BTreeMap::from([(0, thread)]),
            p50_ns,
            max_ns,
            ..CyclicResults::default()
        };
        let all = vec![
            with(thread(&[(2, 3), (5, 1)], 2, 5, 2.75), 2_100, 5_200),
            with(thread(&[(1, 1), (2, 3)], 1, 2, 1.75), 2_300, 2_900),
        ];
        let merged = &over_each_variants_seeds(&[all])[0];
        assert_eq!((merged.p50_ns, merged.max_ns), (2_200, 5_200));
        let thread = &merged.thread[&0];
        assert_eq!((thread.cycles, thread.min, thread.max, thread.avg), (8, 1, 5, 2.25));
        assert_eq!(thread.histogram, BTreeMap::from([(1, 1), (2, 6), (5, 1)]));
        assert_eq!(thread.p50_ns, 3, "the median of 5 and 2, in whole nanoseconds");
    }

    #[test]
    fn a_variant_of_the_index_is_held_against_the_first_run_by_run() {
        let with = |variant: &str, ops_per_sec: f64| IndexResults {
            runs: 1,
            results: vec![IndexMeasurement {
                variant: variant.into(),
                ops_per_sec,
                ops_per_sec_min: ops_per_sec,
                ops_per_sec_max: ops_per_sec,
                each_run: vec![ops_per_sec],
                ..IndexMeasurement::default()
            }],
            ..IndexResults::default()
        };
        let packed = vec![with("packed", 1.0), with("packed", 2.0)];
        let split = vec![with("split", 4.0), with("split", 4.0)];
        let merged = index_over_seeds(&[packed, split]).unwrap();
        assert_eq!((merged.runs, merged.results.len()), (2, 2));
        let split = &merged.results[1];
        assert_eq!((split.over_first_min, split.over_first, split.over_first_max), (2.0, 3.0, 4.0));
        assert_eq!((split.ops_per_sec_min, &split.each_run[..]), (4.0, &[4.0, 4.0][..]));
        assert_eq!(index_over_seeds(&[]), None);
    }
}
