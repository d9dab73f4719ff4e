//! Measurements of a queue besides its plain counts.
//!
//! There are three, all off the hot path:
//!
//! - A [`Tally`] is always kept. Only slow paths write it: a worker that blocks, the monitor's thread.
//! - [`Times`] are sampled if enabled for the queue. A sampled item carries the time at which it was queued in a box, so slots
//!   stay as small as they are. The producer draws the sample, from the count that it has just written.
//! - Spans are made for every item if enabled for the queue.
//!
//! A queue with neither times nor spans is *direct*: one byte of its links records that. The producer reads that byte instead
//! of checking for a limit, so insight costs nothing if it is off.

pub(crate) mod diagnostic;
mod sampling;
mod spans;
pub(crate) mod stats;
mod tally;
mod times;

use std::sync::Arc;

use coreshard_platform::Platform;

pub(crate) use spans::{Label, SpanKind, TaskSpan, span};
pub(crate) use tally::Tally;
pub(crate) use times::Times;

pub use sampling::Sampling;
pub use tally::QueueTally;
pub use times::{QueueTimes, TimeHistogram};

/// Measurements that are enabled for a queue, or for all queues of a runtime.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) times: Option<Sampling>,
    pub(crate) spans: bool,
}

/// A queue's measurements; shared by its links.
pub(crate) struct Insight<P: Platform> {
    pub(crate) tally: Arc<Tally<P>>,
    pub(crate) times: Option<Times<P>>,
    pub(crate) spans: bool,
}

impl<P: Platform> Insight<P> {
    /// `cpus` is one more than the highest CPU id that the queue knows.
    pub(crate) fn new(wanted: Wanted, cpus: usize) -> Self {
        Self {
            tally: Arc::new(Tally::new()),
            times: wanted.times.map(|sampling| Times::new(sampling, cpus)),
            spans: wanted.spans,
        }
    }

    /// True if items need no individual handling.
    pub(crate) fn is_off(&self) -> bool {
        self.times.is_none() && !self.spans
    }
}
