//! What a worker knows of its items, and what follows from that: how many it claims at once, whether what waits behind
//! them is worth a wake-up, and how long it lets producers get ahead.
//!
//! **Wake-ups that are suppressed.** To wake a worker takes tens of microseconds until it claims, and costs the waker a system
//! call. So a worker whose items were short wakes none for the few that wait: it will have run them before another
//! could. It also takes the names of sleepers off the wake word. What waits behind it adds up, and when that comes to the time
//! of a wake-up, one is woken: so what is lost by not waking is never more than about what waking costs.
//!
//! A claim may have taken long though its items are short: the worker was not given a CPU. A long one after short ones is
//! therefore not believed at once; but for some claims from then on, the worker looks at how much of the time it ran, which takes
//! two system calls. (When it was believed, a worker that shared its CPU with a producer of short items woke others after
//! each time slice of that, which wanted the same CPUs: half as many items a second.) On a platform that
//! cannot tell, the time of every claim is believed.
//!
//! A worker whose own items were short wakes others all the same if another worker of its pool had long ones of late: the next may
//! be one of those. If it is wrong about the next item, which is long or blocks, what comes behind that item waits for the
//! monitor, which looks once in 4 ms. Two long items among some thirty end the trust, and some twenty short ones in a row
//! restore it.
//!
//! **A delay before claims.** A worker that claims as soon as it can, while items come nearly as fast as it runs them, finds three
//! or four each time, and looks at the slot that the producer writes next: both want that line, and each claim costs the producer
//! a transfer of it, some 100 ns. So a worker whose claims are small waits a moment before it claims, twice as long each time that
//! brings it more items.
//!
//! If the producers wait for their items, more do not come, or they come later. So a longer wait that brings hardly more is given
//! up at once; and one that was kept for a while must have brought more items in a second than none, or it is given up as well. After
//! each that is given up it takes longer until the next trial. The wait delays an item by [`MAX_DELAY_NS`] at most, and that where
//! millions come in a second.

use coreshard_platform::{Platform, ThreadUsage};

use super::wake_cost::WakeCost;
use crate::intake::SLOTS_TO_A_BURST;

/// A worker's view of its items.
pub(super) struct Batching {
    pub(super) estimator: ServiceTimeEstimator,
    delay: BatchDelay,
    /// It may wait before it claims: other threads can use the time.
    may_delay: bool,
    /// It may leave sleepers alone while its items are short.
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

    /// The items of the last claim have run.
    #[inline]
    pub(super) fn before_claim<P: Platform>(&mut self) {
        self.estimator.look(P::rough_ns(), P::own_usage);
        if self.delay.ns() > 0 {
            self.let_ahead::<P>();
        }
    }

    /// Waits, so that the producers are some items ahead.
    #[cold]
    #[inline(never)]
    fn let_ahead<P: Platform>(&mut self) {
        let since_ns = P::rough_ns();
        while P::rough_ns().saturating_sub(since_ns) < self.delay.ns() {
            P::spin_hint();
        }
        // That was not the time of its items.
        self.estimator.begin(P::rough_ns());
    }

    /// So many items were claimed, from another CPU than the worker's or not.
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

/// So many claims after one of long items a worker of the pool suppresses wake-ups again.
pub(super) const SHORT_CLAIMS: u32 = 32;

/// Claims that are looked at more closely after one that took long.
const DOUBTED_CLAIMS: u32 = 32;

/// The most items a worker claims at once: enough to make the lock's cost small per item, and few
/// enough to be copied to a thief's cache in good time.
const MAX_CLAIMED: usize = 32;

#[derive(Debug)]
pub(super) struct ServiceTimeEstimator {
    cost: WakeCost,
    /// When the last claim was made.
    claimed_at_ns: u64,
    /// Items of it, and of what was stolen since.
    claimed: usize,
    /// How long an item takes: the longest mean of a claim, of late.
    item_ns: u64,
    /// How long an item of the last claim took; 0 before the first.
    last_ns: u64,
    /// A claim of long ones was learned of, which the pool does not know yet.
    had_long: bool,
    /// How many items to claim next: doubled while claims come back full.
    most: usize,
    /// For how long items have waited behind others of their claim, all together, since the last wake-up.
    waited_ns: u64,
    /// Claims until a long one is not believed again.
    doubted: u32,
    /// How the worker had used its time when this claim was made, where it is looked at.
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

    /// Items that take less are short beyond doubt, and one that seems to take a wake-up's time may be short itself, since others run
    /// on a worker's CPU for longer than that. (Where items that took as long as this were doubted too, those of web servers were,
    /// every second time: half a system call for each request.)
    #[inline]
    fn doubtful_ns(&self) -> u64 {
        self.wake_up_ns() / 4
    }

    /// The items of the last claim have run; called before each look for more. `usage` tells how the worker has used its time.
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

    /// The claim is made only now: others had the lock, for as long as is returned.
    #[inline]
    pub(super) fn begin(&mut self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(std::mem::replace(&mut self.claimed_at_ns, now_ns))
    }

