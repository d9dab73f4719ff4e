//! Splits a benchmark into one for each combination, or one for each number of CPUs, and joins their results.

use std::num::NonZeroUsize;

use coreshard_platform::Platform;
use coreshard_results::{
    QueueMeasurement, QueueResults, ScalingCurve, ScalingPoint, Usl, WakeRatio,
};
use coreshard_topology::CpuSet;

use super::{QueueBench, notes, order};
use crate::error::BenchError;
use crate::machine::BenchMachine;
use crate::progress::Progress;

impl QueueBench {
    /// Returns the benchmark of each combination alone, in the order of reports.
    ///
    /// [`join`](Self::join) combines their results.
    ///
    /// ```
    /// use coreshard_bench::QueueBench;
    ///
    /// let whole = QueueBench::default();
    /// let parts = whole.parts()?;
    /// assert_eq!(parts.len(), whole.scopes.len() * whole.wakes.len() * whole.intakes.len());
    /// assert_eq!(parts[0].scopes.len(), 1);
    /// # Ok::<(), coreshard_bench::BenchError>(())
    /// ```
    ///
    /// # Errors
    /// If a comparison has no variant.
    pub fn parts(&self) -> Result<Vec<Self>, BenchError> {
        let combinations = order::combinations(&self.scopes, &self.wakes, &self.intakes)?;
        let part = |combination: order::Combination| Self {
            scopes: vec![combination.scope],
            wakes: vec![combination.wake],
            intakes: vec![combination.intake],
            ..self.clone()
        };
        Ok(combinations.into_iter().map(part).collect())
    }

    /// Combines the results of its [parts](Self::parts) on `machine`, in their order.
    ///
    /// Ratios are ratios of medians, with the widest range that the runs of both permit.
    ///
    /// # Errors
    /// If a comparison has no variant, or if the machine has no CPU of a pod.
    ///
    /// # Panics
    /// If there is not one result for each part.
    pub fn join(
        &self,
        machine: &BenchMachine,
        parts: &[QueueResults],
    ) -> Result<QueueResults, BenchError> {
        let combinations = order::combinations(&self.scopes, &self.wakes, &self.intakes)?;
        assert_eq!(combinations.len(), parts.len(), "there is one for each combination");
        let layouts = self.layouts(machine, &combinations)?;
        let slots = self.slots(machine);
        // A part that was ended before its first run has no measurement.
        let measurements: Vec<Option<QueueMeasurement>> = combinations
            .iter()
            .zip(parts)
            .map(|(combination, part)| {
                let same_pods_as = layouts.of(combination.scope).same_as.clone();
                Some(QueueMeasurement { same_pods_as, ..part.results.first()?.clone() })
            })
            .collect();
        let wake_ratios: Vec<WakeRatio> = order::baselines(&combinations)
            .filter_map(|(new, old)| {
                let contended = layouts.of(combinations[new].scope).is_contended(&slots);
                Some(ratio(measurements[new].as_ref()?, measurements[old].as_ref()?, contended))
            })
            .collect();
        let mut joined = parts[0].clone();
        joined.notes.retain(|note| !notes::is_of_early_end(note));
        joined.notes.extend(layouts.collapsed());
        joined.notes.extend(notes::wake_ratios(&wake_ratios));
        let whole = parts.iter().filter(|part| !notes::was_ended_early(part)).count();
        joined.notes.extend(notes::early_end(whole, parts.len(), "combinations were measured"));
        joined.results = measurements.into_iter().flatten().collect();
        joined.wake_ratios = wake_ratios;
        Ok(joined)
    }

    /// Runs the benchmark on the machine's first CPUs, in numerical order, with a producer on each: once for
    /// each number in `counts`.
    ///
    /// The results are for the largest number, with a curve for each combination over all numbers.
    ///
    /// If `progress` ends it, the curves contain the measurements so far.
    ///
    /// # Errors
    /// As [`run`](Self::run), and if `counts` is empty, or a number in it is 0 or more than there are CPUs.
    pub fn run_scaling<P: Platform>(
        &self,
        machine: &BenchMachine,
        counts: &[usize],
        progress: &mut dyn Progress,
    ) -> Result<QueueResults, BenchError> {
        let mut all = Vec::new();
        for (bench, machine) in self.on_first_cpus(machine, counts)? {
            let results = bench.run::<P>(&machine, progress)?;
            let is_last = notes::was_ended_early(&results);
            all.push(results);
            if is_last {
                break;
            }
        }
        Ok(with_curves(all).expect("there is a number of CPUs"))
    }

