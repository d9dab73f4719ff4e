//! The samples of a calibration's rounds, and their summary.

use std::collections::BTreeMap;

use coreshard_results::{Calibration, Clocks, Contended, Contenders, Fetched, Variation};
use coreshard_topology::CpuId;

use super::interruptions::Interruptions;
use super::measure::RESTS_BETWEEN;
use super::pairs::Operation;
use crate::spread::figure;

/// The measurements of each round, in nanoseconds.
#[derive(Default)]
pub(super) struct Samples {
    pub(super) load: Vec<f64>,
    pub(super) atomic: Vec<f64>,
    pub(super) spin_hint: Vec<f64>,
    pub(super) clock_read: Vec<f64>,
    pub(super) memory: Vec<f64>,
    pub(super) contended: Contests,
    pub(super) clocks: ClockSamples,
    pub(super) wake_nobody: Vec<f64>,
    pub(super) wait_refused: Vec<f64>,
    pub(super) wake_here: Vec<f64>,
    pub(super) wake_busy: Vec<f64>,
    pub(super) wake_there: Vec<f64>,
    pub(super) woken_after_brief_rest: Vec<f64>,
    pub(super) woken_after_rests_between: [Vec<f64>; RESTS_BETWEEN.len()],
    pub(super) woken_after_short_rest: Vec<f64>,
    pub(super) woken_after_long_rest: Vec<f64>,
    pub(super) context_switch: Vec<f64>,
    /// The additional time of a wait with a timeout.
    pub(super) timer: Vec<f64>,
    pub(super) spawn: Vec<f64>,
    pub(super) slice: Vec<f64>,
    pub(super) lines: LineSamples,
    /// The duration of calls relative to the median of their round; then that of wake-ups from idle states.
    call_factors: Vec<f64>,
    exit_factors: Vec<f64>,
    pub(super) interruptions: Vec<Interruptions>,
}

/// By CPUs and their number, then in the order of [`Operation::ALL`].
pub(super) type Contests = BTreeMap<(Contenders, usize), [Vec<f64>; Operation::ALL.len()]>;

/// How long a computation took alone, and the ratios of [`Clocks`].
#[derive(Default)]
pub(super) struct ClockSamples {
    pub(super) alone: Vec<f64>,
    pub(super) cores: Vec<f64>,
    pub(super) siblings: Vec<f64>,
}

/// Lines that another CPU had written, fetched one after the other: time per line.
#[derive(Default)]
pub(super) struct LineSamples {
    pub(super) load: Vec<f64>,
    /// The second line of a pair, after the first had arrived.
    pub(super) load_of_pair: Vec<f64>,
    pub(super) add: Vec<f64>,
    pub(super) load_and_add: Vec<f64>,
    /// Stores to all of them, awaited at the end.
    pub(super) store: Vec<f64>,
}

/// Returns the median of a non-empty slice.
pub(super) fn median(of: &[f64]) -> f64 {
    figure(of.to_vec()).median_ns
}

/// Adds each value relative to the median, and returns the median.
fn note(of: &[f64], factors: &mut Vec<f64>) -> f64 {
    let median = median(of);
    factors.extend(of.iter().map(|ns| ns / median.max(1.0)));
    median
}

