//! Tests of a worker's estimates about its items, and of the delay before claims.
mod estimator {
    use std::time::Duration;

    use super::super::*;

    const WAKE_UP_NS: u64 = WakeCost::ASSUMED.latency_ns();

    /// Claims of `items` that take `item_ns` each.
    fn claims(
        estimator: &mut ServiceTimeEstimator,
        now_ns: &mut u64,
        times: usize,
        items: usize,
        item_ns: u64,
    ) {
        for _ in 0..times {
            estimator.look(*now_ns, || None);
            estimator.claimed(items);
            *now_ns += items as u64 * item_ns;
        }
        estimator.look(*now_ns, || None);
    }

    #[test]
    fn unknown_items_are_claimed_one_by_one_and_nobody_suppresses_wake_for_them() {
        let mut estimator = ServiceTimeEstimator::new(false);
        assert_eq!(estimator.most(), 1);
        assert!(!estimator.suppresses_wake(1) && estimator.are_long());
    }

    #[test]
    fn short_items_are_trusted_after_some_and_one_long_one_ends_it() {
        let (mut estimator, mut now_ns) = (ServiceTimeEstimator::new(false), 1_000);
        claims(&mut estimator, &mut now_ns, 60, 1, 100);
        assert!(estimator.suppresses_wake(1) && !estimator.are_long());
        claims(&mut estimator, &mut now_ns, 1, 1, 500_000);
        assert!(!estimator.suppresses_wake(1) && estimator.are_long());
        assert_eq!(estimator.most(), 1);
        claims(&mut estimator, &mut now_ns, 10, 1, 100);
        assert!(!estimator.suppresses_wake(1), "not yet");
        claims(&mut estimator, &mut now_ns, 30, 1, 100);
        assert!(estimator.suppresses_wake(1));
    }

    #[test]
    fn the_time_for_which_others_had_the_lock_is_not_the_items() {
        let (mut estimator, mut now_ns) = (ServiceTimeEstimator::new(true), 1_000);
        for _ in 0..10 {
            estimator.look(now_ns, || None);
            now_ns += 2 * WAKE_UP_NS;
            estimator.begin(now_ns);
            estimator.claimed(1);
            now_ns += 100;
        }
        estimator.look(now_ns, || None);
        assert_eq!(estimator.item_ns, 100);
    }

    /// A worker's clocks.
    #[derive(Clone, Copy, Default)]
    struct Clocks {
        now_ns: u64,
        cpu_ns: u64,
        waits: u64,
    }

    impl Clocks {
        fn look(self, estimator: &mut ServiceTimeEstimator) {
            let Self { now_ns, cpu_ns, waits } = self;
            let cpu_time = Duration::from_nanos(cpu_ns);
            estimator.look(now_ns, || Some(ThreadUsage { cpu_time, waits }));
        }

        /// Single items that each take this long, use `cpu_ns` of CPU time and wait this often.
        fn items(&mut self, estimator: &mut ServiceTimeEstimator, times: u32, took: Self) {
            for _ in 0..times {
                estimator.claimed(1);
                self.now_ns += took.now_ns;
                self.cpu_ns += took.cpu_ns;
                self.waits += took.waits;
                self.look(estimator);
            }
        }
    }

    const SHORT: Clocks = Clocks { now_ns: 300, cpu_ns: 300, waits: 0 };
    const COMPUTES: Clocks = Clocks { now_ns: 500_000, cpu_ns: 500_000, waits: 0 };
    const SLEEPS: Clocks = Clocks { now_ns: 500_000, cpu_ns: 300, waits: 1 };
    const NOT_RUN: Clocks = Clocks { now_ns: 3_000_000, cpu_ns: 300, waits: 0 };

    fn trusting() -> (ServiceTimeEstimator, Clocks) {
        let (mut estimator, clocks) = (ServiceTimeEstimator::new(true), Clocks::default());
        clocks.look(&mut estimator);
        (estimator, clocks)
    }

    #[test]
    fn a_worker_that_was_kept_from_its_cpu_trusts_short_items_as_before() {
        let (mut estimator, mut clocks) = trusting();
        for _ in 0..100 {
            clocks.items(&mut estimator, 1, NOT_RUN);
            clocks.items(&mut estimator, 5, SHORT);
            assert!(estimator.suppresses_wake(1) && !estimator.are_long());
        }
    }

    #[test]
    fn the_second_long_item_of_some_ends_the_trust_whether_it_computes_or_waits() {
        for long in [COMPUTES, SLEEPS] {
            let (mut estimator, mut clocks) = trusting();
            clocks.items(&mut estimator, 1, long);
            assert!(estimator.suppresses_wake(1), "it may not have run");
            clocks.items(&mut estimator, DOUBTED_CLAIMS / 2, SHORT);
            clocks.items(&mut estimator, 1, long);
            assert!(!estimator.suppresses_wake(1) && estimator.are_long());
        }
    }

    #[test]
    fn items_of_about_the_limit_are_not_asked_about() {
        let mut estimator = ServiceTimeEstimator::new(true);
        let mut now_ns = 0;
        for took_ns in (0..1_000).map(|at| WAKE_UP_NS / 4 * (8 + at % 5) / 10) {
            estimator.look(now_ns, || panic!("that takes two system calls"));
            estimator.claimed(1);
            now_ns += took_ns;
        }
        assert!(estimator.suppresses_wake(1));
    }

