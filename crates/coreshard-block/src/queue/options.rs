//! Options of a queue.

use std::time::Duration;

/// How often a request is tried again.
///
/// Write `..RetryPolicy::default()` after the fields that differ: there may be more of them in a later version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// After transient failures. Default: 5.
    pub transient: u32,
    /// After failures of the medium. Default: 1.
    pub media: u32,
    /// How long the first retry after a transient failure is put off; each further one twice as
    /// long as the last. Default: 50 µs.
    pub backoff: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { transient: 5, media: 1, backoff: Duration::from_micros(50) }
    }
}

/// Options of a [`Queue`](crate::Queue).
///
/// Write `..QueueOptions::default()` after the fields that differ: there may be more of them in a later version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Most requests that the device has from this queue at a time. Default: 128.
    pub depth: u32,
    /// How often a request is tried again. Default: [`RetryPolicy::default`].
    pub retry: RetryPolicy,
    /// If both classes wait for tags: this many turns of the best-effort class (default: 8) ...
    pub best_effort_share: u32,
    /// ... are followed by this many of the idle class (default: 1).
    pub idle_share: u32,
}

impl Default for QueueOptions {
    fn default() -> Self {
        let retry = RetryPolicy::default();
        Self { depth: 128, retry, best_effort_share: 8, idle_share: 1 }
    }
}
