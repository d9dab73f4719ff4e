//! The sums of the runs of one combination.

use coreshard_results::{QueueMeasurement, WakeRatio};
use coreshard_workqueue::PoolStats;

use super::order::Combination;
use super::producer::Findings;
use crate::spread::Spread;

/// How long pools held their locks in a run that measured it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockHold {
    pub(super) ns_per_item: f64,
    pub(super) max_ns: u64,
}

/// One run, measured.
pub(super) struct MeasuredRun {
    pub(super) findings: Findings,
    pub(super) elapsed_ns: u64,
    pub(super) items: u64,
    /// The statistics of all pools together, before the run and after it.
    pub(super) pools: [PoolStats; 2],
}

impl MeasuredRun {
    pub(super) fn lock_hold(&self) -> LockHold {
        let [before, after] = &self.pools;
        LockHold {
            ns_per_item: (after.lock_hold_ns - before.lock_hold_ns) as f64 / self.items as f64,
            max_ns: after.lock_hold_max_ns,
        }
    }
}

/// The runs of one combination.
pub(super) struct Tally {
    pub(super) combination: Combination,
    /// By run; `None` for runs that were skipped.
    items_per_sec: Vec<Option<f64>>,
    samples: Findings,
    items: u64,
    wakeups: u64,
    lock_hold: Option<LockHold>,
}

impl Tally {
    pub(super) fn new(combination: Combination, runs: usize) -> Self {
        Self {
            combination,
            items_per_sec: vec![None; runs],
            samples: Findings::new(),
            items: 0,
            wakeups: 0,
            lock_hold: None,
        }
    }

    pub(super) fn add(&mut self, run: usize, measured: &MeasuredRun) {
        let elapsed_ns = measured.elapsed_ns.max(1) as f64;
        self.items_per_sec[run] = Some(measured.items as f64 * 1e9 / elapsed_ns);
        let add = "resizable histograms with equal digits can be added";
        self.samples.calls_ns.add(&measured.findings.calls_ns).expect(add);
        self.samples.end_to_end_ns.add(&measured.findings.end_to_end_ns).expect(add);
        let [before, after] = &measured.pools;
        self.items += measured.items;
        self.wakeups += after.wakeups - before.wakeups;
    }

    pub(super) fn set_lock_hold(&mut self, lock_hold: LockHold) {
        self.lock_hold = Some(lock_hold);
    }

    /// Returns `None` if no run was made.
    pub(super) fn measurement(
        &self,
        pods: usize,
        same_pods_as: Option<String>,
    ) -> Option<QueueMeasurement> {
        let throughput = Spread::of(self.items_per_sec.iter().flatten().copied())?;
        let call = |percent| self.samples.calls_ns.value_at_quantile(percent / 100.0);
        let whole = |percent| self.samples.end_to_end_ns.value_at_quantile(percent / 100.0);
        Some(QueueMeasurement {
            scope: self.combination.scope.to_string(),
            wake: self.combination.wake.to_string(),
            intake: self.combination.intake.to_string(),
            items_per_sec: throughput.median,
            items_per_sec_min: throughput.min,
            items_per_sec_max: throughput.max,
            p50_ns: call(50.0),
            p90_ns: call(90.0),
            p95_ns: call(95.0),
            p99_ns: call(99.0),
            max_ns: self.samples.calls_ns.max(),
            end_to_end_p50_ns: whole(50.0),
            end_to_end_p99_ns: whole(99.0),
            lock_hold_ns_per_item: self.lock_hold.map(|hold| hold.ns_per_item),
            lock_hold_max_ns: self.lock_hold.map(|hold| hold.max_ns),
            wakeups_per_item: Some(self.wakeups as f64 / self.items as f64),
            pods,
            same_pods_as,
            ..QueueMeasurement::default()
        })
    }

    /// Compares this tally with `other` over the runs that both made. Returns `None` if there is none.
    pub(super) fn ratio_over(&self, other: &Self, contended: bool) -> Option<WakeRatio> {
        let pairs = self.items_per_sec.iter().zip(&other.items_per_sec);
        let ratios = Spread::of(pairs.filter_map(|(own, its)| Some((*own)? / (*its)?)))?;
        let holds = self.lock_hold.zip(other.lock_hold);
        Some(WakeRatio {
            scope: self.combination.scope.to_string(),
            intake: self.combination.intake.to_string(),
            wake: self.combination.wake.to_string(),
            over: other.combination.wake.to_string(),
            contended,
            items_per_sec_ratio: ratios.median,
            items_per_sec_ratio_min: ratios.min,
            items_per_sec_ratio_max: ratios.max,
            lock_hold_ratio: holds
                .filter(|(_, its)| its.ns_per_item > 0.0)
                .map(|(own, its)| own.ns_per_item / its.ns_per_item),
            ..WakeRatio::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_runs_that_both_made() {
        let mut new = Tally::new(Combination::default(), 4);
        let mut old = Tally::new(Combination::default(), 4);
        // The third run was ten times slower for both: it must not widen the range.
        new.items_per_sec = vec![Some(110.0), Some(120.0), Some(13.0), None];
        old.items_per_sec = vec![Some(100.0), Some(100.0), Some(10.0), Some(1.0)];
        new.lock_hold = Some(LockHold { ns_per_item: 50.0, max_ns: 1 });
        old.lock_hold = Some(LockHold { ns_per_item: 200.0, max_ns: 1 });
        let ratio = new.ratio_over(&old, true).unwrap();
        assert_eq!(ratio.items_per_sec_ratio_min, 1.1);
        assert_eq!(ratio.items_per_sec_ratio, 1.2);
        assert_eq!(ratio.items_per_sec_ratio_max, 1.3);
        assert_eq!(ratio.lock_hold_ratio, Some(0.25));
        old.items_per_sec = vec![None; 4];
        assert_eq!(new.ratio_over(&old, true), None);
    }
}
