//! Medians, ranges and quartiles of several runs.

use coreshard_results::Figure;

/// Median and range.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Returns `None` if there are no runs.
    pub(crate) fn of(runs: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut runs: Vec<f64> = runs.into_iter().collect();
        runs.sort_by(f64::total_cmp);
        let (min, max) = (*runs.first()?, *runs.last()?);
        let median = (runs[(runs.len() - 1) / 2] + runs[runs.len() / 2]) / 2.0;
        Some(Self { median, min, max })
    }
}

/// Median and quartiles.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Quartiles {
    pub(crate) q1: f64,
    pub(crate) median: f64,
    pub(crate) q3: f64,
}

impl Quartiles {
    /// Returns `None` if there are no runs. Interpolates linearly between two runs.
    pub(crate) fn of(runs: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut runs: Vec<f64> = runs.into_iter().collect();
        runs.sort_by(f64::total_cmp);
        let last = runs.len().checked_sub(1)?;
        let at = |quarters: usize| {
            let (low, rest) = (last * quarters / 4, last * quarters % 4);
            let (below, above) = (runs[low], runs[(low + 1).min(last)]);
            below + (above - below) * rest as f64 / 4.0
        };
        Some(Self { q1: at(1), median: at(2), q3: at(3) })
    }

    /// Describes the difference of two variants with this ratio: `noise alone`, or empty if it exceeds the
    /// noise.
    pub(crate) fn differs_by(&self) -> String {
        if self.q1 <= 1.0 && self.q3 >= 1.0 { "noise alone".to_owned() } else { String::new() }
    }
}

/// Summarises samples in nanoseconds; all fields are 0 if there are none.
pub(crate) fn figure(samples: Vec<f64>) -> Figure {
    let count = samples.len();
    let Spread { median, min, max } = Spread::of(samples).unwrap_or_default();
    Figure { median_ns: median, min_ns: min, max_ns: max, samples: count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle_of_the_range() {
        assert_eq!(Spread::of([]), None);
        for (runs, median, min, max) in [
            (&[3.0][..], 3.0, 3.0, 3.0),
            (&[9.0, 1.0, 2.0], 2.0, 1.0, 9.0),
            (&[4.0, 1.0, 2.0, 9.0], 3.0, 1.0, 9.0),
        ] {
            assert_eq!(Spread::of(runs.iter().copied()), Some(Spread { median, min, max }));
        }
        let found = figure(vec![9.0, 1.0, 2.0, 4.0]);
        assert_eq!((found.median_ns, found.min_ns, found.max_ns), (3.0, 1.0, 9.0));
        assert_eq!((found.samples, figure(Vec::new()).samples), (4, 0));
    }
}
