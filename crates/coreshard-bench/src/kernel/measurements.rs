//! Runs with several seeds, as medians with quartiles.

use coreshard_results::KernelMeasurement;

use super::{KernelCase, KernelRun};
use crate::spread::Quartiles;

/// Returns the measurements of cases that were run once with each seed, in the same order of seeds.
///
/// Ratios are taken seed by seed, relative to the first case of each setting.
///
/// ```
/// use coreshard_bench::kernel::{KernelBench, KernelProgram, KernelRun, measurements};
///
/// let cases = KernelBench::cases(KernelProgram::Nfs);
/// let runs = [KernelRun { ops_per_sec: 2.0, percentiles_ns: [1, 2, 3] }];
/// assert_eq!(measurements(&[(&cases[0], &runs[..])])[0].ops_per_sec, 2.0);
/// ```
pub fn measurements(runs: &[(&KernelCase, &[KernelRun])]) -> Vec<KernelMeasurement> {
    let first_of = |setting: &str| {
        runs.iter().find(|(case, _)| case.setting == setting).map_or(&[][..], |(_, runs)| runs)
    };
    let measurement = |(case, runs): &(&KernelCase, &[KernelRun])| {
        let each: Vec<f64> = runs.iter().map(|run| run.ops_per_sec).collect();
        let first = first_of(&case.setting);
        let ratios = each.iter().zip(first).map(|(own, its)| own / its.ops_per_sec);
        let over = Quartiles::of(ratios).unwrap_or_default();
        let ops = Quartiles::of(each.iter().copied()).unwrap_or_default();
        let percentile = |which: usize| {
            let all = runs.iter().map(|run| run.percentiles_ns[which] as f64);
            Quartiles::of(all).unwrap_or_default().median as u64
        };
        let is_first = case.variant == KernelCase::BEFORE;
        KernelMeasurement {
            setting: case.setting.clone(),
            variant: case.variant.clone(),
            ops_per_sec: ops.median,
            ops_per_sec_q1: ops.q1,
            ops_per_sec_q3: ops.q3,
            over_first: over.median,
            over_first_q1: over.q1,
            over_first_q3: over.q3,
            differs_by: if is_first { String::new() } else { over.differs_by() },
            p50_ns: percentile(0),
            p90_ns: percentile(1),
            p95_ns: percentile(2),
            each_seed: each,
        }
    };
    runs.iter().map(measurement).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{KernelBench, KernelProgram};

    #[test]
    fn what_differs_by_noise_alone_is_said() {
        let cases = KernelBench::cases(KernelProgram::Nfs);
        let runs = |all: [f64; 3]| {
            all.map(|ops_per_sec| KernelRun { ops_per_sec, percentiles_ns: [1, 2, 3] })
        };
        let (before, same, faster) =
            (runs([1.0, 2.0, 3.0]), runs([1.1, 1.9, 3.1]), runs([2.0, 4.0, 6.0]));
        let found = measurements(&[(&cases[0], &before), (&cases[1], &same)]);
        assert_eq!(found[1].differs_by, "noise alone");
        assert_eq!(
            (found[0].ops_per_sec_q1, found[0].ops_per_sec, found[0].ops_per_sec_q3),
            (1.5, 2.0, 2.5)
        );
        let found = measurements(&[(&cases[0], &before), (&cases[1], &faster)]);
        assert_eq!((found[1].over_first, found[1].differs_by.as_str()), (2.0, ""));
    }
}
