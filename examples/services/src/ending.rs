//! The shutdown of a service: a signal, a grace period, and a report of unfinished work.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use coreshard::Workqueue;
use tokio::signal::unix::{SignalKind, signal};

/// Completes when the process gets SIGTERM or SIGINT.
///
/// # Errors
/// Fails if the signal handlers cannot be installed.
pub async fn terminated() -> io::Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(())
}

/// The unfinished work of a queue at the end of its grace period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The queue's name.
    pub queue: String,
    /// Items that were dropped before they had begun.
    pub dropped: usize,
    /// Items that still run.
    pub running: u64,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, dropped, running } = self;
        write!(f, "{queue}: {dropped} had not begun, {running} still run")
    }
}

/// Drains queues until `deadline`, and shuts them down. Returns the queues with unfinished work. It blocks, so do not call it on a
/// tokio thread.
#[must_use]
pub fn end(queues: &[Workqueue], deadline: Instant) -> Vec<Left> {
    let mut left = Vec::new();
    for queue in queues {
        // After a timeout, the shutdown returns the rest.
        let _drained = queue.drain_timeout(deadline.saturating_duration_since(Instant::now()));
        // No more items begin. Running ones are reported, but not waited for. Handles of dropped ones report an error.
        let backlog = queue.shutdown_now(Duration::ZERO);
        let (dropped, running) = (backlog.len(), backlog.in_flight());
        if dropped > 0 || running > 0 {
            left.push(Left { queue: queue.name().to_owned(), dropped, running });
        }
    }
    left
}
