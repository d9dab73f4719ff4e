//! `src/slice/test.rs` and `tests/sort-panic-safe.rs`: sorts by `join`, and comparisons that panic.

use std::cmp::Ordering;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use coreshard::join;
use judges::{Counter, Dropped, judge, pool, thrown};

/// Splits at the last element; panics of `compare` leave a permutation.
fn quick_sort<T: Send>(elements: &mut [T], compare: &(impl Fn(&T, &T) -> Ordering + Sync)) {
    let Some(last) = elements.len().checked_sub(1) else { return };
    if last == 0 {
        return;
    }
    elements.swap(last / 2, last);
    let mut below = 0;
    for at in 0..last {
        if compare(&elements[at], &elements[last]) == Ordering::Less {
            elements.swap(below, at);
            below += 1;
        }
    }
    elements.swap(below, last);
    let (low, high) = elements.split_at_mut(below);
    join(|| quick_sort(low, compare), || quick_sort(&mut high[1..], compare));
}

fn numbers(count: usize, modulus: u32) -> Vec<u32> {
    let step = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((*state >> 8) % modulus)
    };
    std::iter::repeat_n((), count).scan(count as u32, |state, ()| step(state)).collect()
}

#[test]
fn test_par_sort_unstable() {
    judge(|| {
        let queue = pool(4);
        for len in (0..25).chain([500, 10_000]) {
            for modulus in [50, 1000, 1 << 20] {
                let mut list = numbers(len, modulus);
                queue.install(|| quick_sort(&mut list, &Ord::cmp)).unwrap();
                assert!(list.is_sorted(), "{len} numbers below {modulus}");
            }
        }
    });
}

#[test]
fn test_par_sort_unstable_reversed() {
    judge(|| {
        let mut list = numbers(5_000, 1 << 20);
        pool(4).install(|| quick_sort(&mut list, &|a, b| b.cmp(a))).unwrap();
        assert!(list.is_sorted_by(|a, b| a >= b));
    });
}

/// An inconsistent comparison does not sort, but loses no element.
#[test]
fn test_par_sort_with_a_random_comparison() {
    judge(|| {
        let toss = AtomicUsize::new(1);
        let random = |_: &u32, _: &u32| {
            if toss.fetch_add(7919, Relaxed).is_multiple_of(3) {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        };
        let mut list: Vec<u32> = (0..500).collect();
        pool(4).install(|| quick_sort(&mut list, &random)).unwrap();
        list.sort_unstable();
        assert!(list.into_iter().eq(0..500));
    });
}

#[derive(Debug)]
struct Element(u32, #[expect(dead_code, reason = "it counts as it is dropped")] Dropped);

/// Whenever a comparison panics, each element is still there, once.
#[test]
fn sort_panic_safe() {
    judge(|| {
        let queue = pool(4);
        let all = numbers(1_000, 1 << 20);
        let elements = |dropped: &Counter| -> Vec<Element> {
            all.iter().map(|number| Element(*number, dropped.on_drop())).collect()
        };
        let compares = AtomicUsize::new(0);
        let count = |a: &Element, b: &Element| {
            compares.fetch_add(1, Relaxed);
            a.0.cmp(&b.0)
        };
        queue.install(|| quick_sort(&mut elements(&Counter::new()), &count)).unwrap();
        let total = compares.into_inner();
        for at in (0..total).step_by(total / 20) {
            let dropped = Counter::new();
            let mut list = elements(&dropped);
            let left = AtomicUsize::new(at);
            let fails = |a: &Element, b: &Element| {
                assert!(left.fetch_sub(1, Relaxed) != 0, "the comparison panics");
                a.0.cmp(&b.0)
            };
            let text = thrown(|| queue.install(|| quick_sort(&mut list, &fails)));
            assert_eq!((text.as_deref(), dropped.get()), (Some("the comparison panics"), 0));
            let mut kept: Vec<u32> = list.iter().map(|element| element.0).collect();
            let mut expected = all.clone();
            kept.sort_unstable();
            expected.sort_unstable();
            assert_eq!(kept, expected);
            drop(list);
            assert_eq!(dropped.get(), all.len());
        }
    });
}
