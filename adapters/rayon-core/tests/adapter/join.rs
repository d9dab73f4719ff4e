//! Joins.

use std::sync::Barrier;

use crate::support::{numbers, partition, pool, thrown};
use rayon_core::{ThreadPoolBuilder, join, join_context};

fn quick_sort(elements: &mut [u32]) {
    if elements.len() > 1 {
        let middle = partition(elements);
        let (low, high) = elements.split_at_mut(middle);
        join(|| quick_sort(low), || quick_sort(&mut high[1..]));
    }
}

#[test]
fn sort() {
    let mut data: Vec<_> = numbers().take(6 << 10).collect();
    quick_sort(&mut data);
    assert!(data.is_sorted());
}

#[test]
fn sort_in_pool() {
    let mut data: Vec<_> = numbers().take(12 << 10).collect();
    let pool = ThreadPoolBuilder::new().build().unwrap();
    pool.install(|| quick_sort(&mut data));
    assert!(data.is_sorted());
}

#[test]
fn panic_propagate_a() {
    assert_eq!(thrown(|| _ = join(|| panic!("first"), || ())), "first");
}

#[test]
fn panic_propagate_b() {
    assert_eq!(thrown(|| _ = join(|| (), || panic!("second"))), "second");
}

#[test]
fn panic_propagate_both() {
    let both = || _ = join(|| panic!("first"), || panic!("second"));
    assert_eq!(thrown(both), "first");
}

#[test]
fn panic_propagate_both_when_the_second_is_elsewhere() {
    let barrier = Barrier::new(2);
    let throw = |text: &'static str| -> () {
        barrier.wait();
        panic!("{text}")
    };
    let both = || _ = join(|| throw("first"), || throw("second"));
    assert_eq!(thrown(|| pool(2).install(both)), "first");
}

#[test]
fn panic_b_still_executes() {
    let mut ran = false;
    assert_eq!(thrown(|| _ = join(|| panic!("first"), || ran = true)), "first");
    assert!(ran);
}

/// In a pool of one thread, the second half is not stolen: it is still here when the first panics.
#[test]
fn panic_b_still_executes_where_nobody_else_could() {
    let mut ran = false;
    let pool = pool(1);
    let join = || pool.install(|| _ = join(|| panic!("first"), || ran = true));
    assert_eq!(thrown(join), "first");
    assert!(ran);
}

#[test]
fn results_are_by_position() {
    assert_eq!(pool(2).join(|| 1, || "two"), (1, "two"));
}

#[test]
fn join_context_both() {
    let moved = join_context(|a| a.migrated(), |b| b.migrated());
    assert_eq!(moved, (true, true));
}

#[test]
fn join_context_neither() {
    let moved = pool(1).install(|| join_context(|a| a.migrated(), |b| b.migrated()));
    assert_eq!(moved, (false, false));
}

#[test]
fn join_context_second() {
    // Each half waits for the other, so another thread has taken the second.
    let barrier = Barrier::new(2);
    let moved = pool(2).install(|| {
        let wait = |moved| {
            barrier.wait();
            moved
        };
        join_context(|a| wait(a.migrated()), |b| wait(b.migrated()))
    });
    assert_eq!(moved, (false, true));
}

#[test]
fn join_counter_overflow() {
    const JOINS: u32 = 500_000;
    let (mut left, mut right) = (0, 0);
    let pool = pool(2);
    for _ in 0..JOINS {
        pool.join(|| left += 1, || right += 1);
    }
    assert_eq!((left, right), (JOINS, JOINS));
}

/// Deep ones, not only many.
#[test]
fn nested() {
    fn leaves(depth: u32) -> u64 {
        if depth == 0 {
            return 1;
        }
        let (left, right) = join(|| leaves(depth - 1), || leaves(depth - 1));
        left + right
    }
    assert_eq!(pool(3).install(|| leaves(14)), 1 << 14);
}
