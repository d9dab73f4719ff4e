//! Numbers of threads to try, and where more of them stop helping.

/// A point is at the top if its throughput is at least this share of the highest.
const TOP: f64 = 0.95;

/// Returns the numbers of threads of a sweep: powers of two, the numbers halfway between them, and the most.
///
/// ```
/// use coreshard_sim::contend::thread_counts;
///
/// assert_eq!(thread_counts(72), [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 72]);
/// ```
#[must_use]
pub fn thread_counts(most: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(1), |power: &usize| power.checked_mul(2));
    let mut counts: Vec<usize> = powers
        .take_while(|power| *power < most)
        .flat_map(|power| [power, power + power / 2])
        .filter(|threads| *threads < most)
        .chain([most])
        .collect();
    counts.dedup();
    counts
}

/// Returns the index of the turning point of a curve of throughputs: the first point within 5 % of the highest.
///
/// Returns `None` if that is the last point, so that more threads may still help.
///
/// ```
/// use coreshard_sim::contend::turning_point;
///
/// assert_eq!(turning_point(&[1.0, 1.9, 2.5, 2.6, 2.0]), Some(2));
/// assert_eq!(turning_point(&[1.0, 2.0, 4.0]), None);
/// ```
#[must_use]
pub fn turning_point(per_sec: &[f64]) -> Option<usize> {
    let highest = per_sec.iter().copied().fold(0.0, f64::max);
    let first = per_sec.iter().position(|it| *it >= TOP * highest)?;
    (first + 1 < per_sec.len()).then_some(first)
}
