//! What happened to a queue's items on the way, beside being run.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Padded, Platform};

/// Counts of a queue that its links share. Nothing on an item's way writes them.
pub(crate) struct Tally<P: Platform> {
    words: Padded<Words<P>>,
}

struct Words<P: Platform> {
    cpu_time_ns: P::AtomicU64,
    cpu_hogs: P::AtomicU64,
    hand_overs: P::AtomicU64,
    rescues: P::AtomicU64,
}

impl<P: Platform> Tally<P> {
    pub(super) fn new() -> Self {
        let zero = || P::AtomicU64::new(0);
        Self {
            words: Padded::new(Words {
                cpu_time_ns: zero(),
                cpu_hogs: zero(),
                hand_overs: zero(),
                rescues: zero(),
            }),
        }
    }

    pub(crate) fn add_cpu_time(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.words.cpu_time_ns.fetch_add(ns, Relaxed);
    }

    pub(crate) fn count_cpu_hog(&self) {
        self.words.cpu_hogs.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_rescued(&self, items: u64) {
        self.words.rescues.fetch_add(items, Relaxed);
    }

    pub(crate) fn count_hand_over(&self) {
        self.words.hand_overs.fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self) -> QueueTally {
        QueueTally {
            cpu_time: Duration::from_nanos(self.words.cpu_time_ns.load(Relaxed)),
            cpu_hogs: self.words.cpu_hogs.load(Relaxed),
            hand_overs: self.words.hand_overs.load(Relaxed),
            rescues: self.words.rescues.load(Relaxed),
        }
    }
}

/// What the kernel's workqueue monitor shows beside the counts of items
/// (tools/workqueue/wq_monitor.py of Linux).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueTally {
    /// CPU time of the workers while they were with this queue. Slices of some milliseconds: each
    /// is the queue's whose items the worker had last when it was looked at, so this is a ballpark figure
    /// where queues share pools. Zero on a platform that cannot tell.
    pub cpu_time: Duration,
    /// Items that kept a CPU for longer than the threshold and were taken out of the count of
    /// running workers.
    pub cpu_hogs: u64,
    /// Times an item blocked (it said so, or the monitor found it) and its worker's place in the pool was
    /// handed over to another.
    pub hand_overs: u64,
    /// Items that a rescuer ran.
    pub rescues: u64,
}