    /// Returns for each number in `counts`, in rising order, the benchmark with a producer on each of the
    /// machine's first CPUs, and a machine of those CPUs.
    ///
    /// [`with_curves`] combines their results.
    ///
    /// # Errors
    /// If `counts` is empty, or if a number in it is 0 or more than there are CPUs.
    pub fn on_first_cpus(
        &self,
        machine: &BenchMachine,
        counts: &[usize],
    ) -> Result<Vec<(Self, BenchMachine)>, BenchError> {
        let mut counts = counts.to_vec();
        counts.sort_unstable();
        counts.dedup();
        if counts.is_empty() {
            return Err(BenchError::no_variants("number of CPUs"));
        }
        let most = machine.usable.len();
        if let Some(wrong) = counts.iter().find(|count| **count == 0 || **count > most) {
            return Err(BenchError::cpu_count(*wrong, most));
        }
        let on_first = |count| {
            let usable = machine.usable.iter().take(count).collect::<CpuSet>();
            let bench = Self { threads: NonZeroUsize::new(count), ..self.clone() };
            (bench, BenchMachine { usable, ..machine.clone() })
        };
        Ok(counts.into_iter().map(on_first).collect())
    }
}

/// Combines results on rising numbers of CPUs, with a producer on each: the results for the last measured number, with
/// a curve for each combination over all.
///
/// Returns `None` if there are no results.
///
/// ```
/// use coreshard_bench::with_curves;
/// use coreshard_results::{QueueMeasurement, QueueResults};
///
/// let with = |threads, items_per_sec| QueueResults {
///     threads,
///     results: vec![QueueMeasurement { items_per_sec, ..QueueMeasurement::default() }],
///     ..QueueResults::default()
/// };
/// let scaled = with_curves(vec![with(1, 100.0), with(2, 180.0)]).expect("two numbers of CPUs");
/// assert_eq!((scaled.threads, scaled.curves[0].points[1].items_per_sec), (2, 180.0));
/// ```
#[must_use]
pub fn with_curves(all: Vec<QueueResults>) -> Option<QueueResults> {
    let mut curves: Vec<ScalingCurve> = Vec::new();
    for results in &all {
        for measurement in &results.results {
            let is_its = |curve: &&mut ScalingCurve| {
                (&curve.scope, &curve.wake, &curve.intake)
                    == (&measurement.scope, &measurement.wake, &measurement.intake)
            };
            let point = point(results.threads, measurement);
            match curves.iter_mut().find(is_its) {
                Some(curve) => curve.points.push(point),
                None => curves.push(ScalingCurve {
                    scope: measurement.scope.clone(),
                    wake: measurement.wake.clone(),
                    intake: measurement.intake.clone(),
                    points: vec![point],
                    usl: None,
                }),
            }
        }
    }
    for curve in &mut curves {
        let points: Vec<(usize, f64)> =
            curve.points.iter().map(|point| (point.cpus, point.items_per_sec)).collect();
        curve.usl = Usl::fit(&points);
    }
    let was_ended = all.iter().find(|results| notes::was_ended_early(results)).cloned();
    let last = all.iter().rposition(|results| !results.results.is_empty());
    let mut results = all.into_iter().nth(last.unwrap_or(0))?;
    // It may belong to a larger number of CPUs without measurements.
    if let Some(ended) = was_ended.filter(|_| !notes::was_ended_early(&results)) {
        results.notes.extend(ended.notes.into_iter().filter(|it| notes::is_of_early_end(it)));
    }
    results.curves = curves;
    Some(results)
}

fn point(cpus: usize, measurement: &QueueMeasurement) -> ScalingPoint {
    ScalingPoint {
        cpus,
        items_per_sec: measurement.items_per_sec,
        items_per_sec_min: measurement.items_per_sec_min,
        items_per_sec_max: measurement.items_per_sec_max,
        p50_ns: measurement.p50_ns,
        end_to_end_p99_ns: measurement.end_to_end_p99_ns,
        ..ScalingPoint::default()
    }
}

fn ratio(new: &QueueMeasurement, old: &QueueMeasurement, contended: bool) -> WakeRatio {
    let holds = new.lock_hold_ns_per_item.zip(old.lock_hold_ns_per_item);
    WakeRatio {
        scope: new.scope.clone(),
        intake: new.intake.clone(),
        wake: new.wake.clone(),
        over: old.wake.clone(),
        contended,
        items_per_sec_ratio: new.items_per_sec / old.items_per_sec,
        items_per_sec_ratio_min: new.items_per_sec_min / old.items_per_sec_max,
        items_per_sec_ratio_max: new.items_per_sec_max / old.items_per_sec_min,
        lock_hold_ratio: holds.filter(|(_, old)| *old > 0.0).map(|(new, old)| new / old),
        ..WakeRatio::default()
    }
}
