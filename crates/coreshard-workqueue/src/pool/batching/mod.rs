//! A worker's estimates about its items, and the decisions that follow from them: how many items it claims at once, whether
//! the items behind them are worth a wake-up, and how long it lets producers get ahead.
//!
//! **Suppressed wake-ups.** From the call until the woken worker claims, tens of microseconds pass, and the call costs the
//! waker a system call. So a worker whose items were short wakes no other for a small backlog: it will have run the backlog
//! before another worker could. It also takes the names of sleepers off the wake word. The waiting time behind it adds up, and
//! when that reaches the time of a wake-up, one worker is woken. So suppression never loses more than about the cost of a
//! wake-up.
//!
//! A claim may have taken long although its items are short: the worker was preempted. A long claim after short ones is
//! therefore doubted at first. For some claims from then on, the worker checks how much of the time it ran, which takes two
//! system calls. (When long claims were not doubted, a worker that shared its CPU with a producer of short items woke others
//! after each of the producer's time slices, and they wanted the same CPUs: half as many items a second.) On a platform that
//! cannot measure it, the time of every claim is taken as the items' time.
//!
//! A worker whose own items were short does wake others if another worker of its pool recently had long ones: the next item
//! may be one of those. If the estimate is wrong, and the next item is long or blocks, the items behind it wait for the
//! monitor, which scans every 4 ms. Two long items among some thirty end the suppression, and some twenty short ones in a row
//! restore it.
//!
//! **A delay before claims.** Suppose a worker claims as soon as it can, and items arrive nearly as fast as it runs them. It
//! finds three or four each time, and reads the slot that the producer writes next. Both want that cache line, and each claim
//! costs the producer a transfer of it, some 100 ns. So a worker whose claims are small waits a moment before it claims, twice
//! as long each time that this yields more items.
//!
//! If the producers wait for their items, the delay yields no more items, or makes them arrive later. So a longer delay that
//! yields hardly more is dropped at once. One that was kept for a while must have yielded more items per second than no delay,
//! or it is dropped as well. After each failure the next trial comes later. The delay is at most [`MAX_DELAY_NS`] per item,
//! and only if millions of items arrive per second.

use coreshard_platform::{Platform, ThreadUsage};

use crate::intake::SLOTS_TO_A_BURST;

mod wake_cost;

pub(crate) use wake_cost::WakeCost;
pub(super) use wake_cost::WakeMeter;

/// A worker's estimates about its items.
pub(super) struct Batching {
    pub(super) estimator: ServiceTimeEstimator,
    delay: BatchDelay,
    /// It may wait before it claims: other threads can use the time.
    may_delay: bool,
    /// It may suppress wake-ups while its items are short.
    pub(super) may_suppress: bool,
}

impl Batching {
    pub(super) fn new(trusts_at_once: bool, may_suppress: bool, may_delay: bool) -> Self {
        Self {
            estimator: ServiceTimeEstimator::new(trusts_at_once),
            delay: BatchDelay::NONE,
            may_delay,
            may_suppress,
        }
    }

    /// Called when the items of the last claim have run.
    #[inline]
    pub(super) fn before_claim<P: Platform>(&mut self) {
        self.estimator.look(P::rough_ns(), P::own_usage);
        if self.delay.ns() > 0 {
            self.let_ahead::<P>();
        }
    }

    /// Waits, so that the producers get some items ahead.
    #[cold]
    #[inline(never)]
    fn let_ahead<P: Platform>(&mut self) {
        let since_ns = P::rough_ns();
        while P::rough_ns().saturating_sub(since_ns) < self.delay.ns() {
            P::spin_hint();
        }
        // The delay does not count as the items' time.
        self.estimator.begin(P::rough_ns());
    }

    /// Records a claim of this many items, and whether they came from another CPU than the worker's.
    #[inline]
    pub(super) fn after_claim(&mut self, items: usize, from_elsewhere: bool) {
        if self.may_delay && from_elsewhere && self.estimator.are_shortest() {
            self.delay.claimed(items, self.estimator.claimed_at_ns());
        } else {
            self.delay.interrupt();
        }
    }
}

/// The assumed time of items before any has run.
const UNKNOWN_NS: u64 = 16 * WakeCost::ASSUMED.latency_ns();

/// Number of claims after long items until the pool's workers suppress wake-ups again.
pub(super) const SHORT_CLAIMS: u32 = 32;

/// Claims that are checked for preemption after one that took long.
const DOUBTED_CLAIMS: u32 = 32;

