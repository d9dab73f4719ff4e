//! What a queue tells of itself beside its plain counts.
//!
//! Three things, each off the way of an item:
//!
//! - A [`Tally`] is always kept. Only slow paths touch it: a worker that blocks, the monitor's
//!   thread.
//! - [`Times`] are sampled where the queue asks for them. A sampled item carries the moment at
//!   which it was queued in a box of its own, so slots stay as small as they are; it is the
//!   producer that draws the sample, from the count that it has just written.
//! - Spans are made for every item where the queue asks for them.
//!
//! A queue that asks for neither times nor spans is *direct*: its links say so in one byte, which
//! the producer looks at instead of looking for a limit; nothing else is on the way.

pub(crate) mod diagnostic;
mod sampling;
mod spans;
pub(crate) mod stats;
mod tally;
mod times;

use std::sync::Arc;

use coreshard_platform::Platform;

pub(crate) use spans::{Label, SpanKind, TaskSpan, span, task_woken};
pub(crate) use tally::Tally;
pub(crate) use times::Times;

// The pools and teams still use the module's former name.

pub use sampling::Sampling;
pub use tally::QueueTally;
pub use times::{QueueTimes, TimeHistogram};

/// What is asked of a queue, or of all queues of a runtime.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) times: Option<Sampling>,
    pub(crate) spans: bool,
}

/// What a queue has to tell; shared by its links.
pub(crate) struct Insight<P: Platform> {
    pub(crate) tally: Arc<Tally<P>>,
    pub(crate) times: Option<Times<P>>,
    pub(crate) spans: bool,
}

impl<P: Platform> Insight<P> {
    /// `cpus` is one more than the highest id of the platform's CPUs that the queue knows of.
    pub(crate) fn new(wanted: Wanted, cpus: usize) -> Self {
        Self {
            tally: Arc::new(Tally::new()),
            times: wanted.times.map(|sampling| Times::new(sampling, cpus)),
            spans: wanted.spans,
        }
    }

    /// True if items need not be looked at one by one.
    pub(crate) fn is_off(&self) -> bool {
        self.times.is_none() && !self.spans
    }
}
