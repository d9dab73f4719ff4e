//! Attributes the CPU time of a pool's workers to queues.
//!
//! The kernel counts each thread's CPU time anyway. The monitor reads it now and then, and charges the difference; a request
//! for statistics updates the accounts first. So the pool's total is exact.
//!
//! A worker that is inside the same item as at the last reading has used the time for that item's
//! queue. Otherwise the queues share it by weight. A worker times about one in 16 of its visits to a
//! queue (a visit is a run of consecutive items of that queue) by the clock: see [`WeighedVisits`]. So
//! a queue's figure is an estimate if it shares its pools, and exact if it does not.
//!
//! The accounts have their own lock, below the pool's: its holder takes no other.

use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Lock, Platform, ThreadId};

use super::link::LinkTag;
use super::slots::{Slots, WorkerSlot};
use crate::insight::Tally;

/// The CPU time of a pool, by queue.
pub(super) struct Accounts<P: Platform> {
    book: Lock<P, Book<P>>,
}

/// Selects which of a worker's visits are timed: the first, and then one after 1 to 32 others, drawn uniformly.
/// Not every 16th: with queues that take turns, the same one might always be timed.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeighedVisits {
    left: u32,
    drawn: u32,
}

impl WeighedVisits {
    pub(super) fn of_worker(index: usize) -> Self {
        Self { left: 0, drawn: index as u32 }
    }

    /// Counts a visit; true if it is to be timed.
    #[inline]
    pub(super) fn is_weighed(&mut self) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        // A linear congruential generator (Numerical Recipes, second edition, 7.1); its upper bits.
        self.drawn = self.drawn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.left = self.drawn >> (u32::BITS - 5);
        true
    }
}

/// When a pool's queues weigh more than this together, all weights are halved, so that recent ones count more.
const MAX_WEIGHT_NS: u64 = 1_000_000_000;

struct Book<P: Platform> {
    workers: Vec<Account>,
    /// CPU time of all workers that ever existed.
    total: Duration,
    /// By pool link tag.
    links: Vec<Option<Charged<P>>>,
}

/// A pool link that CPU time is charged to.
struct Charged<P: Platform> {
    tally: Arc<Tally<P>>,
    weight_ns: u64,
}

struct Account {
    thread: ThreadId,
    worker: usize,
    counted: Duration,
    /// Items that the worker had begun at the last reading.
    items_begun: u64,
}

impl<P: Platform> Accounts<P> {
    pub(super) fn new() -> Self {
        let book = Book { workers: Vec::new(), total: Duration::ZERO, links: Vec::new() };
        Self { book: Lock::new(book) }
    }

    /// Counts the items of the pool link with this tag in `tally`.
    pub(super) fn open_tally(&self, LinkTag(tag): LinkTag, tally: &Arc<Tally<P>>) {
        let tag = usize::from(tag);
        let links = &mut self.book.lock().links;
        if links.len() <= tag {
            links.resize_with(tag + 1, || None);
        }
        links[tag] = Some(Charged { tally: Arc::clone(tally), weight_ns: 0 });
    }

    /// Ends the account of a pool link.
    pub(super) fn close_tally(&self, LinkTag(tag): LinkTag, slots: &Slots<P>) {
        // The CPU time of its last items still belongs to it.
        self.charge(slots);
        self.book.lock().links[usize::from(tag)] = None;
    }

    /// Opens the account of a worker, on its own thread. Returns false on a platform that cannot measure CPU time.
    /// With `from_start`, the thread's CPU time so far is charged to the pool.
    pub(super) fn open(&self, slot: &WorkerSlot<P>, worker: usize, from_start: bool) -> bool {
        let thread = slot.thread_id();
        let Some(counted) = P::cpu_time_of(thread) else { return false };
        let mut book = self.book.lock();
        if from_start {
            // The time until here is charged to the pool, not to a queue.
            book.total += counted;
        }
        book.workers.push(Account { thread, worker, counted, items_begun: slot.begun() });
        true
    }

