//! Options of a queue.

use std::time::Duration;

/// How often a request is retried.
///
/// Use `..RetryPolicy::default()` for the remaining fields; later versions may add some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// After transient failures. Default: 5.
    pub transient: u32,
    /// After failures of the medium. Default: 1.
    pub media: u32,
    /// The delay of the first retry after a transient failure; each further delay is twice as long. Default:
    /// 50 µs.
    pub backoff: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { transient: 5, media: 1, backoff: Duration::from_micros(50) }
    }
}

/// Options of a [`Queue`](crate::Queue).
///
/// Use `..QueueOptions::default()` for the remaining fields; later versions may add some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// The most requests that the device has from this queue at a time. Default: 128.
    pub depth: u32,
    /// How often a request is retried. Default: [`RetryPolicy::default`].
    pub retry: RetryPolicy,
    /// If both classes wait for tags, this many turns of the best-effort class (default: 8) ...
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
