//! What a queue is to be.

use std::time::Duration;

/// How often a request is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// After transient failures.
    pub transient: u32,
    /// After failures of the medium.
    pub media: u32,
    /// How long the first retry after a transient failure is put off; each further one twice as
    /// long as the last.
    pub backoff: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { transient: 5, media: 1, backoff: Duration::from_micros(50) }
    }
}

/// What a [`Queue`](crate::Queue) is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Most requests that the device has from this queue at a time.
    pub depth: u32,
    /// How often a request is tried again.
    pub retry: RetryPolicy,
    /// Where both classes wait for tags: so many turns of the best-effort class ...
    pub best_effort_share: u32,
    /// ... are followed by so many of the idle class.
    pub idle_share: u32,
}

impl Default for QueueOptions {
    fn default() -> Self {
        let retry = RetryPolicy::default();
        Self { depth: 128, retry, best_effort_share: 8, idle_share: 1 }
    }
}
