//! A benchmark in parts: each combination by itself, where none finds a machine as another one left it.

use coreshard_results::{QueueMeasurement, QueueResults, WakeRatio};

use super::{QueueBench, notes, order};
use crate::error::BenchError;
use crate::machine::BenchMachine;

impl QueueBench {
    /// The benchmark of each combination alone, in the order in which they are reported. What these find,
    /// [`join`](Self::join) makes the results of the whole.
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
    /// Where a comparison has no variant.
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

    /// The results of the whole, of what its [parts](Self::parts) found on `machine`, in their order. Ratios are of
    /// medians, with the farthest that runs of one and of the other are apart.
    ///
    /// # Errors
    /// Where a comparison has no variant, or the machine no CPU of a pod.
    ///
    /// # Panics
    /// If there is not one for each part.
    pub fn join(
        &self,
        machine: &BenchMachine,
        parts: &[QueueResults],
    ) -> Result<QueueResults, BenchError> {
        let combinations = order::combinations(&self.scopes, &self.wakes, &self.intakes)?;
        assert_eq!(combinations.len(), parts.len(), "there is one for each combination");
        let layouts = self.layouts(machine, &combinations)?;
        let slots = self.slots(machine);
        // One that was ended before its first run has none.
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
