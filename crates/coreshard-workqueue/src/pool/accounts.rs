//! Whose the CPU time of a pool's workers is.
//!
//! The kernel counts each thread's CPU time anyway. The monitor asks for it now and then, and
//! charges what was added since; whoever asks for statistics has the books brought up to date
//! first. So the pool's total is exact.
//!
//! To whom: a worker that is inside the same item as the last time has used it for that item's
//! queue. Else the queues share it by weight. A worker weighs about one in 16 of its visits to a
//! queue (as many of that queue's items as it runs in a row) by the clock: see [`WeighedVisits`]. So
//! a queue's figure is an estimate where it shares its pools, and exact where it does not.
//!
//! The book has a lock of its own, below the pool's: whoever has the book's takes no other.

use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Lock, Platform, ThreadId};

use super::links::LinkTag;
use crate::insight::Tally;

pub(super) struct Accounts<P: Platform> {
    pub(super) book: Lock<P, Book<P>>,
}

/// Which of a worker's visits are timed: the first, and then one after 1 to 32 others, drawn evenly.
/// Not each 16th: queues that take turns would have it that always the same one is timed.
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

/// When a pool's queues weigh more than this together, all lose half: so weights are those of late.
const MAX_WEIGHT_NS: u64 = 1_000_000_000;

pub(super) struct Book<P: Platform> {
    pub(super) workers: Vec<Account>,
    /// Of all workers there ever were.
    pub(super) total: Duration,
    /// By pool link tag.
    pub(super) links: Vec<Option<Charged<P>>>,
}

/// A pool link that CPU time is charged to.
pub(super) struct Charged<P: Platform> {
    pub(super) tally: Arc<Tally<P>>,
    pub(super) weight_ns: u64,
}

pub(super) struct Account {
    pub(super) thread: ThreadId,
    pub(super) worker: usize,
    pub(super) counted: Duration,
    /// Items that the worker had begun when it was last looked at.
    pub(super) items_begun: u64,
}

impl<P: Platform> Accounts<P> {
    pub(super) fn new() -> Self {
        let book = Book { workers: Vec::new(), total: Duration::ZERO, links: Vec::new() };
        Self { book: Lock::new(book) }
    }
}

impl<P: Platform> Book<P> {
    pub(super) fn charge(&mut self, at: usize, latest: Option<LinkTag>, items_begun: u64) {
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

    pub(super) fn weigh(&mut self, LinkTag(tag): LinkTag, ns: u64) {
        let Some(Some(link)) = self.links.get_mut(usize::from(tag)) else { return };
        link.weight_ns += ns;
        if self.links.iter().flatten().map(|link| link.weight_ns).sum::<u64>() > MAX_WEIGHT_NS {
            self.links.iter_mut().flatten().for_each(|link| link.weight_ns /= 2);
        }
    }

    pub(super) fn tally(&self, tag: LinkTag) -> Option<Arc<Tally<P>>> {
        self.link(tag).map(|link| Arc::clone(&link.tally))
    }

    pub(super) fn link(&self, LinkTag(tag): LinkTag) -> Option<&Charged<P>> {
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