/// Returns the value that `percent` per cent of all values do not exceed.
fn at_percent(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

impl Samples {
    /// Records the variation of calls that wake a thread; returns their median.
    pub(super) fn wakeup_calls(&mut self, calls_ns: Vec<f64>) -> f64 {
        note(&calls_ns, &mut self.call_factors)
    }

    /// Records the variation of the time until a woken thread runs; returns its median.
    pub(super) fn wakeups(&mut self, until_they_run_ns: Vec<f64>) -> f64 {
        note(&until_they_run_ns, &mut self.exit_factors)
    }

    fn variation(&mut self) -> Variation {
        let factors = |of: &mut Vec<f64>| {
            of.sort_by(f64::total_cmp);
            let found = (!of.is_empty()).then_some(&*of);
            Variation::AT_PERCENT.map(|percent| found.map_or(1.0, |of| at_percent(of, percent)))
        };
        let all = &self.interruptions;
        let count: u64 = all.iter().map(|it| it.count).sum();
        let watched_ns: f64 = all.iter().map(|it| it.watched_ns).sum();
        let lost_ns: f64 = all.iter().map(|it| it.lost_ns).sum();
        Variation {
            samples: self.call_factors.len(),
            calls: factors(&mut self.call_factors),
            exits: factors(&mut self.exit_factors),
            interruptions: count,
            interrupted_every_ns: if count > 0 { watched_ns / count as f64 } else { 0.0 },
            interrupted_for_ns: if count > 0 { lost_ns / count as f64 } else { 0.0 },
        }
    }

    pub(super) fn calibration(
        mut self,
        cpus: Vec<CpuId>,
        pairs: &[(usize, usize)],
        latency: Vec<Vec<f64>>,
    ) -> Calibration {
        let mut matrix = vec![vec![None; cpus.len()]; cpus.len()];
        for ((one, other), samples) in pairs.iter().zip(latency) {
            let figure = figure(samples);
            matrix[*one][*other] = Some(figure);
            matrix[*other][*one] = Some(figure);
        }
        let variation = self.variation();
        let between = RESTS_BETWEEN.into_iter().zip(self.woken_after_rests_between);
        let woken_after_rests_between = between
            .filter(|(_, samples)| !samples.is_empty())
            .map(|(rest, samples)| (rest.as_nanos() as f64, figure(samples)))
            .collect();
        let some = |samples: Vec<f64>| (!samples.is_empty()).then(|| figure(samples));
        Calibration {
            cpus: cpus.iter().map(|cpu| cpu.0).collect(),
            latency: matrix,
            load: figure(self.load),
            atomic: figure(self.atomic),
            spin_hint: figure(self.spin_hint),
            clock_read: figure(self.clock_read),
            memory: figure(self.memory),
            contended: curves(self.contended),
            clocks: self.clocks.figures(),
            wake_nobody: figure(self.wake_nobody),
            wait_refused: figure(self.wait_refused),
            wake_here: figure(self.wake_here),
            wake_busy: some(self.wake_busy),
            wake_there: some(self.wake_there),
            woken_after_brief_rest: some(self.woken_after_brief_rest),
            woken_after_rests_between,
            woken_after_short_rest: some(self.woken_after_short_rest),
            woken_after_long_rest: some(self.woken_after_long_rest),
            context_switch: figure(self.context_switch),
            timer: some(self.timer),
            spawn: figure(self.spawn),
            slice: some(self.slice),
            fetched: (!self.lines.load.is_empty()).then(|| self.lines.figures()),
            variation: Some(variation),
        }
    }
}

impl LineSamples {
    fn figures(self) -> Fetched {
        Fetched {
            load: figure(self.load),
            load_of_pair: figure(self.load_of_pair),
            add: figure(self.add),
            load_and_add: figure(self.load_and_add),
            store: figure(self.store),
        }
    }
}

impl ClockSamples {
    fn figures(self) -> Option<Clocks> {
        let some = |samples: Vec<f64>| (!samples.is_empty()).then(|| figure(samples));
        let siblings = some(self.siblings);
        Some(Clocks { alone: some(self.alone)?, cores: some(self.cores)?, siblings })
    }
}

/// Returns the contended operations by the CPUs' choice and number.
pub(super) fn curves(of: Contests) -> Vec<Contended> {
    let each = of.into_iter().map(|((contenders, threads), samples)| {
        let [add, swap, compare_exchange, paused_exchange, ticket_lock, mutex] =
            samples.map(figure);
        Contended {
            contenders,
            threads,
            add,
            compare_exchange,
            paused_exchange,
            swap,
            ticket_lock,
            mutex,
        }
    });
    each.collect()
}
