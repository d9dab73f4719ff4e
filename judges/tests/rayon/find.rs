//! `src/iter/test.rs` and `tests/octillion.rs`: searches that end early.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use coreshard::join;
use judges::{judge, pool};

use crate::iter::find_first;

const OCTILLION: u128 = 1_000_000_000_000_000_000_000_000_000;

/// Finds any number with a property, in a range that is too large to visit.
fn find_any(
    range: Range<u128>,
    found: &AtomicBool,
    has: &(impl Fn(u128) -> bool + Sync),
) -> Option<u128> {
    let len = range.end - range.start;
    if found.load(Relaxed) {
        return None;
    }
    if len <= 64 {
        let any = range.into_iter().find(|number| has(*number));
        found.fetch_or(any.is_some(), Relaxed);
        return any;
    }
    let middle = range.start + len / 2;
    let (left, right) = join(
        || find_any(range.start..middle, found, has),
        || find_any(middle..range.end, found, has),
    );
    left.or(right)
}

#[test]
fn find_any_octillion() {
    judge(|| {
        let found = AtomicBool::new(false);
        let any = || find_any(0..OCTILLION, &found, &|_| true);
        assert!(pool(2).install(any).unwrap().is_some());
    });
}

/// Only the upper half contains a match. Another worker must steal it from the worker that descends into the lower
/// half.
#[test]
fn filter_find_any_octillion() {
    judge(|| {
        let found = AtomicBool::new(false);
        let any = || find_any(0..OCTILLION, &found, &|number| number > OCTILLION / 2);
        assert!(pool(2).install(any).unwrap().is_some_and(|number| number > OCTILLION / 2));
    });
}

#[test]
fn find_first_or_last() {
    judge(|| {
        let numbers: Vec<i32> = (0..10_000).collect();
        let queue = pool(4);
        let odd = queue.install(|| find_first(&numbers, &|n| n % 2 == 1).copied()).unwrap();
        assert_eq!(odd, Some(1));
        let late = queue.install(|| find_first(&numbers, &|n| *n >= 9_000).copied()).unwrap();
        assert_eq!(late, Some(9_000));
    });
}

#[test]
fn check_find_not_present() {
    judge(|| {
        let looks = AtomicUsize::new(0);
        let numbers: Vec<i32> = (0..1024).collect();
        let none = |_: &i32| {
            looks.fetch_add(1, Relaxed);
            false
        };
        assert!(pool(3).install(|| find_first(&numbers, &none).is_none()).unwrap());
        assert_eq!(looks.into_inner(), 1024, "each is looked at once");
    });
}

#[test]
fn check_find_is_present() {
    judge(|| {
        let looks = AtomicUsize::new(0);
        let numbers: Vec<i32> = (0..1024).collect();
        let some = |number: &i32| {
            looks.fetch_add(1, Relaxed);
            *number == 512
        };
        let found = pool(3).install(|| find_first(&numbers, &some).copied()).unwrap();
        assert_eq!(found, Some(512));
        assert!(looks.into_inner() < 1024, "elements after the match in its piece are not visited");
    });
}