    #[test]
    fn doubt_ends_after_some_short_ones() {
        let (mut estimator, mut clocks) = trusting();
        clocks.items(&mut estimator, 1, COMPUTES);
        clocks.items(&mut estimator, DOUBTED_CLAIMS, SHORT);
        estimator.claimed(1);
        estimator.look(clocks.now_ns + 300, || panic!("nothing is asked for any more"));
    }

    #[test]
    fn a_claim_is_no_more_than_a_wake_up_is_worth() {
        let (mut estimator, mut now_ns) = (ServiceTimeEstimator::new(false), 1_000);
        claims(&mut estimator, &mut now_ns, 200, 1, 5_000);
        for items in [1, 2, 4, 8, 16, 32] {
            estimator.learn_most(items);
        }
        assert_eq!(estimator.most(), 4);
        claims(&mut estimator, &mut now_ns, 200, 1, 10);
        assert_eq!(estimator.most(), MAX_CLAIMED);
        assert!(!estimator.suppresses_wake(MAX_CLAIMED), "more may be behind");
    }

    #[test]
    fn what_waits_adds_up_to_a_wake_up() {
        let (mut estimator, mut now_ns) = (ServiceTimeEstimator::new(false), 1_000);
        claims(&mut estimator, &mut now_ns, 200, 1, 5_000);
        assert!((0..1_000).all(|_| estimator.suppresses_wake(1)), "nothing waits");
        let vouched = (0..1_000).filter(|_| estimator.suppresses_wake(3)).count();
        assert!((1..1_000).contains(&vouched), "{vouched}");
        let item_ns = estimator.item_ns;
        assert!(item_ns * 2 * 2 >= WAKE_UP_NS, "two claims of three are worth it: {item_ns}");
        assert_eq!(vouched, 500);
    }
}

mod delay {
    use super::super::*;

    /// The cost of a claim besides its items, which take 15 ns each.
    const CLAIM_NS: u64 = 220;

    /// Producers that add an item every `item_ns`, have at most a given number in flight, and pay for each claim.
    struct Producers {
        item_ns: u64,
        in_flight: u64,
        pays_ns: u64,
    }

    struct Trace {
        waited_ns: u64,
        items: u64,
        ns: u64,
    }

    fn claims(delay: &mut BatchDelay, producers: &Producers, times: u32) -> Trace {
        let Producers { item_ns, in_flight, pays_ns } = *producers;
        let mut trace = Trace { waited_ns: 0, items: 0, ns: 0 };
        let (mut there, mut owed_ns) = (0, 0);
        for _ in 0..times {
            let items = there.min(32);
            delay.claimed(items as usize, trace.ns);
            let took = CLAIM_NS + items * 15 + delay.ns();
            owed_ns += took;
            let came = (owed_ns.saturating_sub(pays_ns) / item_ns).min(in_flight);
            owed_ns =
                if came == in_flight { 0 } else { owed_ns - pays_ns.min(owed_ns) - came * item_ns };
            there = there - items + came;
            trace.waited_ns += delay.ns();
            trace.items += items;
            trace.ns += took;
        }
        trace
    }

    const FLOOD: Producers = Producers { item_ns: 40, in_flight: u64::MAX, pays_ns: 100 };
    const CONVERSATION: Producers = Producers { item_ns: 30, in_flight: 4, pays_ns: 100 };

    #[test]
    fn producers_get_ahead_until_a_claim_is_worth_its_line() {
        let mut delay = BatchDelay::NONE;
        let before = claims(&mut delay, &FLOOD, 100);
        claims(&mut delay, &FLOOD, 1_000);
        let after = claims(&mut delay, &FLOOD, 10_000);
        assert!(after.items > 10_000 * 12, "{}", after.items);
        assert!(after.items * before.ns > before.items * after.ns * 5 / 4, "no faster");
    }

    #[test]
    fn who_waits_for_its_items_is_hardly_waited_for() {
        for in_flight in [2, 3, 4, 8, 12, 16, 20] {
            let mut delay = BatchDelay::NONE;
            let producers = Producers { in_flight, pays_ns: 0, ..CONVERSATION };
            claims(&mut delay, &producers, 400_000);
            let after = claims(&mut delay, &producers, 400_000);
            assert!(after.waited_ns * 20 < after.ns, "{in_flight}: {}", after.waited_ns);
        }
    }

    #[test]
    fn lone_items_and_full_claims_are_not_waited_for() {
        let lone = Producers { in_flight: 1, ..CONVERSATION };
        let ahead = Producers { item_ns: 5, ..FLOOD };
        for producers in [lone, ahead] {
            let mut delay = BatchDelay::NONE;
            assert_eq!(claims(&mut delay, &producers, 10_000).waited_ns, 0);
        }
    }

    #[test]
    fn a_flood_that_turns_into_a_conversation_is_noticed_and_the_other_way_round() {
        let mut delay = BatchDelay::NONE;
        claims(&mut delay, &FLOOD, 10_000);
        claims(&mut delay, &CONVERSATION, 400_000);
        let after = claims(&mut delay, &CONVERSATION, 400_000);
        assert!(after.waited_ns * 20 < after.ns, "{}", after.waited_ns);
        claims(&mut delay, &FLOOD, 150_000);
        assert!(claims(&mut delay, &FLOOD, 10_000).items > 10_000 * 12);
    }

    #[test]
    fn what_comes_from_its_own_cpu_or_is_long_is_not_waited_for() {
        let mut delay = BatchDelay::NONE;
        claims(&mut delay, &FLOOD, 1_000);
        assert!(delay.ns() > 0);
        delay.interrupt();
        assert_eq!(delay.ns(), 0);
    }
}
