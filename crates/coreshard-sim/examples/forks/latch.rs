//! What a thread waits for.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use coreshard_platform::{AtomicInt, Platform};
use coreshard_sim::Sim;

type AtomicU32 = <Sim as Platform>::AtomicU32;

const CLOSED: u32 = 0;
/// As `CLOSED`, and its thread sleeps, or is about to.
const ASLEEP: u32 = 1;
const OPEN: u32 = 2;

/// Who opens it need not look at the waiting thread, but where that sleeps.
pub(crate) struct Latch(AtomicU32);

impl Latch {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(CLOSED))
    }

    pub(crate) fn close(&self) {
        self.0.store(CLOSED, Relaxed);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Acquire) == OPEN
    }

    /// False if it is open.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.0.compare_exchange(CLOSED, ASLEEP, AcqRel, Acquire).is_ok()
    }

    pub(crate) fn wake_up(&self) {
        let _ = self.0.compare_exchange(ASLEEP, CLOSED, AcqRel, Relaxed);
    }

    /// True if its thread sleeps.
    pub(crate) fn open(&self) -> bool {
        self.0.swap(OPEN, AcqRel) == ASLEEP
    }
}
