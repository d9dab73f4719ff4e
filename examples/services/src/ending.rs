//! The end of a service: what is asked to stop, what still gets its time, and what is left.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use coreshard::Workqueue;
use tokio::signal::unix::{SignalKind, signal};

/// Ends when the process is told to: by SIGTERM, or by SIGINT.
///
/// # Errors
/// Where the signals cannot be listened to.
pub async fn terminated() -> io::Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(())
}

/// What of a queue was not over when its time was.
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

/// Lets queues run dry until `deadline`, and shuts them down; those are told that did not come to their end. Waits, so
/// it is none for a thread of tokio's.
#[must_use]
pub fn end(queues: &[Workqueue], deadline: Instant) -> Vec<Left> {
    let mut left = Vec::new();
    for queue in queues {
        // Where the time is over, the shutdown tells what is left.
        let _drained = queue.drain_timeout(deadline.saturating_duration_since(Instant::now()));
        // Nothing more begins; what runs is told, and not waited for. Whoever awaits what is dropped hears of it.
        let backlog = queue.shutdown_now(Duration::ZERO);
        let (dropped, running) = (backlog.len(), backlog.in_flight());
        if dropped > 0 || running > 0 {
            left.push(Left { queue: queue.name().to_owned(), dropped, running });
        }
    }
    left
}
