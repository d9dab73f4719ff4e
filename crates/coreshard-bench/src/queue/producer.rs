//! A producer: queues items from its CPU and measures the time.

use std::sync::Arc;

use coreshard_platform::{Lock, Platform, Time, fields};
use coreshard_topology::CpuId;
use coreshard_workqueue::Workqueue;
use hdrhistogram::Histogram;

use super::producer_state::{ProducerState, Waiter};
use crate::crew::Gate;

/// Samples that a producer collects before it adds them to the run's. Adding takes about as long as queueing,
/// so it is done rarely, not between two items.
const KEPT_SAMPLES: usize = 16_384;

/// Three significant digits: one part in a thousand is less than the difference of any two runs.
const DIGITS: u8 = 3;

/// In a flood, one item in this many is timed, since reading the clock takes about as long as queueing an
/// item.
pub(super) const FLOOD_SAMPLED_EVERY: u64 = 64;

/// The CPU of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProducerSlot {
    /// The platform's CPU that it is pinned to.
    pub(super) pinned_to: CpuId,
    /// The CPU of a virtual topology that it represents.
    pub(super) stands_for: Option<CpuId>,
}

/// The measurements of all producers of a run.
pub(super) struct Findings {
    /// The queueing call alone.
    pub(super) calls_ns: Histogram<u64>,
    /// From before the call until the item ran.
    pub(super) end_to_end_ns: Histogram<u64>,
    /// When the last item was known to have run.
    pub(super) ended_at: Time,
}
fields!(Findings { calls_ns, end_to_end_ns, ended_at });

impl Findings {
    pub(super) fn new() -> Self {
        let histogram =
            || Histogram::new(DIGITS).expect("a histogram may have 0 to 5 significant digits");
        Self { calls_ns: histogram(), end_to_end_ns: histogram(), ended_at: Time::default() }
    }
}

fn record(histogram: &mut Histogram<u64>, ns: u64) {
    histogram.record(ns).expect("a resizable histogram accepts any value");
}

/// State that the threads of one run share.
pub(super) struct QueueRun<P: Platform> {
    pub(super) queue: Workqueue<P>,
    /// In a flood, how many items of a producer may be in flight. Otherwise each producer waits for each
    /// item.
    pub(super) outstanding: Option<u64>,
    pub(super) warm_up_items: u64,
    pub(super) items: u64,
    pub(super) findings: Lock<P, Findings>,
}
fields!(QueueRun<P: Platform> { queue, outstanding, warm_up_items, items, findings });

struct Sample {
    call_ns: u64,
    end_to_end_ns: u64,
}

pub(super) struct Producer<P: Platform> {
    run: Arc<QueueRun<P>>,
    state: &'static ProducerState<P>,
    stands_for: Option<CpuId>,
    waiter: Waiter<P>,
    kept: Vec<Sample>,
}

impl<P: Platform> Producer<P> {
    pub(super) fn new(
        run: Arc<QueueRun<P>>,
        state: &'static ProducerState<P>,
        slot: ProducerSlot,
        watches: bool,
    ) -> Self {
        let kept = Vec::with_capacity(KEPT_SAMPLES.min(run.items as usize));
        Self { run, state, stands_for: slot.stands_for, waiter: Waiter::new(state, watches), kept }
    }

    /// Warms up, waits for the gate, and runs the measurement.
    pub(super) fn run(mut self, gate: &Gate<P>) {
        self.produce(self.run.warm_up_items);
        self.kept.clear();
        if !gate.pass() {
            return;
        }
        let ended_at = self.produce(self.run.items);
        // From now on it gathers samples.
        P::measured(false);
        self.hand_over(Some(ended_at));
        gate.leave();
    }

    /// Queues `items`, and returns when the last of them ran.
    fn produce(&mut self, items: u64) -> Time {
        match self.run.outstanding {
            None => self.produce_closed(items),
            Some(outstanding) => self.produce_flood(items, outstanding),
        }
    }

    #[inline(always)]
    fn queue(&self, work: impl FnOnce() + Send + 'static) {
        let refused = match self.stands_for {
            None => self.run.queue.queue(work).is_err(),
            Some(cpu) => self.run.queue.queue_on(cpu, work).is_err(),
        };
        assert!(!refused, "the queue is open, and serves all CPUs that producers run on");
    }

    fn produce_closed(&mut self, items: u64) -> Time {
        let state = self.state;
        for _ in 0..items {
            let before = P::now();
            self.queue(move || state.run_awaited());
            let after = P::now();
            let ran_at = self.waiter.wait_for_item();
            self.keep(Sample {
                call_ns: after.ns_since(before),
                end_to_end_ns: ran_at.ns_since(before),
            });
        }
        P::now()
    }

    fn produce_flood(&mut self, items: u64, outstanding: u64) -> Time {
        let state = self.state;
        let first = state.ran();
        let mut known_to_have_run = 0;
        let mut calls_ns = Vec::with_capacity(state.flood_samples());
        for item in 0..items {
            if item - known_to_have_run >= outstanding {
                // Only here, so that a producer below its limit never checks. It waits for half of the items,
                // so that one that is always at its limit does not sleep and wake for each item.
                self.waiter.wait_for(first + item - outstanding / 2);
                known_to_have_run = state.ran() - first;
            }
            if item.is_multiple_of(FLOOD_SAMPLED_EVERY) && calls_ns.len() < state.flood_samples() {
                let sample = calls_ns.len();
                let before = P::now();
                self.queue(move || state.run_sampled(sample, before));
                calls_ns.push(P::now().ns_since(before));
            } else {
                self.queue(move || state.run_in_flood());
            }
        }
        self.waiter.wait_for(first + items);
        let ended_at = P::now();
        for (sample, call_ns) in calls_ns.into_iter().enumerate() {
            self.keep(Sample { call_ns, end_to_end_ns: state.flood_sample_ns(sample) });
        }
        ended_at
    }

    #[inline]
    fn keep(&mut self, sample: Sample) {
        if self.kept.len() == KEPT_SAMPLES {
            self.hand_over(None);
        }
        self.kept.push(sample);
    }

    fn hand_over(&mut self, ended_at: Option<Time>) {
        let mut findings = self.run.findings.lock();
        for sample in self.kept.drain(..) {
            record(&mut findings.calls_ns, sample.call_ns);
            record(&mut findings.end_to_end_ns, sample.end_to_end_ns);
        }
        if let Some(ended_at) = ended_at {
            findings.ended_at = findings.ended_at.max(ended_at);
        }
    }
}
