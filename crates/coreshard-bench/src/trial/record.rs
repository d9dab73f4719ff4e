//! The fate of each item of a [`Scenario`](super::Scenario), recorded apart from the code under test, and the
//! selection of user calls that panic.

use std::ops::Range;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

use super::promise::{Broken, Promise};

/// The most items of a scenario.
const MAX_ITEMS: usize = 8_192;

/// How long an accepted item may wait, counted from when it was first seen waiting or from the last failed
/// call, whichever is later: about fifteen scans of the monitor.
const BOUND_NS: u64 = 60_000_000;

/// The payload of a call that panics. It panics again when it is dropped.
#[derive(Debug)]
pub struct Bomb(());

impl Drop for Bomb {
    fn drop(&mut self) {
        // During unwinding, a panic would abort the process.
        if !std::thread::panicking() {
            // A payload without memory: the catcher keeps it forever, and a simulation's addresses are in use
            // as long as any of its memory is.
            panic::panic_any(());
        }
    }
}

/// The promises made for each item, and whether they were kept.
#[derive(Debug)]
pub struct Record {
    entries: Box<[Promise]>,
    offered: AtomicUsize,
    /// Whether items are currently held back on request.
    held: AtomicBool,
    calls: AtomicU64,
    /// The numbers of user calls that panic, counted from 1.
    panics: Range<u64>,
    broken: Broken,
}

/// The number of an item that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(usize);

impl Record {
    /// Creates an empty record.
    ///
    /// `panics` are the numbers, from 1 on, of the user calls that panic: calls of a function, a hook or a
    /// destructor.
    #[must_use]
    pub fn new(panics: Range<u64>) -> Self {
        Self {
            entries: (0..MAX_ITEMS).map(|_| Promise::default()).collect(),
            offered: AtomicUsize::new(0),
            held: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            panics,
            broken: Broken::default(),
        }
    }

    /// Returns the number of user calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(SeqCst)
    }

    /// Records a user call.
    pub(super) fn call(&self) {
        let call = self.calls.fetch_add(1, SeqCst) + 1;
        if self.panics.contains(&call) {
            panic::panic_any(Bomb(()));
        }
    }

    pub(super) fn offer(&self) -> Number {
        let item = self.offered.fetch_add(1, SeqCst);
        assert!(item < MAX_ITEMS, "a scenario has at most {MAX_ITEMS} items");
        self.entries[item].offer();
        Number(item)
    }

    pub(super) fn answer(&self, Number(item): Number, accepted: bool) {
        self.entries[item].answer(accepted);
    }

    pub(super) fn cancel(&self, Number(item): Number) {
        self.entries[item].cancel();
    }

    /// Records that the item begins. It finishes when the returned value is dropped.
    pub(super) fn begin(self: &Arc<Self>, Number(item): Number) -> Running {
        if !self.entries[item].begin() {
            self.broken.note(|| format!("item {item} ran twice"));
        }
        Running { record: Arc::clone(self), item }
    }

    /// Records that items are held back from now on, or no longer.
    pub(super) fn hold(&self, held: bool) {
        if !held {
            self.offered().iter().for_each(Promise::forget_wait);
        }
        self.held.store(held, SeqCst);
    }

    fn offered(&self) -> &[Promise] {
        &self.entries[..self.offered.load(SeqCst)]
    }

    /// Returns the number of accepted items that have not finished.
    pub(super) fn unfinished(&self) -> usize {
        self.offered().iter().filter(|item| item.is_accepted() && !item.has_ended()).count()
    }

    /// Checks that each accepted item ran exactly once, and no refused one.
    ///
    /// To be called after everything has finished.
    ///
    /// # Errors
    /// The first broken promise, as a text.
    pub fn verdict(&self) -> Result<(), String> {
        for (item, promise) in self.offered().iter().enumerate() {
            // A call that panicked has given no answer.
            if let Some(breach) = promise.breach().filter(|_| promise.is_settled()) {
                self.broken.note(|| format!("item {item} {breach}"));
            }
        }
        self.broken.verdict()
    }

    /// Checks that no accepted item waits for long while nothing fails.
    ///
    /// To be called repeatedly, with the time and the last failed call.
    ///
    /// # Errors
    /// The waiting item, or another broken promise.
    pub fn scan(&self, now_ns: u64, last_failure_ns: Option<u64>) -> Result<(), String> {
        let held = self.held.load(SeqCst);
        for (item, promise) in self.offered().iter().enumerate().filter(|_| !held) {
            let waits_ns = promise.waits_ns(now_ns, last_failure_ns);
            if waits_ns > BOUND_NS {
                self.broken.note(|| {
                    format!(
                        "item {item} has waited for {} ms since it was accepted and since a \
                         call last failed",
                        waits_ns / 1_000_000
                    )
                });
            }
        }
        self.broken.verdict()
    }
}

/// An item that runs.
pub(super) struct Running {
    record: Arc<Record>,
    item: usize,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.record.entries[self.item].end();
    }
}

/// A value that a user's closure owns: its destructor is a user call.
pub(super) struct Owned(pub(super) Arc<Record>);

impl Drop for Owned {
    fn drop(&mut self) {
        // As above.
        if !std::thread::panicking() {
            self.0.call();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coreshard_platform::user;

    #[test]
    fn an_accepted_item_runs_once_and_does_not_wait_for_long() {
        let record = Arc::new(Record::new(0..0));
        let item = record.offer();
        record.answer(item, true);
        assert_eq!(record.unfinished(), 1);
        assert_eq!(record.scan(5, None), Ok(()));
        assert_eq!(record.scan(BOUND_NS + 9, Some(10)), Ok(()), "something failed meanwhile");
        record.hold(true);
        assert_eq!(record.scan(2 * BOUND_NS, None), Ok(()), "items are held back");
        record.hold(false);
        assert_eq!(record.scan(2 * BOUND_NS, None), Ok(()), "items are no longer held back");
        drop(record.begin(item));
        assert_eq!((record.unfinished(), record.verdict()), (0, Ok(())));
        let waits = record.offer();
        record.answer(waits, true);
        assert_eq!(record.scan(0, None), Ok(()));
        let error = record.scan(BOUND_NS + 1, None).unwrap_err();
        assert!(error.contains("item 1 has waited for 60 ms"), "{error}");
        let twice = Arc::new(Record::new(0..0));
        let item = twice.offer();
        drop((twice.begin(item), twice.begin(item)));
        assert_eq!(twice.verdict(), Err("item 0 ran twice".to_owned()));
    }

    #[test]
    fn the_kth_call_panics_and_so_does_what_it_throws() {
        let record = Arc::new(Record::new(2..3));
        record.call();
        let thrown = user::call(|| drop(Owned(Arc::clone(&record)))).unwrap_err();
        assert!(thrown.payload().is::<Bomb>());
        assert!(user::discard(thrown.into_payload()).is_err());
        record.call();
        assert_eq!(record.calls(), 3);
    }
}