    #[inline]
    fn learn(&mut self, mean_ns: u64) {
        self.had_long |= mean_ns >= self.wake_up_ns();
        self.last_ns = mean_ns;
        // A single long one is remembered for a while.
        self.item_ns = mean_ns.max(self.item_ns - self.item_ns.div_ceil(8));
    }

    /// Of a claim that took long after short ones: its items, or a worker that did not run?
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

    /// How many items to claim, at most: no more than a wake-up's time worth of them.
    #[inline]
    pub(super) fn most(&self) -> usize {
        self.most.min(self.most_in_time())
    }

    /// True if items take so long that it does not matter where they come from.
    pub(super) fn are_long(&self) -> bool {
        self.item_ns >= self.wake_up_ns()
    }

    /// True if items take so long that it is worth a look how many wait.
    #[inline]
    pub(super) fn are_worth_counting(&self) -> bool {
        self.item_ns >= self.wake_up_ns() / 8
    }

    /// How many sleepers the producer of a burst is to wake beside the first, one for each [`SLOTS_TO_A_BURST`] items: as many as
    /// are worth it for what has come by then.
    pub(super) fn runner_ups(&self) -> u32 {
        self.cost.runner_ups(SLOTS_TO_A_BURST * self.item_ns)
    }

    /// How many workers are worth waking for so many items, if they are as long as the last ones.
    pub(super) fn workers_for(&self, items: u64) -> u32 {
        self.cost.workers_for(items.saturating_mul(self.last_ns))
    }

    /// When the last claim was made.
    #[inline]
    fn claimed_at_ns(&self) -> u64 {
        self.claimed_at_ns
    }

    /// True if a claim may be as large as claims may be.
    #[inline]
    fn are_shortest(&self) -> bool {
        self.item_ns * MAX_CLAIMED as u64 <= self.wake_up_ns()
    }

    /// So many items were claimed, or stolen.
    #[inline]
    pub(super) fn claimed(&mut self, items: usize) {
        self.claimed += items;
    }

    /// Of the items that were just claimed, all that [`Self::most`] allowed: the next claim may be larger.
    #[inline]
    pub(super) fn learn_most(&mut self, items: usize) {
        self.most = if items >= self.most { (items * 2).min(MAX_CLAIMED) } else { items };
    }

    /// True if no worker of the pool has had long items of late: else the next may be long as well. The pool counts claims `since_long`.
    #[inline]
    pub(super) fn has_no_long_ones_beside(&mut self, since_long: &mut u32) -> bool {
        if std::mem::take(&mut self.had_long) {
            *since_long = 0;
        } else if *since_long < SHORT_CLAIMS {
            *since_long += 1;
        }
        *since_long == SHORT_CLAIMS
    }

    /// True if this worker will be done with the items that it has just claimed before another could help it: it wakes none.
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

    /// Items that take a wake-up's time, the last of which may go beyond it.
    #[inline]
    fn most_in_time(&self) -> usize {
        let items = self.wake_up_ns().div_ceil(self.item_ns.max(1));
        items.clamp(1, MAX_CLAIMED as u64) as usize
    }
}

/// Claims by which one length is judged.
const CLAIMS_TO_A_ROUND: u64 = 16;

/// Of a claim, on average: with fewer there is no flood.
const FEW_ITEMS: u64 = 3;

/// Items of a claim, on average, that pay for the line.
const ENOUGH_ITEMS: u64 = 16;

/// Of a claim, on average: more than these come without so long a wait.
const MANY_ITEMS: u64 = 20;

const FIRST_DELAY_NS: u64 = 128;
const MAX_DELAY_NS: u64 = 2_048;

/// Rounds without a wait, against which it is held.
const ROUNDS_WITHOUT: u32 = 32;

/// Rounds with it, until it is held against those.
const ROUNDS_WITH: u32 = 128;

/// Rounds between two trials, after one that failed.
const FIRST_REST: u32 = 64;
const MAX_REST: u32 = 4_096;

/// Items, and how long they took.
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

    /// By a tenth at least.
    fn is_above(self, other: Self) -> bool {
        10 * u128::from(self.items) * u128::from(other.ns)
            > 11 * u128::from(other.items) * u128::from(self.ns)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No wait, for so many rounds.
    Rest(u32),
    /// No wait, for so many rounds more, in which it is counted what comes.
    Without(u32),
    /// The wait was made longer; before, a round was of so many items.
    Trial(u64),
    /// A wait, for so many rounds more.
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
    /// Rounds until the next trial, where one fails.
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
        // Before the first claim of a round nothing is known but what was before something else came in between.
        if self.claims > 0 { self.ns } else { 0 }
    }

    /// The items that are claimed now do not count: they are long, or from this worker's own CPU.
    #[inline]
    fn interrupt(&mut self) {
        self.claims = 0;
    }

    /// So many items were claimed now.
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

    /// Unless what came by itself is enough already, or too little.
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
