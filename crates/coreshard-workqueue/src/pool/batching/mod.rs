//! A worker's estimates about its items, and the decisions that follow from them: how many items it claims at once, and
//! whether the items behind them are worth a wake-up.
//!
//! **Suppressed wake-ups.** From the call until the woken worker claims, tens of microseconds pass, and the call costs the
//! waker a system call. So a worker whose items were short wakes no other for a small backlog: it will have run the backlog
//! before another worker could. It also takes the names of sleepers off the wake word. The waiting time behind it adds up, and
//! when that reaches the time of a wake-up, one worker is woken. So suppression never loses more than about the cost of a
//! wake-up.
//!
//! A worker whose own items were short does wake others if another worker of its pool recently had long ones: the next item
//! may be one of those. If the estimate is wrong, and the next item is long or blocks, the items behind it wait for the
//! monitor, which scans every 4 ms. Two long items among some thirty end the suppression, and some twenty short ones in a row
//! restore it.

use crate::intake::SLOTS_TO_A_BURST;

mod wake_cost;

pub(crate) use wake_cost::WakeCost;
pub(super) use wake_cost::WakeMeter;

/// The assumed time of items before any has run.
const UNKNOWN_NS: u64 = 16 * WakeCost::ASSUMED.latency_ns();

/// Number of claims after long items until the pool's workers suppress wake-ups again.
pub(super) const SHORT_CLAIMS: u32 = 32;

/// The most items a worker claims at once: enough to make the lock's cost small per item, and few
/// enough to be copied to a thief's cache in good time.
const MAX_CLAIMED: usize = 32;

/// A worker's estimates about its items.
#[derive(Debug)]
pub(super) struct ServiceTimeEstimator {
    cost: WakeCost,
    /// Time of the last claim.
    claimed_at_ns: u64,
    /// Items of the last claim, and items stolen since.
    claimed: usize,
    /// How long an item takes: the longest recent mean of a claim.
    item_ns: u64,
    /// How long an item of the last claim took; 0 before the first.
    last_ns: u64,
    /// A claim of long items was recorded, and the pool does not know yet.
    had_long: bool,
    /// How many items to claim next: doubled while claims come back full.
    most: usize,
    /// Total time that items have waited behind others of their claim since the last wake-up.
    waited_ns: u64,
}

impl ServiceTimeEstimator {
    pub(super) const fn new(trusts_at_once: bool) -> Self {
        let item_ns = if trusts_at_once { 0 } else { UNKNOWN_NS };
        Self {
            cost: WakeCost::ASSUMED,
            claimed_at_ns: 0,
            claimed: 0,
            item_ns,
            last_ns: 0,
            had_long: false,
            most: 1,
            waited_ns: 0,
        }
    }

    pub(super) fn set_wake_cost(&mut self, cost: WakeCost) {
        self.cost = cost;
    }

    /// How often a worker can wake another in this time.
    #[inline]
    pub(super) fn calls_in(&self, ns: u64) -> usize {
        if ns == 0 { 0 } else { (ns / self.cost.waker_ns()) as usize }
    }

    /// The time of a wake-up until the woken worker claims.
    #[inline]
    fn wake_up_ns(&self) -> u64 {
        self.cost.latency_ns()
    }

    /// Called when the items of the last claim have run, before each look for more.
    #[inline]
    pub(super) fn look(&mut self, now_ns: u64) {
        if self.claimed > 0 {
            self.learn(now_ns.saturating_sub(self.claimed_at_ns) / self.claimed as u64);
            self.claimed = 0;
        }
        self.claimed_at_ns = now_ns;
    }

    /// The claim begins now. Returns how long other threads had the lock.
    #[inline]
    pub(super) fn begin(&mut self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(std::mem::replace(&mut self.claimed_at_ns, now_ns))
    }

    #[inline]
    fn learn(&mut self, mean_ns: u64) {
        self.had_long |= mean_ns >= self.wake_up_ns();
        self.last_ns = mean_ns;
        // A single long item is remembered for a while.
        self.item_ns = mean_ns.max(self.item_ns - self.item_ns.div_ceil(8));
    }

    /// How many items to claim, at most: no more than run in a wake-up's time.
    #[inline]
    pub(super) fn most(&self) -> usize {
        self.most.min(self.most_in_time())
    }

    /// True if items take so long that their origin does not matter.
    pub(super) fn are_long(&self) -> bool {
        self.item_ns >= self.wake_up_ns()
    }

    /// True if items take so long that it pays to count how many wait.
    #[inline]
    pub(super) fn are_worth_counting(&self) -> bool {
        self.item_ns >= self.wake_up_ns() / 8
    }

    /// How many sleepers the producer of a burst should wake besides the first, one for each [`SLOTS_TO_A_BURST`] items: as
    /// many as the items that have arrived by then justify.
    pub(super) fn runner_ups(&self) -> u32 {
        self.cost.runner_ups(SLOTS_TO_A_BURST * self.item_ns)
    }

    /// How many workers are worth waking for this many items, if they are as long as the last ones.
    pub(super) fn workers_for(&self, items: u64) -> u32 {
        self.cost.workers_for(items.saturating_mul(self.last_ns))
    }

    /// Records that this many items were claimed or stolen.
    #[inline]
    pub(super) fn claimed(&mut self, items: usize) {
        self.claimed += items;
    }

    /// If the items just claimed were as many as [`Self::most`] permits, the next claim may be larger.
    #[inline]
    pub(super) fn learn_most(&mut self, items: usize) {
        self.most = if items >= self.most { (items * 2).min(MAX_CLAIMED) } else { items };
    }

    /// True if no worker of the pool recently had long items; otherwise the next may be long as well. The pool counts claims
    /// `since_long`.
    #[inline]
    pub(super) fn has_no_long_ones_beside(&mut self, since_long: &mut u32) -> bool {
        if std::mem::take(&mut self.had_long) {
            *since_long = 0;
        } else if *since_long < SHORT_CLAIMS {
            *since_long += 1;
        }
        *since_long == SHORT_CLAIMS
    }

    /// True if this worker will have finished its last claim before another worker could help. Then it wakes none.
    #[inline]
    pub(super) fn suppresses_wake(&mut self, items: usize) -> bool {
        if items >= self.most_in_time() {
            self.waited_ns = 0;
            return false;
        }
        if items == 1 {
            self.waited_ns = 0;
            return true;
        }
        self.waited_ns += (items as u64 - 1) * self.item_ns;
        if self.waited_ns >= self.wake_up_ns() {
            self.waited_ns = 0;
            return false;
        }
        true
    }

    /// Items that run in a wake-up's time; the last may exceed it.
    #[inline]
    fn most_in_time(&self) -> usize {
        let items = self.wake_up_ns().div_ceil(self.item_ns.max(1));
        items.clamp(1, MAX_CLAIMED as u64) as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
