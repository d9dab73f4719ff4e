//! How long a worker's items take, as far as it knows, and what follows from that: how many it claims at once,
//! and whether what waits behind it is worth a wake-up.
//!
//! To wake a worker takes tens of microseconds until it claims, and costs the one who wakes it a system call. So a
//! worker whose items were short *vouches* for what little waits: it will have run that itself before another
//! could. Nobody is woken for it, and nobody is posted to be woken by the next item; those who sleep, sleep on.
//! What waits behind it adds up, though, and when it comes to what a wake-up takes, one is woken: so what is lost by
//! not waking is never more than about what waking costs (as who rents skis until the rent comes to their price).
//!
//! A claim may have taken long for no fault of its items: the worker was not given a CPU. One that took long after short ones is
//! not believed, therefore; but for some claims from then on, how much of the time the worker ran is looked at, which takes
//! two system calls. (Where it was believed, a worker that shared its CPU with a producer of short items distrusted them after
//! each time slice of that, and woke others for them, who wanted the same CPUs: half as many items a second.) A platform that
//! cannot tell has the time of every claim believed.
//!
//! Nor does a worker vouch whose own items were short where another of its pool had long ones of late: the next may be one of those.
//!
//! Where it is wrong about the next item, which turns out long or blocks, what comes after that item waits until the
//! monitor looks, once in 4 ms. Two long items among some thirty take the trust away, and some twenty short ones in a row give it back.

use coreshard_platform::ThreadUsage;

/// About what it takes from a wake-up to the woken worker's claim.
const WAKE_UP_NS: u64 = 20_000;

/// What is believed of items that nobody has seen the like of.
const UNKNOWN_NS: u64 = 16 * WAKE_UP_NS;

/// Sleepers that the producer of a burst of items wakes beside the first, one for each four items, where each of these takes an eighth of a
/// wake-up or more: as many as a producer wakes in less time than the first of them takes to come.
const RUNNER_UPS_OF_LONG: u32 = 3;

/// So many claims after one of long items a worker of the pool vouches again.
pub(super) const SHORT_CLAIMS: u32 = 32;

/// Items that take less are short beyond doubt, and one that seems to take a wake-up's time may be short itself, since others run on
/// a worker's CPU for longer than that. (Where items that took as long as this were doubted too, those of web servers were,
/// every second time: half a system call for each request.)
const DOUBTFUL_NS: u64 = WAKE_UP_NS / 4;

/// Claims that are looked at more closely after one that took long.
const DOUBTED_CLAIMS: u32 = 32;

/// The most items a worker claims at once: enough to make the lock's cost small per item, and few
/// enough to be copied to a thief's cache in good time.
const MAX_CLAIMED: usize = 32;

#[derive(Debug)]
pub(super) struct Patience {
    /// When the last claim was made.
    claimed_at_ns: u64,
    /// Items of it, and of what was stolen since.
    claimed: usize,
    /// How long an item takes: the longest mean of a claim, of late.
    item_ns: u64,
    /// A claim of long ones was learned of, which the pool does not know yet.
    had_long: bool,
    /// How many items to claim next: doubled while claims come back full.
    most: usize,
    /// For how long items have waited behind others of their claim, all together, since nobody was woken.
    waited_ns: u64,
    /// Claims until a long one is not believed again.
    doubted: u32,
    /// How the worker had used its time when this claim was made, where it is looked at.
    usage: Option<ThreadUsage>,
}

impl Patience {
    pub(super) const fn new(trusts_at_once: bool) -> Self {
        let item_ns = if trusts_at_once { 0 } else { UNKNOWN_NS };
        Self {
            claimed_at_ns: 0,
            claimed: 0,
            item_ns,
            had_long: false,
            most: 1,
            waited_ns: 0,
            doubted: 0,
            usage: None,
        }
    }

    /// What was claimed is done; called before each look for more. `usage` tells how the worker has used its time.
    #[inline]
    pub(super) fn look(&mut self, now_ns: u64, usage: impl Fn() -> Option<ThreadUsage>) {
        if self.claimed > 0 {
            let mean_ns = now_ns.saturating_sub(self.claimed_at_ns) / self.claimed as u64;
            if mean_ns < WAKE_UP_NS || self.item_ns >= DOUBTFUL_NS {
                self.learn(mean_ns);
            } else {
                self.learn_of_long(mean_ns, usage());
            }
            self.claimed = 0;
            self.doubted = self.doubted.saturating_sub(1);
        }
        self.claimed_at_ns = now_ns;
        if self.doubted > 0 {
            self.usage = if self.item_ns < DOUBTFUL_NS { usage() } else { None };
        }
    }

