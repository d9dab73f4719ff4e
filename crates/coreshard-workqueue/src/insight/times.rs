//! How long items wait and run: histograms, one pair per CPU, so that no two CPUs write the same cache line.

use std::fmt;
use std::time::Duration;

use coreshard_platform::{Lock, Padded, Platform, Time};
use hdrhistogram::Histogram;

use super::Sampling;

/// Significant decimal digits of the recorded values: 1 %, and some 10 KiB per histogram.
const DIGITS: u8 = 2;

/// Written by workers on the CPU that a slot belongs to, read for statistics. The lock is uncontended except at such reads, or
/// if a worker is migrated while it holds it.
type CpuTimes<P> = Padded<Lock<P, Option<Box<Recorded>>>>;

pub(crate) struct Times<P: Platform> {
    pub(crate) sampling: Sampling,
    by_cpu: Box<[CpuTimes<P>]>,
}

/// Made by the first worker that records on its CPU, so that it lies on that CPU's node.
struct Recorded {
    delay: Histogram<u64>,
    run: Histogram<u64>,
}

impl Recorded {
    fn new() -> Self {
        Self { delay: empty(), run: empty() }
    }
}

fn empty() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("the number of digits is allowed")
}

fn record(histogram: &mut Histogram<u64>, ns: u64) {
    // It grows to hold any number; if a `usize` has 32 bits, to hold most.
    if histogram.record(ns).is_err() {
        histogram.saturating_record(ns);
    }
}

impl<P: Platform> Times<P> {
    pub(super) fn new(sampling: Sampling, cpus: usize) -> Self {
        Self { sampling, by_cpu: (0..cpus.max(1)).map(|_| Padded::new(Lock::new(None))).collect() }
    }

    /// Records an item that was queued, begun, and finished at these times.
    pub(crate) fn record(&self, queued: Time, begun: Time, ended: Time) {
        let slot = &self.by_cpu[P::current_cpu().index() % self.by_cpu.len()];
        let mut recorded = slot.lock();
        let recorded = recorded.get_or_insert_with(|| Box::new(Recorded::new()));
        record(&mut recorded.delay, begun.ns_since(queued));
        record(&mut recorded.run, ended.ns_since(begun));
    }

    /// Returns everything recorded so far.
    pub(crate) fn read(&self) -> QueueTimes {
        let (mut delay, mut run) = (empty(), empty());
        for slot in &self.by_cpu {
            if let Some(recorded) = &*slot.lock() {
                for (sum, part) in [(&mut delay, &recorded.delay), (&mut run, &recorded.run)] {
                    sum.add(part).expect("a histogram that grows takes in any other");
                }
            }
        }
        QueueTimes {
            sampling: self.sampling,
            delay: TimeHistogram { recorded: delay },
            run: TimeHistogram { recorded: run },
        }
    }
}

/// How long a queue's items waited and ran; see [`Builder::times`](crate::Builder::times).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueTimes {
    /// Which items were measured.
    pub sampling: Sampling,
    /// From the call that queued an item (for delayed work: from its due time) until a worker began it, including the wait for
    /// its turn if the queue has a limit.
    pub delay: TimeHistogram,
    /// From there until its function returned or panicked, in wall-clock time. Each poll of a future counts separately.
    pub run: TimeHistogram,
}

/// A histogram of times, to 1 %.
#[derive(Clone)]
pub struct TimeHistogram {
    recorded: Histogram<u64>,
}

impl TimeHistogram {
    /// How many items were measured.
    pub fn samples(&self) -> u64 {
        self.recorded.len()
    }

    /// The time that a share of `quantile` (0 to 1) of the items did not exceed; zero if nothing was measured.
    pub fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.recorded.value_at_quantile(quantile))
    }

    /// The mean.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.recorded.mean().round() as u64)
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.recorded.max())
    }

    /// The recorded values in nanoseconds, to be merged with others, or kept.
    pub fn recorded_ns(&self) -> &Histogram<u64> {
        &self.recorded
    }
}

impl fmt::Debug for TimeHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeHistogram")
            .field("samples", &self.samples())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max())
            .finish()
    }
}
