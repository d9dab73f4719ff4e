//! The same benchmark on more and more CPUs.

use std::num::NonZeroUsize;

use coreshard_platform::Platform;
use coreshard_results::{QueueResults, ScalingCurve, ScalingPoint, Usl};
use coreshard_topology::CpuSet;

use super::QueueBench;
use crate::error::BenchError;
use crate::machine::BenchMachine;
use crate::progress::Progress;

impl QueueBench {
    /// Runs the benchmark on the first CPUs of the machine, in the order of their numbers: on as many as
    /// each of `counts` says, with a producer on each. The results are those of the largest count, with a
    /// curve for each combination over all of them.
    ///
    /// Where `progress` ends it, the curves have what was measured until then.
    ///
    /// # Errors
    /// As [`run`](Self::run), and where a count is 0 or more than there are CPUs, or there is none.
    pub fn run_scaling<P: Platform>(
        &self,
        machine: &BenchMachine,
        counts: &[usize],
        progress: &mut dyn Progress,
    ) -> Result<QueueResults, BenchError> {
        let mut counts = counts.to_vec();
        counts.sort_unstable();
        counts.dedup();
        let most = machine.usable.len();
        if let Some(wrong) = counts.iter().find(|count| **count == 0 || **count > most) {
            return Err(BenchError::cpu_count(*wrong, most));
        }
        let mut curves: Vec<ScalingCurve> = Vec::new();
        let mut last = None;
        for count in counts {
            let part = BenchMachine {
                usable: machine.usable.iter().take(count).collect::<CpuSet>(),
                ..machine.clone()
            };
            let bench = Self { threads: NonZeroUsize::new(count), ..self.clone() };
            let results = bench.run::<P>(&part, progress)?;
            let planned = self.scopes.len() * self.wakes.len() * self.intakes.len();
            for cell in &results.results {
                let point = ScalingPoint {
                    cpus: count,
                    items_per_sec: cell.items_per_sec,
                    items_per_sec_min: cell.items_per_sec_min,
                    items_per_sec_max: cell.items_per_sec_max,
                    p50_ns: cell.p50_ns,
                    end_to_end_p99_ns: cell.end_to_end_p99_ns,
                };
                let is_its = |curve: &&mut ScalingCurve| {
                    (&curve.scope, &curve.wake, &curve.intake)
                        == (&cell.scope, &cell.wake, &cell.intake)
                };
                match curves.iter_mut().find(is_its) {
                    Some(curve) => curve.points.push(point),
                    None => curves.push(ScalingCurve {
                        scope: cell.scope.clone(),
                        wake: cell.wake.clone(),
                        intake: cell.intake.clone(),
                        points: vec![point],
                        usl: None,
                    }),
                }
            }
            let ended = results.results.len() < planned
                || results.notes.iter().any(|note| note.starts_with("ended early"));
            last = Some(results);
            if ended {
                break;
            }
        }
        let mut results = last.ok_or_else(|| BenchError::no_rungs("number of CPUs"))?;
        for curve in &mut curves {
            let points: Vec<(usize, f64)> =
                curve.points.iter().map(|point| (point.cpus, point.items_per_sec)).collect();
            curve.usl = Usl::fit(&points);
        }
        results.curves = curves;
        Ok(results)
    }
}
