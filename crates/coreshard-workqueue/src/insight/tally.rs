//! Events of a queue's items besides their runs.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Padded, Platform};

/// Counts of a queue that its links share. They are not written on the hot path.
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

/// The figures that the kernel's workqueue monitor shows besides the counts of items
/// (tools/workqueue/wq_monitor.py of Linux).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueTally {
    /// CPU time of the workers while they ran items of this queue. It is charged in slices of some milliseconds, each to
    /// the queue whose item the worker last had when the slice was read. So this is an approximate figure
    /// if queues share pools. Zero on a platform that cannot measure it.
    pub cpu_time: Duration,
    /// Items that kept a CPU for longer than the threshold and no longer counted as running.
    pub cpu_hogs: u64,
    /// Times an item blocked (by its own declaration, or as found by the monitor) and its worker's place in the pool was
    /// handed over to another.
    pub hand_overs: u64,
    /// Items that a rescuer ran.
    pub rescues: u64,
}
