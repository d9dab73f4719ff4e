//! `rayon-core/src/join/test.rs`.

use std::sync::Barrier;
use std::thread;

use coreshard::join;
use judges::{default_queue, judge, pool, thrown};

/// Numbers without an order that a sort could profit from, the same in each run.
pub(crate) fn numbers(count: usize) -> Vec<u32> {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    (0..count).map(|_| next()).collect()
}

/// Splits by the last element, whose place it returns.
pub(crate) fn partition<T: PartialOrd>(elements: &mut [T]) -> usize {
    let last = elements.len() - 1;
    let mut below = 0;
    for at in 0..last {
        if elements[at] <= elements[last] {
            elements.swap(below, at);
            below += 1;
        }
    }
    elements.swap(below, last);
    below
}

fn quick_sort<T: PartialOrd + Send>(elements: &mut [T]) {
    if elements.len() > 1 {
        let middle = partition(elements);
        let (low, high) = elements.split_at_mut(middle);
        join(|| quick_sort(low), || quick_sort(&mut high[1..]));
    }
}

#[test]
fn sort() {
    judge(|| {
        let mut data = numbers(6 * 1024);
        let mut expected = data.clone();
        expected.sort_unstable();
        quick_sort(&mut data);
        assert_eq!(data, expected);
    });
}

#[test]
fn sort_in_pool() {
    judge(|| {
        let mut data = numbers(12 * 1024);
        let mut expected = data.clone();
        expected.sort_unstable();
        default_queue().install(|| quick_sort(&mut data)).unwrap();
        assert_eq!(data, expected);
    });
}

#[test]
#[should_panic(expected = "Hello, world!")]
fn panic_propagate_a() {
    judge(|| {
        pool(2).install(|| join(|| panic!("Hello, world!"), || ())).unwrap();
    });
}

#[test]
#[should_panic(expected = "Hello, world!")]
fn panic_propagate_b() {
    judge(|| {
        pool(2).install(|| join(|| (), || panic!("Hello, world!"))).unwrap();
    });
}

#[test]
#[should_panic(expected = "Hello, world!")]
fn panic_propagate_both() {
    judge(|| {
        pool(2).install(|| join(|| panic!("Hello, world!"), || panic!("Goodbye, world!"))).unwrap();
    });
}

/// Rayon runs the second half even if the first panics. Here it is dropped if no worker has started it, as the
/// documentation of `join` says. Otherwise `join` waits for it. It has finished in both cases.
#[test]
fn panic_b_still_executes() {
    judge(|| {
        let queue = pool(2);
        let (mut begun, mut ended) = (false, false);
        let met = Barrier::new(2);
        let text = thrown(|| {
            queue.install(|| {
                join(
                    || {
                        met.wait();
                        panic!("Hello, world!")
                    },
                    || {
                        begun = true;
                        met.wait();
                        judges::sleep_ms(20);
                        ended = true;
                    },
                )
            })
        });
        assert_eq!(text.as_deref(), Some("Hello, world!"));
        assert!(begun && ended, "the second half was left running");
    });
}

#[test]
fn panic_b_unbegun_is_dropped() {
    judge(|| {
        let dropped = judges::Counter::new();
        let guard = dropped.on_drop();
        let text = thrown(|| pool(1).install(|| join(|| panic!("first"), move || drop(guard))));
        assert_eq!((text.as_deref(), dropped.get()), (Some("first"), 1));
    });
}

/// Off a worker, both halves are taken to one.
#[test]
fn join_context_both() {
    judge(|| {
        let here = thread::current().id();
        let both = join(|| thread::current().id(), || thread::current().id());
        assert_ne!(both.0, here);
        assert_ne!(both.1, here);
    });
}

#[test]
fn join_context_neither() {
    judge(|| {
        let ids =
            || (thread::current().id(), join(|| thread::current().id(), || thread::current().id()));
        let (worker, halves) = pool(1).install(ids).unwrap();
        assert_ne!(worker, thread::current().id());
        assert_eq!(halves, (worker, worker));
    });
}

#[test]
fn join_context_second() {
    judge(|| {
        let met = Barrier::new(2);
        let meet = || {
            met.wait();
            thread::current().id()
        };
        let (worker, (first, second)) =
            pool(2).install(|| (thread::current().id(), join(meet, meet))).unwrap();
        assert_eq!(first, worker);
        assert_ne!(second, worker);
    });
}

/// Each join goes to the pool and back, so that its workers fall asleep and are woken over and over.
#[test]
fn join_counter_overflow() {
    const TIMES: u32 = 50_000;
    judge(|| {
        let queue = pool(2);
        let (mut first, mut second) = (0, 0);
        for _ in 0..TIMES {
            queue.install(|| join(|| first += 1, || second += 1)).unwrap();
        }
        assert_eq!((first, second), (TIMES, TIMES));
    });
}
