//! Whose the CPU time of a pool's workers is.
//!
//! Nothing is counted by the worker: the kernel counts each thread's CPU time anyway. The monitor
//! asks for it now and then, and charges what was added since to the queue whose items the worker
//! had last; whoever asks for statistics has the books brought up to date first. So the pool's
//! total is exact, and a queue's share is as good as that of a kernel that looks at each tick.
//!
//! The book has a lock of its own, below the pool's: whoever has the book's takes no other.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Lock, Platform, ThreadId};

use super::{LaneTag, Pool};
use crate::insight::Tally;

pub(super) struct Accounts<P: Platform> {
    book: Lock<P, Book<P>>,
}

struct Book<P: Platform> {
    workers: Vec<Account>,
    /// Of all workers there ever were.
    total: Duration,
    /// By lane tag.
    tallies: Vec<Option<Arc<Tally<P>>>>,
}

struct Account {
    thread: ThreadId,
    worker: usize,
    counted: Duration,
}

impl<P: Platform> Accounts<P> {
    pub(super) fn new() -> Self {
        let book = Book { workers: Vec::new(), total: Duration::ZERO, tallies: Vec::new() };
        Self { book: Lock::new(book) }
    }
}

impl<P: Platform> Book<P> {
    fn charge(&mut self, at: usize, tag: Option<LaneTag>) {
        let account = &mut self.workers[at];
        let Some(used) = P::cpu_time_of(account.thread) else { return };
        let added = used.saturating_sub(account.counted);
        account.counted = used;
        self.total += added;
        if let Some(tally) = tag.and_then(|tag| self.tally(tag)) {
            tally.add_cpu_time(added);
        }
    }

    fn tally(&self, LaneTag(tag): LaneTag) -> Option<&Arc<Tally<P>>> {
        self.tallies.get(usize::from(tag))?.as_ref()
    }
}

impl<P: Platform> Pool<P> {
    /// Says whose the items of the lane with this tag are.
    pub(crate) fn open_tally(&self, LaneTag(tag): LaneTag, tally: &Arc<Tally<P>>) {
        let tag = usize::from(tag);
        let mut book = self.accounts.book.lock();
        if book.tallies.len() <= tag {
            book.tallies.resize_with(tag + 1, || None);
        }
        book.tallies[tag] = Some(Arc::clone(tally));
    }

    /// The lane goes.
    pub(crate) fn close_tally(&self, LaneTag(tag): LaneTag) {
        // Its last items' CPU time is still its own.
        self.charge();
        self.accounts.book.lock().tallies[usize::from(tag)] = None;
    }

    /// A worker begins, on its own thread.
    pub(super) fn open_account(&self, worker: usize) {
        let thread = P::this_thread();
        // What it took to get here is the pool's, not a queue's.
        if let Some(counted) = P::cpu_time_of(thread) {
            let mut book = self.accounts.book.lock();
            book.total += counted;
            book.workers.push(Account { thread, worker, counted });
        }
    }

    /// A worker ends, on its own thread.
    pub(super) fn close_account(&self, worker: usize) {
        let thread = P::this_thread();
        if P::cpu_time_of(thread).is_none() {
            return;
        }
        let mut book = self.accounts.book.lock();
        if let Some(at) = book.workers.iter().position(|account| account.thread == thread) {
            book.charge(at, self.latest_lane(worker));
            book.workers.swap_remove(at);
        }
    }

    /// Brings the book up to date. The CPU time of all workers that there were; zero on a platform
    /// that cannot tell.
    pub(super) fn charge(&self) -> Duration {
        let mut book = self.accounts.book.lock();
        for at in 0..book.workers.len() {
            let tag = self.latest_lane(book.workers[at].worker);
            book.charge(at, tag);
        }
        book.total
    }

    /// Counts that a worker's place was handed over, since its item blocked.
    pub(super) fn count_hand_over(&self, worker: usize) {
        let book = self.accounts.book.lock();
        if let Some(tally) = self.latest_lane(worker).and_then(|tag| book.tally(tag)) {
            tally.count_hand_over();
        }
    }

    /// The lane of the item that the worker had last.
    fn latest_lane(&self, worker: usize) -> Option<LaneTag> {
        let tag = self.desk(worker).lane.load(Relaxed).checked_sub(1)?;
        Some(LaneTag(tag as u16))
    }
}
