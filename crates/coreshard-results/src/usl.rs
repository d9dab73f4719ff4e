//! The universal scalability law, fitted to a curve.
//!
//! Neil Gunther's law ("Guerrilla Capacity Planning", 2007): the throughput of N CPUs is X(N) = λN / (1 + σ(N − 1) +
//! κN(N − 1)). λ is the throughput of one CPU. σ is the serial share of the work (contention, as in Amdahl's law). κ is
//! the cost of coherence between CPUs, and makes the curve fall again.

use serde::{Deserialize, Serialize};

/// The parameters of the law for one curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usl {
    /// λ: throughput of one CPU, in items per second.
    pub lambda: f64,
    /// σ: the serial share; 0 for a straight line.
    pub sigma: f64,
    /// κ: the cost of coherence between two CPUs.
    pub kappa: f64,
    /// Deviation from the fit: root mean square of the relative distances.
    pub error: f64,
}

impl Usl {
    /// Fits the law to points (CPUs, throughput). Returns `None` with fewer than three numbers of CPUs, or if a
    /// throughput is not above 0.
    ///
    /// N / X(N) is linear in 1/λ, σ/λ and κ/λ, so this is a linear least squares problem, weighted by relative
    /// distance. None of the three may be negative.
    #[must_use]
    pub fn fit(points: &[(usize, f64)]) -> Option<Self> {
        let mut counts: Vec<usize> = points.iter().map(|(cpus, _)| *cpus).collect();
        counts.sort_unstable();
        counts.dedup();
        let usable = |(cpus, throughput): &(usize, f64)| {
            *cpus > 0 && throughput.is_finite() && *throughput > 0.0
        };
        if counts.len() < 3 || !points.iter().all(usable) {
            return None;
        }
        // Coefficients of 1/λ, σ/λ and κ/λ for a sum of 1.
        let rows: Vec<[f64; 3]> = points
            .iter()
            .map(|(cpus, throughput)| {
                let (n, weight) = (*cpus as f64, throughput / *cpus as f64);
                [weight, weight * (n - 1.0), weight * n * (n - 1.0)]
            })
            .collect();
        let residual = |found: &[f64; 3]| -> f64 {
            rows.iter().map(|row| (dot(row, found) - 1.0).powi(2)).sum()
        };
        // Try all subsets of σ and κ, and take the best one without negative values.
        let choices: [&[usize]; 4] = [&[0, 1, 2], &[0, 1], &[0, 2], &[0]];
        let found = choices
            .into_iter()
            .filter_map(|free| solve(&rows, free))
            .filter(|found| found[0] > 0.0 && found.iter().all(|part| *part >= 0.0))
            .min_by(|a, b| residual(a).total_cmp(&residual(b)))?;
        let lambda = 1.0 / found[0];
        let mut fit =
            Self { lambda, sigma: found[1] * lambda, kappa: found[2] * lambda, error: 0.0 };
        let squares: f64 = points
            .iter()
            .map(|(cpus, throughput)| (fit.throughput(*cpus as f64) / throughput - 1.0).powi(2))
            .sum();
        fit.error = (squares / points.len() as f64).sqrt();
        Some(fit)
    }

    /// Returns X(N).
    #[must_use]
    pub fn throughput(&self, cpus: f64) -> f64 {
        let others = cpus - 1.0;
        self.lambda * cpus / (1.0 + self.sigma * others + self.kappa * cpus * others)
    }

    /// Returns the number of CPUs with the highest throughput; `None` if it always grows.
    #[must_use]
    pub fn peak_cpus(&self) -> Option<f64> {
        if self.sigma >= 1.0 {
            // It falls from the first CPU on.
            return Some(1.0);
        }
        (self.kappa > 0.0).then(|| ((1.0 - self.sigma).max(0.0) / self.kappa).sqrt().max(1.0))
    }
}

