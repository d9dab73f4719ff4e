//! What the rounds of a calibration add up to.

use std::collections::BTreeMap;

use coreshard_results::{Calibration, Contended};
use coreshard_topology::CpuId;

use crate::spread::figure;

/// What was measured in each round, in nanoseconds.
#[derive(Default)]
pub(super) struct Samples {
    pub(super) load: Vec<f64>,
    pub(super) atomic: Vec<f64>,
    pub(super) spin_hint: Vec<f64>,
    pub(super) clock_read: Vec<f64>,
    pub(super) memory: Vec<f64>,
    /// By threads, then in the order of [`Operation::ALL`](super::pairs::Operation::ALL).
    pub(super) contended: BTreeMap<usize, [Vec<f64>; 4]>,
    pub(super) wake_nobody: Vec<f64>,
    pub(super) wait_refused: Vec<f64>,
    pub(super) wake_here: Vec<f64>,
    pub(super) wake_there: Vec<f64>,
    pub(super) woken_after_brief_rest: Vec<f64>,
    pub(super) woken_after_short_rest: Vec<f64>,
    pub(super) woken_after_long_rest: Vec<f64>,
    pub(super) context_switch: Vec<f64>,
    pub(super) spawn: Vec<f64>,
    pub(super) slice: Vec<f64>,
}

impl Samples {
    pub(super) fn calibration(
        self,
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
            wake_nobody: figure(self.wake_nobody),
            wait_refused: figure(self.wait_refused),
            wake_here: figure(self.wake_here),
            wake_there: some(self.wake_there),
            woken_after_brief_rest: some(self.woken_after_brief_rest),
            woken_after_short_rest: some(self.woken_after_short_rest),
            woken_after_long_rest: some(self.woken_after_long_rest),
            context_switch: figure(self.context_switch),
            spawn: figure(self.spawn),
            slice: some(self.slice),
        }
    }
}

/// What contended, by the number of threads.
pub(super) fn curves(of: BTreeMap<usize, [Vec<f64>; 4]>) -> Vec<Contended> {
    let each = of.into_iter().map(|(threads, samples)| {
        let [add, compare_exchange, ticket_lock, mutex] = samples.map(figure);
        Contended { threads, add, compare_exchange, ticket_lock, mutex }
    });
    each.collect()
}
