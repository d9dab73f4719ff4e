//! A record of the items handed to the runtime, and of their ends.
//!
//! Each item holds an [`Entry`]. It ends in one of four ways: it ran, it was returned to its caller, it was cancelled by a
//! call that reported so, or it was dropped without any of these: *lost*. Entries that have not ended when everything was
//! drained and dropped are *leaked*.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use coreshard::{Refused, RefusedReason};

thread_local! {
    /// Items that this thread drops now were returned to it.
    static COMES_BACK: Cell<bool> = const { Cell::new(false) };
}

/// Counts of entries, by end.
#[derive(Default)]
pub(crate) struct Ledger {
    made: AtomicU64,
    ran: AtomicU64,
    back: AtomicU64,
    cancelled: AtomicU64,
    lost: AtomicU64,
    /// Other broken guarantees.
    broken: Mutex<Vec<String>>,
}

/// The most texts of broken guarantees that are kept.
const MAX_BROKEN: usize = 20;

impl Ledger {
    /// Creates an entry for an item that must run or be returned.
    pub(crate) fn entry(self: &Arc<Self>, what: &'static str) -> Entry {
        self.made.fetch_add(1, Relaxed);
        Entry { ledger: Arc::clone(self), what, may_be_cancelled: false, ended: false }
    }

    /// Creates an entry for an item that its owner may cancel.
    pub(crate) fn cancellable(self: &Arc<Self>, what: &'static str) -> Entry {
        let mut entry = self.entry(what);
        entry.may_be_cancelled = true;
        entry
    }

    /// Records a broken guarantee.
    pub(crate) fn broken(&self, what: impl Into<String>) {
        let mut broken = self.broken.lock().expect("no user code runs under this lock");
        if broken.len() < MAX_BROKEN {
            broken.push(what.into());
        }
    }

    /// Records a broken guarantee unless `holds`.
    pub(crate) fn check(&self, holds: bool, what: &'static str) {
        if !holds {
            self.broken(what);
        }
    }

    /// Checks the result of a call that may be rejected only while its queue is drained. An item returned with the rejection is
    /// dropped, and counted as returned.
    pub(crate) fn accepted<T, F>(&self, what: &str, result: Result<T, Refused<F>>) -> Option<T> {
        let refused = match result {
            Ok(done) => return Some(done),
            Err(refused) => refused,
        };
        if refused.reason() != RefusedReason::Draining {
            self.broken(format!("{what}: {refused}"));
        }
        COMES_BACK.set(true);
        drop(refused.into_item());
        COMES_BACK.set(false);
        None
    }

    /// Makes a call that drops a rejected closure, since that may borrow: this also counts as returned.
    pub(crate) fn offer<R>(&self, call: impl FnOnce() -> R) -> R {
        COMES_BACK.set(true);
        let result = call();
        COMES_BACK.set(false);
        result
    }

    /// Checks the result of a call that cannot fail in its context.
    pub(crate) fn succeeded<T, E: fmt::Display>(&self, what: &str, result: Result<T, E>) {
        if let Err(error) = result {
            self.broken(format!("{what}: {error}"));
        }
    }

    /// Returns the current counts. [`Balance::verdict`] checks them at the end.
    pub(crate) fn balance(&self) -> Balance {
        Balance {
            made: self.made.load(Relaxed),
            ran: self.ran.load(Relaxed),
            back: self.back.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            lost: self.lost.load(Relaxed),
            broken: self.broken.lock().expect("no user code runs under this lock").clone(),
        }
    }
}

/// The counts of a ledger.
pub(crate) struct Balance {
    made: u64,
    ran: u64,
    back: u64,
    cancelled: u64,
    lost: u64,
    broken: Vec<String>,
}

impl Balance {
    /// Fails with the counts that do not match.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        let ended = self.ran + self.back + self.cancelled + self.lost;
        let mut wrong = self.broken.clone();
        if self.lost > 0 {
            wrong.push(format!("{} items were dropped without having run", self.lost));
        }
        if ended != self.made {
            wrong.push(format!("{} items never ended", self.made.abs_diff(ended)));
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { made, ran, back, cancelled, lost, .. } = self;
        write!(
            f,
            "{made} handed over: {ran} ran, {back} came back, {cancelled} cancelled, {lost} lost"
        )
    }
}

/// Held by an item.
pub(crate) struct Entry {
    ledger: Arc<Ledger>,
    what: &'static str,
    may_be_cancelled: bool,
    ended: bool,
}

impl Entry {
    /// The item runs.
    pub(crate) fn ran(mut self) {
        self.end(|ledger| &ledger.ran);
    }

    /// The item was returned to its caller.
    pub(crate) fn back(mut self) {
        self.end(|ledger| &ledger.back);
    }

    fn end(&mut self, count: impl FnOnce(&Ledger) -> &AtomicU64) {
        count(&self.ledger).fetch_add(1, Relaxed);
        self.ended = true;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if COMES_BACK.get() {
            self.end(|ledger| &ledger.back);
        } else if self.may_be_cancelled {
            self.end(|ledger| &ledger.cancelled);
        } else {
            let what = self.what;
            self.end(|ledger| &ledger.lost);
            self.ledger.broken(format!("lost: {what}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_and_a_leaked_item_are_told() {
        let ledger = Arc::new(Ledger::default());
        ledger.entry("one that runs").ran();
        ledger.entry("one that is refused").back();
        drop(ledger.cancellable("one that is cancelled"));
        assert!(ledger.balance().verdict().is_ok());
        drop(ledger.entry("the lost one"));
        assert!(ledger.balance().verdict().unwrap_err().contains("the lost one"));
        std::mem::forget(ledger.entry("the leaked one"));
        assert!(ledger.balance().verdict().unwrap_err().contains("1 items never ended"));
    }
}