    /// The claim is made only now: others had the lock, for as long as is returned.
    #[inline]
    pub(super) fn begin(&mut self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(std::mem::replace(&mut self.claimed_at_ns, now_ns))
    }

    #[inline]
    fn learn(&mut self, mean_ns: u64) {
        self.had_long |= mean_ns >= WAKE_UP_NS;
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
        self.item_ns >= WAKE_UP_NS
    }

    /// True if items take so long that it is worth a look how many wait.
    #[inline]
    pub(super) fn are_worth_counting(&self) -> bool {
        self.item_ns >= WAKE_UP_NS / 8
    }

    /// How many sleepers the producer of a burst is to wake beside the first.
    #[inline]
    pub(super) fn runner_ups(&self) -> u32 {
        if self.are_worth_counting() { RUNNER_UPS_OF_LONG } else { 1 }
    }

    /// True if so many items would keep so many workers busy for longer than it takes to wake one more.
    pub(super) fn are_worth_another(&self, items: u64, workers: usize) -> bool {
        items.saturating_mul(self.item_ns) >= (workers as u64 + 1) * WAKE_UP_NS
    }

    /// When the last claim was made.
    #[inline]
    pub(super) fn claimed_at_ns(&self) -> u64 {
        self.claimed_at_ns
    }

    /// True if a claim may be as large as claims may be.
    #[inline]
    pub(super) fn are_shortest(&self) -> bool {
        self.item_ns * MAX_CLAIMED as u64 <= WAKE_UP_NS
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

    /// True if no worker of the pool has had long items of late: else the next may be long, too. The pool counts claims `since_long`.
    #[inline]
    pub(super) fn has_no_long_ones_beside(&mut self, since_long: &mut u32) -> bool {
        if std::mem::take(&mut self.had_long) {
            *since_long = 0;
        } else if *since_long < SHORT_CLAIMS {
            *since_long += 1;
        }
        *since_long == SHORT_CLAIMS
    }

    /// True if this worker will be done with the items that it has just claimed before another could help it.
    #[inline]
    pub(super) fn vouches(&mut self, items: usize) -> bool {
        if items >= self.most_in_time() {
            self.waited_ns = 0;
            return false;
        }
        if items == 1 {
            self.waited_ns = 0;
            return true;
        }
        self.waited_ns += (items as u64 - 1) * self.item_ns;
        if self.waited_ns >= WAKE_UP_NS {
            self.waited_ns = 0;
            return false;
        }
        true
    }

    /// Items that take a wake-up's time, the last of which may go beyond it.
    #[inline]
    fn most_in_time(&self) -> usize {
        let items = WAKE_UP_NS.div_ceil(self.item_ns.max(1));
        items.clamp(1, MAX_CLAIMED as u64) as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Claims of `items`, each of which takes `item_ns`.
    fn claims(patience: &mut Patience, now_ns: &mut u64, times: usize, items: usize, item_ns: u64) {
        for _ in 0..times {
            patience.look(*now_ns, || None);
            patience.claimed(items);
            *now_ns += items as u64 * item_ns;
        }
        patience.look(*now_ns, || None);
    }

    #[test]
    fn unknown_items_are_claimed_one_by_one_and_nobody_vouches_for_them() {
        let mut patience = Patience::new(false);
        assert_eq!(patience.most(), 1);
        assert!(!patience.vouches(1) && patience.are_long());
    }

    #[test]
    fn short_items_are_trusted_after_some_and_one_long_one_ends_it() {
        let (mut patience, mut now_ns) = (Patience::new(false), 1_000);
        claims(&mut patience, &mut now_ns, 60, 1, 100);
        assert!(patience.vouches(1) && !patience.are_long());
        claims(&mut patience, &mut now_ns, 1, 1, 500_000);
        assert!(!patience.vouches(1) && patience.are_long());
        assert_eq!(patience.most(), 1);
        claims(&mut patience, &mut now_ns, 10, 1, 100);
        assert!(!patience.vouches(1), "not yet");
        claims(&mut patience, &mut now_ns, 30, 1, 100);
        assert!(patience.vouches(1));
    }

    #[test]
    fn the_time_for_which_others_had_the_lock_is_not_the_items() {
        let (mut patience, mut now_ns) = (Patience::new(true), 1_000);
        for _ in 0..10 {
            patience.look(now_ns, || None);
            now_ns += 2 * WAKE_UP_NS;
            patience.begin(now_ns);
            patience.claimed(1);
            now_ns += 100;
        }
        patience.look(now_ns, || None);
        assert_eq!(patience.item_ns, 100);
    }

    /// A worker's clocks.
    #[derive(Clone, Copy, Default)]
    struct Clocks {
        now_ns: u64,
        cpu_ns: u64,
        waits: u64,
    }

    impl Clocks {
        fn look(self, patience: &mut Patience) {
            let Self { now_ns, cpu_ns, waits } = self;
            let cpu_time = Duration::from_nanos(cpu_ns);
            patience.look(now_ns, || Some(ThreadUsage { cpu_time, waits }));
        }

        /// One item each time, that takes so long, of which the worker runs `cpu_ns`, and waits so often.
        fn items(&mut self, patience: &mut Patience, times: u32, took: Self) {
            for _ in 0..times {
                patience.claimed(1);
                self.now_ns += took.now_ns;
                self.cpu_ns += took.cpu_ns;
                self.waits += took.waits;
                self.look(patience);
            }
        }
    }

    const SHORT: Clocks = Clocks { now_ns: 300, cpu_ns: 300, waits: 0 };
    const COMPUTES: Clocks = Clocks { now_ns: 500_000, cpu_ns: 500_000, waits: 0 };
    const SLEEPS: Clocks = Clocks { now_ns: 500_000, cpu_ns: 300, waits: 1 };
    const NOT_RUN: Clocks = Clocks { now_ns: 3_000_000, cpu_ns: 300, waits: 0 };

    fn trusting() -> (Patience, Clocks) {
        let (mut patience, clocks) = (Patience::new(true), Clocks::default());
        clocks.look(&mut patience);
        (patience, clocks)
    }

    #[test]
    fn a_worker_that_was_kept_from_its_cpu_trusts_short_items_as_before() {
        let (mut patience, mut clocks) = trusting();
        for _ in 0..100 {
            clocks.items(&mut patience, 1, NOT_RUN);
            clocks.items(&mut patience, 5, SHORT);
            assert!(patience.vouches(1) && !patience.are_long());
        }
    }

    #[test]
    fn the_second_long_item_of_some_ends_the_trust_whether_it_computes_or_waits() {
        for long in [COMPUTES, SLEEPS] {
            let (mut patience, mut clocks) = trusting();
            clocks.items(&mut patience, 1, long);
            assert!(patience.vouches(1), "it may not have run");
            clocks.items(&mut patience, DOUBTED_CLAIMS / 2, SHORT);
            clocks.items(&mut patience, 1, long);
            assert!(!patience.vouches(1) && patience.are_long());
        }
    }

    #[test]
    fn items_of_about_the_limit_are_not_asked_about() {
        let mut patience = Patience::new(true);
        let mut now_ns = 0;
        for took_ns in (0..1_000).map(|at| DOUBTFUL_NS * (8 + at % 5) / 10) {
            patience.look(now_ns, || panic!("that takes two system calls"));
            patience.claimed(1);
            now_ns += took_ns;
        }
        assert!(patience.vouches(1));
    }

    #[test]
    fn doubt_ends_after_some_short_ones() {
        let (mut patience, mut clocks) = trusting();
        clocks.items(&mut patience, 1, COMPUTES);
        clocks.items(&mut patience, DOUBTED_CLAIMS, SHORT);
        patience.claimed(1);
        patience.look(clocks.now_ns + 300, || panic!("nothing is asked for any more"));
    }

    #[test]
    fn a_claim_is_no_more_than_a_wake_up_is_worth() {
        let (mut patience, mut now_ns) = (Patience::new(false), 1_000);
        claims(&mut patience, &mut now_ns, 200, 1, 5_000);
        for items in [1, 2, 4, 8, 16, 32] {
            patience.learn_most(items);
        }
        assert_eq!(patience.most(), 4);
        claims(&mut patience, &mut now_ns, 200, 1, 10);
        assert_eq!(patience.most(), MAX_CLAIMED);
        assert!(!patience.vouches(MAX_CLAIMED), "more may be behind");
    }

    #[test]
    fn what_waits_adds_up_to_a_wake_up() {
        let (mut patience, mut now_ns) = (Patience::new(false), 1_000);
        claims(&mut patience, &mut now_ns, 200, 1, 5_000);
        assert!((0..1_000).all(|_| patience.vouches(1)), "nothing waits");
        let vouched = (0..1_000).filter(|_| patience.vouches(3)).count();
        assert!((1..1_000).contains(&vouched), "{vouched}");
        let item_ns = patience.item_ns;
        assert!(item_ns * 2 * 2 >= WAKE_UP_NS, "two claims of three are worth it: {item_ns}");
        assert_eq!(vouched, 500);
    }
}
