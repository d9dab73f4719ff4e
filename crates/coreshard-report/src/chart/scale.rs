//! Maps figures to positions on an axis.

/// An axis: the range of figures, and their positions from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// From zero to `top`, so that lengths can be compared.
    Linear { top: f64 },
    /// From `low` to `high`, where equal distances are equal factors.
    Log { low: f64, high: f64 },
}

/// Round numbers within a decade.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];

/// Approximate number of intervals on a linear axis.
const INTERVALS: f64 = 5.0;

impl Scale {
    /// Creates a scale from zero to the largest of `values`; `None` if none is finite and above zero.
    pub(crate) fn linear(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let top = positive(values).reduce(f64::max)?;
        Some(Self::Linear { top })
    }

    /// Creates a scale over all of `values` that are finite and above zero, extended to round figures; `None` if there
    /// are none.
    pub(crate) fn log(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = positive(values).collect();
        let smallest = values.iter().copied().reduce(f64::min)?;
        let largest = values.iter().copied().reduce(f64::max)?;
        // A small tolerance keeps round figures in place.
        let low = marks_around(smallest).filter(|mark| *mark <= smallest * (1.0 + 1e-9)).last()?;
        let above_low = |mark: &f64| *mark >= largest * (1.0 - 1e-9) && *mark > low * 1.5;
        let high = marks_around(largest).find(above_low)?;
        Some(Self::Log { low, high })
    }

    /// Returns the position of `value`, from 0 at the lower end to 1 at the upper end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let place = match *self {
            Self::Linear { top } => value / top,
            Self::Log { low, high } => (value / low).ln() / (high / low).ln(),
        };
        // Values up to zero have no logarithm and are placed at the lower end.
        if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }

    /// Returns round figures in ascending order, few enough to be labelled side by side.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        match *self {
            Self::Linear { top } => {
                let Some(step) =
                    marks_around(top / INTERVALS).find(|mark| *mark >= top / INTERVALS)
                else {
                    return vec![0.0];
                };
                let count = (top / step * (1.0 + 1e-9)).floor() as usize;
                (0..=count).map(|index| index as f64 * step).collect()
            }
            Self::Log { low, high } => {
                let decades = (high / low).log10();
                let marks =
                    || (0..).map(|nth| nth_mark(low, nth)).take_while(|m| *m <= high * 1.0001);
                let marks = marks().filter(|mark| *mark >= low * 0.9999);
                if decades <= 1.75 {
                    return marks.collect();
                }
                let every = if decades <= 6.0 { 1 } else { 2 };
                marks
                    .filter(|mark| is_power_of_ten(*mark))
                    .filter(|mark| (mark.log10().round() as i64).rem_euclid(every) == 0)
                    .collect()
            }
        }
    }
}

fn positive(values: impl IntoIterator<Item = f64>) -> impl Iterator<Item = f64> {
    values.into_iter().filter(|value| value.is_finite() && *value > 0.0)
}

/// Returns the 1-2-5 marks from the decade below `value` to the decade after the next.
fn marks_around(value: f64) -> impl Iterator<Item = f64> {
    (0..12).map(move |nth| nth_mark(value / 10.0, nth))
}

/// Returns the `nth` 1-2-5 mark, counted from the start of the decade that holds `from`.
fn nth_mark(from: f64, nth: usize) -> f64 {
    let decade = from.log10().floor() as i32 + (nth / STEPS.len()) as i32;
    STEPS[nth % STEPS.len()] * 10f64.powi(decade)
}

fn is_power_of_ten(mark: f64) -> bool {
    let exponent = mark.log10();
    (exponent - exponent.round()).abs() < 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(actual: &[f64], wanted: &[f64]) {
        let same = actual.len() == wanted.len()
            && actual.iter().zip(wanted).all(|(a, w)| (a - w).abs() <= w.abs() * 1e-9);
        assert!(same, "{actual:?} is not {wanted:?}");
    }

    #[test]
    fn a_linear_axis_starts_at_zero_and_has_round_ticks() {
        let scale = Scale::linear([3.4e6, 4.3e6, f64::NAN, f64::INFINITY, -7.0]).unwrap();
        assert_eq!(scale, Scale::Linear { top: 4.3e6 });
        near(&scale.ticks(), &[0.0, 1e6, 2e6, 3e6, 4e6]);
        assert_eq!([scale.place(0.0), scale.place(2.15e6), scale.place(9e9)], [0.0, 0.5, 1.0]);
        near(&Scale::linear([0.4]).unwrap().ticks(), &[0.0, 0.1, 0.2, 0.3, 0.4]);
    }

    #[test]
    fn a_log_axis_widens_to_round_figures() {
        let scale = Scale::log([130.0, 0.0, 900.0]).unwrap();
        assert_eq!(scale, Scale::Log { low: 100.0, high: 1000.0 });
        near(&scale.ticks(), &[100.0, 200.0, 500.0, 1000.0]);
        assert_eq!((scale.place(0.0), scale.place(100.0), scale.place(1000.0)), (0.0, 0.0, 1.0));
        assert!((scale.place(316.227_766) - 0.5).abs() < 1e-6);
        near(&Scale::log([0.6, 3.1]).unwrap().ticks(), &[0.5, 1.0, 2.0, 5.0]);
    }

    #[test]
    fn a_wide_log_axis_labels_powers_of_ten() {
        near(&Scale::log([30.0, 40_000.0]).unwrap().ticks(), &[100.0, 1e3, 1e4]);
        near(&Scale::log([1.0, 1e8]).unwrap().ticks(), &[1.0, 1e2, 1e4, 1e6, 1e8]);
    }

    #[test]
    fn one_figure_is_enough_for_an_axis_and_none_is_not() {
        let scale = Scale::log([100.0, 100.0]).unwrap();
        assert_eq!(scale, Scale::Log { low: 100.0, high: 200.0 });
        assert_eq!(Scale::log([0.0, f64::NAN]), None);
        assert_eq!(Scale::linear([]), None);
    }

    #[test]
    fn every_axis_has_between_two_and_eight_ticks_that_lie_on_it() {
        for exponent in -30..60 {
            let from = 1.37f64.powi(exponent);
            for factor in [1.0, 1.5, 3.0, 10.0, 40.0, 1e3, 1e6, 1e9] {
                for scale in [Scale::linear([from * factor]), Scale::log([from, from * factor])] {
                    let scale = scale.unwrap();
                    let ticks = scale.ticks();
                    assert!((2..=8).contains(&ticks.len()), "{scale:?} has {ticks:?}");
                    let places: Vec<f64> = ticks.iter().map(|tick| scale.place(*tick)).collect();
                    assert!(places.is_sorted_by(|a, b| a < b), "{scale:?} places {places:?}");
                }
            }
        }
    }
}