/// The most items a worker claims at once: enough to make the lock's cost small per item, and few
/// enough to be copied to a thief's cache in good time.
const MAX_CLAIMED: usize = 32;

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
    /// Claims until a long one is doubted again.
    doubted: u32,
    /// How the worker had used its time when this claim was made, if it is checked.
    usage: Option<ThreadUsage>,
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
            doubted: 0,
            usage: None,
        }
    }

    pub(super) fn set_wake_cost(&mut self, cost: WakeCost) {
        self.cost = cost;
    }

    /// The time of a wake-up until the woken worker claims.
    #[inline]
    fn wake_up_ns(&self) -> u64 {
        self.cost.latency_ns()
    }

    /// Items that take less are certainly short. One that seems to take a wake-up's time may be short as well, since other
    /// threads run on a worker's CPU for longer than that. (When items of this length were doubted as well, every second item
    /// of web servers was: half a system call for each request.)
    #[inline]
    fn doubtful_ns(&self) -> u64 {
        self.wake_up_ns() / 4
    }

    /// Called when the items of the last claim have run, before each look for more. `usage` returns how the worker has used
    /// its time.
    #[inline]
    pub(super) fn look(&mut self, now_ns: u64, usage: impl Fn() -> Option<ThreadUsage>) {
        if self.claimed > 0 {
            let mean_ns = now_ns.saturating_sub(self.claimed_at_ns) / self.claimed as u64;
            if mean_ns < self.wake_up_ns() || self.item_ns >= self.doubtful_ns() {
                self.learn(mean_ns);
            } else {
                self.learn_of_long(mean_ns, usage());
            }
            self.claimed = 0;
            self.doubted = self.doubted.saturating_sub(1);
        }
        self.claimed_at_ns = now_ns;
        if self.doubted > 0 {
            self.usage = if self.item_ns < self.doubtful_ns() { usage() } else { None };
        }
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

    /// Decides for a claim that took long after short ones whether its items were long or the worker was preempted.
    #[cold]
    #[inline(never)]
    fn learn_of_long(&mut self, mean_ns: u64, usage: Option<ThreadUsage>) {
        let Some(after) = usage else { return self.learn(mean_ns) };
        if let Some(before) = self.usage.take() {
            let ran = after.cpu_time.saturating_sub(before.cpu_time).as_nanos() as u64;
            let has_waited = after.waits != before.waits;
            self.learn(if has_waited { mean_ns } else { mean_ns.min(ran / self.claimed as u64) });
        }
        self.doubted = DOUBTED_CLAIMS;
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

    /// Time of the last claim.
    #[inline]
    fn claimed_at_ns(&self) -> u64 {
        self.claimed_at_ns
    }

    /// True if a claim may be as large as claims may be.
    #[inline]
    fn are_shortest(&self) -> bool {
        self.item_ns * MAX_CLAIMED as u64 <= self.wake_up_ns()
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

/// Claims that one delay is judged by.
const CLAIMS_TO_A_ROUND: u64 = 16;

/// Items per claim, on average: fewer do not count as a flood.
const FEW_ITEMS: u64 = 3;

/// Items per claim, on average, that pay for the transfer of the cache line.
const ENOUGH_ITEMS: u64 = 16;

/// Items per claim, on average: more than these arrive without a longer delay.
const MANY_ITEMS: u64 = 20;

const FIRST_DELAY_NS: u64 = 128;
const MAX_DELAY_NS: u64 = 2_048;

/// Rounds without a delay, as the reference.
const ROUNDS_WITHOUT: u32 = 32;

/// Rounds with the delay, until it is compared with the reference.
const ROUNDS_WITH: u32 = 128;

/// Rounds between two trials, after one that failed.
const FIRST_REST: u32 = 64;
const MAX_REST: u32 = 4_096;

/// Items, and the time they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flow {
    items: u64,
    ns: u64,
}

impl Flow {
    fn add(&mut self, more: Self) {
        self.items += more.items;
        self.ns += more.ns;
    }

    /// Higher by at least a tenth.
    fn is_above(self, other: Self) -> bool {
        10 * u128::from(self.items) * u128::from(other.ns)
            > 11 * u128::from(other.items) * u128::from(self.ns)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No delay, for this many rounds.
    Rest(u32),
    /// No delay, for this many more rounds, while the items are counted.
    Without(u32),
    /// The delay was increased; before, a round had this many items.
    Trial(u64),
    /// A delay, for this many more rounds.
    With(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BatchDelay {
    ns: u64,
    phase: Phase,
    /// Claims of this round, and their items.
    claims: u64,
    items: u64,
    began_at_ns: u64,
    without: Flow,
    with: Flow,
    /// Rounds until the next trial, if one fails.
    rest: u32,
}

impl BatchDelay {
    const NONE: Self = Self {
        ns: 0,
        phase: Phase::Rest(0),
        claims: 0,
        items: 0,
        began_at_ns: 0,
        without: Flow { items: 0, ns: 0 },
        with: Flow { items: 0, ns: 0 },
        rest: FIRST_REST,
    };

    /// How long to wait before the next claim.
    #[inline]
    fn ns(&self) -> u64 {
        // Before the first claim of a round, the only estimate is from before an interruption.
        if self.claims > 0 { self.ns } else { 0 }
    }

    /// The items claimed now do not count: they are long, or from this worker's own CPU.
    #[inline]
    fn interrupt(&mut self) {
        self.claims = 0;
    }

    /// Records a claim of this many items.
    #[inline]
    fn claimed(&mut self, items: usize, now_ns: u64) {
        if self.claims == CLAIMS_TO_A_ROUND {
            let ns = now_ns.saturating_sub(self.began_at_ns);
            self.judge(Flow { items: self.items, ns });
            self.claims = 0;
        }
        if self.claims == 0 {
            (self.items, self.began_at_ns) = (0, now_ns);
        }
        self.claims += 1;
        self.items += items as u64;
    }

    #[inline(never)]
    fn judge(&mut self, round: Flow) {
        let is_lone = round.items < FEW_ITEMS * CLAIMS_TO_A_ROUND;
        let is_enough = round.items >= ENOUGH_ITEMS * CLAIMS_TO_A_ROUND;
        let are_many = round.items > MANY_ITEMS * CLAIMS_TO_A_ROUND;
        match self.phase {
            Phase::Rest(rounds) if rounds > 0 => self.phase = Phase::Rest(rounds - 1),
            Phase::Rest(_) => {
                (self.phase, self.without) = (Phase::Without(ROUNDS_WITHOUT), Flow::default());
            }
            Phase::Without(rounds) => {
                self.without.add(round);
                self.phase = Phase::Without(rounds - 1);
                if rounds == 1 {
                    self.begin_trial();
                }
            }
            Phase::Trial(before) => {
                let has_failed = round.items < before + before / 4;
                if has_failed && self.ns == FIRST_DELAY_NS {
                    return self.give_up();
                }
                if has_failed || is_enough || self.ns == MAX_DELAY_NS {
                    self.ns /= if has_failed { 2 } else { 1 };
                    (self.phase, self.with) = (Phase::With(ROUNDS_WITH), Flow::default());
                } else {
                    (self.phase, self.ns) = (Phase::Trial(round.items), self.ns * 2);
                }
            }
            Phase::With(rounds) => {
                self.with.add(round);
                self.phase = Phase::With(rounds - 1);
                if are_many {
                    self.ns -= self.ns / 4;
                }
                let is_worse = self.without.is_above(self.with);
                let is_better = self.with.is_above(self.without);
                // First it must not be worse, then better.
                let is_bad = match ROUNDS_WITH - rounds {
                    0..2 => false,
                    2..16 => is_worse,
                    _ => !is_better,
                };
                let is_over = rounds == 1 || is_lone || self.ns < FIRST_DELAY_NS;
                if is_bad || (is_over && !is_better) {
                    self.give_up();
                } else if is_over {
                    // One success among failures may be chance.
                    self.rest = (self.rest / 2).max(FIRST_REST);
                    self.rest_for(0);
                }
            }
        }
    }

    /// Starts a trial, unless enough items arrive without one, or too few.
    fn begin_trial(&mut self) {
        let items = self.without.items / u64::from(ROUNDS_WITHOUT);
        if (FEW_ITEMS * CLAIMS_TO_A_ROUND..ENOUGH_ITEMS * CLAIMS_TO_A_ROUND).contains(&items) {
            (self.phase, self.ns) = (Phase::Trial(items), FIRST_DELAY_NS);
        } else {
            self.rest_for(0);
        }
    }

    fn give_up(&mut self) {
        self.rest_for(self.rest);
        self.rest = (self.rest * 2).min(MAX_REST);
    }

    fn rest_for(&mut self, rounds: u32) {
        (self.ns, self.phase) = (0, Phase::Rest(rounds));
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
