//! Tests of a worker's estimates about its items.

use super::*;

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
        estimator.look(*now_ns);
        estimator.claimed(items);
        *now_ns += items as u64 * item_ns;
    }
    estimator.look(*now_ns);
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
        estimator.look(now_ns);
        now_ns += 2 * WAKE_UP_NS;
        estimator.begin(now_ns);
        estimator.claimed(1);
        now_ns += 100;
    }
    estimator.look(now_ns);
    assert_eq!(estimator.item_ns, 100);
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