    /// Closes the account of a worker, on its own thread.
    pub(super) fn close(&self, slot: &WorkerSlot<P>) {
        let thread = slot.thread_id();
        let mut book = self.book.lock();
        if let Some(at) = book.workers.iter().position(|account| account.thread == thread) {
            book.charge(at, slot);
            book.workers.swap_remove(at);
        }
    }

    /// Records how long a visit to a pool link took.
    #[cold]
    pub(super) fn weigh(&self, tag: LinkTag, ns: u64) {
        self.book.lock().weigh(tag, ns);
    }

    /// Updates the accounts. Returns the CPU time of all workers that ever existed; zero on a platform that cannot measure it.
    pub(super) fn charge(&self, slots: &Slots<P>) -> Duration {
        let mut book = self.book.lock();
        for at in 0..book.workers.len() {
            let worker = book.workers[at].worker;
            book.charge(at, slots.get(worker));
        }
        book.total
    }

    /// Counts that a worker's place was handed over, since its item blocked.
    pub(super) fn count_hand_over(&self, slot: &WorkerSlot<P>) {
        self.with_tally(slot, Tally::count_hand_over);
    }

    /// Counts that a worker's item kept its CPU for too long.
    pub(super) fn count_hog(&self, slot: &WorkerSlot<P>) {
        self.with_tally(slot, Tally::count_cpu_hog);
    }

    fn with_tally(&self, slot: &WorkerSlot<P>, count: impl FnOnce(&Tally<P>)) {
        let find = |tag| self.book.lock().link(tag).map(|link| Arc::clone(&link.tally));
        if let Some(tally) = slot.latest_link().and_then(find) {
            count(&tally);
        }
    }
}

impl<P: Platform> Book<P> {
    fn charge(&mut self, at: usize, slot: &WorkerSlot<P>) {
        let (latest, items_begun) = (slot.latest_link(), slot.begun());
        let account = &mut self.workers[at];
        let Some(used) = P::cpu_time_of(account.thread) else { return };
        let added = used.saturating_sub(account.counted);
        account.counted = used;
        let same_item = std::mem::replace(&mut account.items_begun, items_begun) == items_begun;
        self.total += added;
        let weight_ns: u64 = self.links.iter().flatten().map(|link| link.weight_ns).sum();
        if same_item || weight_ns == 0 {
            if let Some(link) = latest.and_then(|tag| self.link(tag)) {
                link.tally.add_cpu_time(added);
            }
            return;
        }
        for link in self.links.iter().flatten().filter(|link| link.weight_ns > 0) {
            link.tally.add_cpu_time(added.mul_f64(link.weight_ns as f64 / weight_ns as f64));
        }
    }

    fn weigh(&mut self, LinkTag(tag): LinkTag, ns: u64) {
        let Some(Some(link)) = self.links.get_mut(usize::from(tag)) else { return };
        link.weight_ns += ns;
        if self.links.iter().flatten().map(|link| link.weight_ns).sum::<u64>() > MAX_WEIGHT_NS {
            self.links.iter_mut().flatten().for_each(|link| link.weight_ns /= 2);
        }
    }

    fn link(&self, LinkTag(tag): LinkTag) -> Option<&Charged<P>> {
        self.links.get(usize::from(tag))?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::WeighedVisits;

    #[test]
    fn queues_that_take_turns_are_timed_as_often_as_each_other() {
        for turns in 2..=16 {
            let mut visits = WeighedVisits::of_worker(3);
            let mut timed = vec![0; turns];
            for visit in 0..turns * 10_000 {
                timed[visit % turns] += u32::from(visits.is_weighed());
            }
            let (least, most) = (timed.iter().min().unwrap(), timed.iter().max().unwrap());
            assert!(*least > 500 && most - least < 150, "{turns} queues: {timed:?}");
        }
    }
}
