//! Charges CPU time, hand-overs and hogs to the queues whose items they are; `accounts.rs` says how.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform};

use super::accounts::{Account, Charged};
use super::links::LinkTag;
use super::pool::Pool;
use super::slot::STEALS;
use crate::insight::Tally;

impl<P: Platform> Pool<P> {
    /// Says whose the items of the pool link with this tag are.
    pub(crate) fn open_tally(&self, LinkTag(tag): LinkTag, tally: &Arc<Tally<P>>) {
        let tag = usize::from(tag);
        let mut book = self.accounts.book.lock();
        if book.links.len() <= tag {
            book.links.resize_with(tag + 1, || None);
        }
        book.links[tag] = Some(Charged { tally: Arc::clone(tally), weight_ns: 0 });
    }

    /// The pool link goes.
    pub(crate) fn close_tally(&self, LinkTag(tag): LinkTag) {
        // Its last items' CPU time is still its own.
        self.charge();
        self.accounts.book.lock().links[usize::from(tag)] = None;
    }

    /// A worker begins, on its own thread. False on a platform that cannot tell CPU time.
    pub(super) fn open_account(&self, worker: usize) -> bool {
        let thread = self.slot(worker).thread_id();
        let Some(counted) = P::cpu_time_of(thread) else { return false };
        let items_begun = self.slot(worker).begun.load(Relaxed);
        let mut book = self.accounts.book.lock();
        // What it took to get here is the pool's, not a queue's.
        book.total += counted;
        book.workers.push(Account { thread, worker, counted, items_begun });
        true
    }

    /// A worker ends, on its own thread.
    pub(super) fn close_account(&self, worker: usize) {
        let thread = self.slot(worker).thread_id();
        let (latest, items_begun) = self.latest(worker);
        let mut book = self.accounts.book.lock();
        if let Some(at) = book.workers.iter().position(|account| account.thread == thread) {
            book.charge(at, latest, items_begun);
            book.workers.swap_remove(at);
        }
    }

    /// A visit to a pool link took so long.
    #[cold]
    pub(super) fn weigh_visit(&self, tag: LinkTag, ns: u64) {
        self.accounts.book.lock().weigh(tag, ns);
    }

    /// Brings the book up to date. The CPU time of all workers that there were; zero on a platform
    /// that cannot tell.
    pub(super) fn charge(&self) -> Duration {
        let mut book = self.accounts.book.lock();
        for at in 0..book.workers.len() {
            let (latest, items_begun) = self.latest(book.workers[at].worker);
            book.charge(at, latest, items_begun);
        }
        book.total
    }

    /// Counts that a worker's place was handed over, since its item blocked.
    pub(super) fn count_hand_over(&self, worker: usize) {
        self.with_tally(worker, Tally::count_hand_over);
    }

    /// Counts that a worker's item kept its CPU for too long.
    pub(super) fn count_hog(&self, worker: usize) {
        self.with_tally(worker, Tally::count_cpu_hog);
    }

    fn with_tally(&self, worker: usize, count: impl FnOnce(&Tally<P>)) {
        let (latest, _) = self.latest(worker);
        if let Some(link) = latest.and_then(|tag| self.accounts.book.lock().tally(tag)) {
            count(&link);
        }
    }

    /// The pool link of the item that the worker had last, and how many it has begun.
    fn latest(&self, worker: usize) -> (Option<LinkTag>, u64) {
        let slot = self.slot(worker);
        let tag = (slot.link.load(Relaxed) & !STEALS).checked_sub(1).map(|tag| LinkTag(tag as u16));
        (tag, slot.begun.load(Relaxed))
    }
}
