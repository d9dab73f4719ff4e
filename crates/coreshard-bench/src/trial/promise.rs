//! The promises made for one item, and whether they were kept. Uses the language's plain atomics, apart from the
//! code under test.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// The call that offers the item has not returned. Before the call, the state is 0.
const OFFERED: u32 = 1;
const ACCEPTED: u32 = 2;
const REFUSED: u32 = 3;
/// Accepted and then cancelled: it may or may not have run.
const CANCELLED: u32 = 4;

/// The answers of the queue for an item, and its runs.
#[derive(Debug, Default)]
pub(super) struct Promise {
    answer: AtomicU32,
    begun: AtomicU32,
    ended: AtomicU32,
    /// One more than the time in nanoseconds at which it was first seen to wait; 0 before.
    waits_since_ns: AtomicU64,
}

impl Promise {
    pub(super) fn offer(&self) {
        self.answer.store(OFFERED, SeqCst);
    }

    pub(super) fn answer(&self, accepted: bool) {
        self.answer.store(if accepted { ACCEPTED } else { REFUSED }, SeqCst);
    }

    pub(super) fn cancel(&self) {
        self.answer.store(CANCELLED, SeqCst);
    }

    /// Records that the item begins. Returns false if it began before.
    pub(super) fn begin(&self) -> bool {
        self.begun.fetch_add(1, SeqCst) == 0
    }

    pub(super) fn end(&self) {
        self.ended.fetch_add(1, SeqCst);
    }

    pub(super) fn is_accepted(&self) -> bool {
        self.answer.load(SeqCst) == ACCEPTED
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(SeqCst) > 0
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(SeqCst) > 0
    }

    /// Returns whether the call that offers the item has returned, or was never made.
    pub(super) fn is_settled(&self) -> bool {
        self.answer.load(SeqCst) != OFFERED
    }

    /// Returns the problem if, after everything has finished, the item did not run as often as it was
    /// accepted.
    pub(super) fn breach(&self) -> Option<String> {
        let (begun, ended) = (self.begun.load(SeqCst), self.ended.load(SeqCst));
        match self.answer.load(SeqCst) {
            ACCEPTED if (begun, ended) != (1, 1) => Some(format!(
                "was accepted, and all has finished, but it began {begun} times and ended {ended} times"
            )),
            ACCEPTED | CANCELLED => None,
            _ if begun > 0 => Some(format!("was not accepted, and ran {begun} times")),
            _ => None,
        }
    }

    /// Returns how long the item has waited since it was first seen waiting, and since a call last failed.
    pub(super) fn waits_ns(&self, now_ns: u64, last_failure_ns: Option<u64>) -> u64 {
        if !self.is_accepted() || self.has_begun() {
            return 0;
        }
        let since = self.waits_since_ns.load(Relaxed).checked_sub(1).unwrap_or_else(|| {
            self.waits_since_ns.store(now_ns + 1, Relaxed);
            now_ns
        });
        now_ns.saturating_sub(since.max(last_failure_ns.unwrap_or(0)))
    }

    /// Restarts its wait at the next check.
    pub(super) fn forget_wait(&self) {
        self.waits_since_ns.store(0, Relaxed);
    }
}

/// The first broken rule, as a text.
#[derive(Debug, Default)]
pub(super) struct Broken(OnceLock<String>);

impl Broken {
    pub(super) fn note(&self, rule: impl FnOnce() -> String) {
        let _ = self.0.get_or_init(rule);
    }

    pub(super) fn verdict(&self) -> Result<(), String> {
        self.0.get().map_or(Ok(()), |broken| Err(broken.clone()))
    }
}
