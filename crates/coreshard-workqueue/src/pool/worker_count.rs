//! How many workers a runtime has.

use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Platform};

/// How many workers a runtime has, and may have; rescuers are not counted.
#[derive(Debug)]
pub(crate) struct WorkerCount<P: Platform> {
    workers: P::AtomicU32,
    most: u32,
}

impl<P: Platform> WorkerCount<P> {
    pub(crate) fn new(most: usize) -> Self {
        Self { workers: P::AtomicU32::new(0), most: u32::try_from(most).unwrap_or(u32::MAX) }
    }

    /// Counts one more; false if there are as many as may be.
    pub(super) fn enter(&self) -> bool {
        if self.workers.fetch_add(1, Relaxed) < self.most {
            return true;
        }
        self.leave();
        false
    }

    pub(super) fn leave(&self) {
        self.workers.fetch_sub(1, Relaxed);
    }
}