fn dot(a: &[f64; 3], b: &[f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Solves the least squares over the unknowns in `free` (at most three) with the normal equations. The others are 0.
fn solve(rows: &[[f64; 3]], free: &[usize]) -> Option<[f64; 3]> {
    let size = free.len();
    // Scale the equations to be well conditioned for all units.
    let scale: Vec<f64> = free
        .iter()
        .map(|at| rows.iter().map(|row| row[*at] * row[*at]).sum::<f64>().sqrt())
        .collect();
    if scale.iter().any(|scale| *scale <= 0.0) {
        return None;
    }
    let mut system = vec![vec![0.0; size + 1]; size];
    for row in rows {
        for (i, at) in free.iter().enumerate() {
            for (j, other) in free.iter().enumerate() {
                system[i][j] += row[*at] / scale[i] * row[*other] / scale[j];
            }
            system[i][size] += row[*at] / scale[i];
        }
    }
    for column in 0..size {
        let pivot = (column..size)
            .max_by(|a, b| system[*a][column].abs().total_cmp(&system[*b][column].abs()))?;
        system.swap(column, pivot);
        if system[column][column].abs() < 1e-12 {
            return None;
        }
        for row in 0..size {
            if row != column {
                let factor = system[row][column] / system[column][column];
                let pivot_row = system[column].clone();
                for (cell, pivot) in system[row].iter_mut().zip(&pivot_row) {
                    *cell -= factor * pivot;
                }
            }
        }
    }
    let mut found = [0.0; 3];
    for (i, at) in free.iter().enumerate() {
        found[*at] = system[i][size] / system[i][i] / scale[i];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(law: Usl) -> Vec<(usize, f64)> {
        [1, 2, 4, 8, 16, 32, 72].map(|cpus| (cpus, law.throughput(cpus as f64))).to_vec()
    }

    #[test]
    fn the_law_that_made_the_points_is_found() {
        for (sigma, kappa) in [(0.05, 0.0002), (0.3, 0.01), (0.0, 0.0), (0.2, 0.0), (0.0, 0.003)] {
            let law = Usl { lambda: 1e6, sigma, kappa, error: 0.0 };
            let fit = Usl::fit(&points(law)).unwrap();
            assert!((fit.lambda / 1e6 - 1.0).abs() < 1e-6, "{fit:?}");
            assert!(
                (fit.sigma - sigma).abs() < 1e-6 && (fit.kappa - kappa).abs() < 1e-8,
                "{fit:?}"
            );
            assert!(fit.error < 1e-6);
        }
    }

    #[test]
    fn no_part_is_negative_and_the_error_says_how_well_it_fits() {
        // Superlinear scaling, which the law does not describe.
        let superlinear = Usl::fit(&[(1, 1.0), (2, 2.4), (4, 5.6), (8, 12.0)]).unwrap();
        assert_eq!((superlinear.sigma, superlinear.kappa), (0.0, 0.0));
        assert!(superlinear.error > 0.1 && superlinear.lambda > 1.0, "{superlinear:?}");
    }

    #[test]
    fn the_peak_is_where_the_curve_turns() {
        let law = Usl { lambda: 1.0, sigma: 0.1, kappa: 0.01, error: 0.0 };
        let peak = law.peak_cpus().unwrap();
        assert!(law.throughput(peak) > law.throughput(peak - 0.1));
        assert!(law.throughput(peak) > law.throughput(peak + 0.1));
        assert_eq!(Usl { kappa: 0.0, ..law }.peak_cpus(), None);
        let falls = Usl { sigma: 1.3, kappa: 0.0, ..law };
        assert!(falls.throughput(2.0) < falls.throughput(1.0));
        assert_eq!(falls.peak_cpus(), Some(1.0));
    }

    #[test]
    fn too_few_points_or_none_above_zero_have_no_fit() {
        assert_eq!(Usl::fit(&[(1, 1.0), (2, 2.0), (2, 2.1)]), None);
        assert_eq!(Usl::fit(&[(1, 1.0), (2, 2.0), (4, 0.0)]), None);
        assert_eq!(Usl::fit(&[(1, 1.0), (2, f64::NAN), (4, 3.0)]), None);
    }
}
