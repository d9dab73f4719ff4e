//! `src/iter/test.rs`: a whole is run over once, and its parts make up the result.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use judges::{default_queue, judge, pool, thrown};

use crate::iter::{collect, map_reduce};

fn range(end: usize) -> Vec<usize> {
    (0..end).collect()
}

#[test]
fn execute() {
    judge(|| {
        let numbers = range(1024);
        let doubled = pool(4).install(|| collect(&numbers, &|n| n * 2)).unwrap();
        assert_eq!(doubled, numbers.iter().map(|n| n * 2).collect::<Vec<_>>());
    });
}

#[test]
fn execute_range() {
    judge(|| {
        let seen = Mutex::new(BTreeSet::new());
        let note = |piece: std::ops::Range<usize>| seen.lock().unwrap().extend(piece);
        pool(4).for_each_range(0..1024, note).unwrap();
        assert!(seen.into_inner().unwrap().into_iter().eq(0..1024));
    });
}

/// The ranges do not overlap, and none is empty.
#[test]
fn execute_unindexed_range() {
    judge(|| {
        let pieces = Mutex::new(Vec::new());
        pool(4).for_each_range(5..1029, |piece| pieces.lock().unwrap().push(piece)).unwrap();
        let mut pieces = pieces.into_inner().unwrap();
        pieces.sort_by_key(|piece| piece.start);
        assert!(pieces.iter().all(|piece| !piece.is_empty()));
        assert_eq!((pieces[0].start, pieces[pieces.len() - 1].end), (5, 1029));
        assert!(pieces.windows(2).all(|pair| pair[0].end == pair[1].start), "{pieces:?}");
    });
}

#[test]
fn map_sum() {
    judge(|| {
        let numbers = range(1024);
        let sum = pool(4).install(|| map_reduce(&numbers, &|| 0, &|n| n + 1, &|a, b| a + b));
        assert_eq!(sum.unwrap(), numbers.iter().map(|n| n + 1).sum::<usize>());
    });
}

/// The order of the parts is kept, though not the order in time: the sum need not commute.
#[test]
fn map_reduce_with() {
    judge(|| {
        let numbers = range(1024);
        let text = |n: &usize| n.to_string();
        let all = pool(4).install(|| map_reduce(&numbers, &String::new, &text, &|a, b| a + &b));
        assert_eq!(all.unwrap(), numbers.iter().map(usize::to_string).collect::<String>());
    });
}

#[test]
fn check_increment() {
    judge(|| {
        let mut numbers = range(1024);
        pool(4).for_each_mut(&mut numbers, |n| *n += 1).unwrap();
        assert!(numbers.into_iter().eq(1..1025));
    });
}

#[test]
fn check_count() {
    judge(|| {
        let numbers = range(1 << 16);
        let even = |n: &usize| usize::from(n.is_multiple_of(2));
        let count = default_queue().install(|| map_reduce(&numbers, &|| 0, &even, &|a, b| a + b));
        assert_eq!(count.unwrap(), 1 << 15);
    });
}

#[test]
fn min_max() {
    judge(|| {
        let numbers: Vec<usize> = range(1000).iter().map(|n| (n * 7919) % 1009).collect();
        let (least, most) = (|a: usize, b: usize| a.min(b), |a: usize, b: usize| a.max(b));
        let found = pool(3).install(|| {
            coreshard::join(
                || map_reduce(&numbers, &|| usize::MAX, &|n| *n, &least),
                || map_reduce(&numbers, &|| 0, &|n| *n, &most),
            )
        });
        let expected = (*numbers.iter().min().unwrap(), *numbers.iter().max().unwrap());
        assert_eq!(found.unwrap(), expected);
    });
}

#[test]
fn check_sum_filtered_ints() {
    judge(|| {
        let numbers: Vec<i32> = (1..=10).collect();
        let even = |n: &i32| if n % 2 == 0 { *n } else { 0 };
        let sum = pool(2).install(|| map_reduce(&numbers, &|| 0, &even, &|a, b| a + b));
        assert_eq!(sum.unwrap(), 30);
    });
}

#[test]
fn check_flat_map_nested_ranges() {
    judge(|| {
        let outer: Vec<i32> = (0..10).collect();
        let inner = |i: &i32| {
            let numbers: Vec<i32> = (0..10).collect();
            map_reduce(&numbers, &|| 0, &|j| i * j, &|a, b| a + b)
        };
        let sum = pool(2).install(|| map_reduce(&outer, &|| 0, &inner, &|a, b| a + b));
        assert_eq!(sum.unwrap(), (0..10).flat_map(|i| (0..10).map(move |j| i * j)).sum::<i32>());
    });
}

/// An empty range returns at once and calls nothing.
#[test]
fn check_empty() {
    judge(|| {
        let queue = pool(2);
        queue.for_each_range(7..7, |_| panic!("an empty range was handed out")).unwrap();
        queue.for_each_mut(&mut [0_u8; 0], |_| panic!("an empty slice was handed out")).unwrap();
    });
}

#[test]
fn check_once() {
    judge(|| {
        let calls = AtomicUsize::new(0);
        let queue = pool(4);
        queue
            .for_each_mut(&mut [()], |()| {
                calls.fetch_add(1, Relaxed);
            })
            .unwrap();
        let add = |piece: std::ops::Range<usize>| {
            calls.fetch_add(piece.len(), Relaxed);
        };
        queue.for_each_range(41..42, add).unwrap();
        assert_eq!(calls.into_inner(), 2);
    });
}

/// Elements of no size are one call each, however many.
#[test]
fn check_lengths() {
    judge(|| {
        let queue = pool(3);
        for len in [0, 1, 2, 3, 15, 16, 17, 47, 48, 49, 1000] {
            let calls = AtomicUsize::new(0);
            queue
                .for_each_mut(&mut vec![(); len], |()| {
                    calls.fetch_add(1, Relaxed);
                })
                .unwrap();
            assert_eq!(calls.into_inner(), len);
        }
    });
}

/// The end of the range is the largest number there is.
#[test]
fn range_ends_at_the_last_number() {
    judge(|| {
        let count = AtomicUsize::new(0);
        let add = |piece: std::ops::Range<usize>| {
            count.fetch_add(piece.len(), Relaxed);
        };
        pool(2).for_each_range(usize::MAX - 1000..usize::MAX, add).unwrap();
        assert_eq!(count.into_inner(), 1000);
    });
}

/// `tests/iter_panic.rs`.
#[test]
#[should_panic(expected = "boom")]
fn iter_panic() {
    judge(|| {
        let mut numbers = range(0x1_0000);
        pool(2).for_each_mut(&mut numbers, |n| assert!(*n != 0xC000, "boom")).unwrap();
    });
}

/// After a panic of one element the queue works as before, and the call has left nothing behind.
#[test]
fn iter_panic_leaves_the_pool_whole() {
    judge(|| {
        let queue = pool(2);
        for _ in 0..20 {
            let mut numbers = range(1000);
            let text = thrown(|| queue.for_each_mut(&mut numbers, |n| assert!(*n != 500, "boom")));
            assert_eq!(text.as_deref(), Some("boom"));
            queue.for_each_mut(&mut numbers, |n| *n += 1).unwrap();
            assert!(numbers.into_iter().eq(1..1001));
        }
    });
}

/// `tests/cross-pool.rs`: each element waits for another pool.
#[test]
fn cross_pool_busy() {
    judge(|| {
        let (one, other) = (pool(1), pool(1));
        let numbers: Vec<i32> = (1..=100).collect();
        let ask = |n: &i32| other.install(|| *n).unwrap();
        let sum = one.install(|| map_reduce(&numbers, &|| 0, &ask, &|a, b| a + b));
        assert_eq!(sum.unwrap(), 100 * 101 / 2);
    });
}

/// `tests/named-threads.rs`.
#[test]
fn named_threads() {
    judge(|| {
        let numbers = range(10_000);
        let name = |_: &usize| std::thread::current().name().unwrap().to_owned();
        let names = pool(4).install(|| collect(&numbers, &name)).unwrap();
        assert!(names.iter().all(|name| name.starts_with("cs-")), "{}", names[0]);
    });
}

/// `tests/par_bridge_recursion.rs`: joins inside a lock that others of the pool wait for.
#[test]
fn par_bridge_recursion() {
    judge(|| {
        let queue = pool(10);
        let numbers = Mutex::new(0..2_000);
        let next = || {
            let mut numbers = numbers.lock().unwrap();
            let numbers = &mut *numbers;
            // While this worker waits for the second half, it must not begin another's.
            let (number, ()) = coreshard::join(|| numbers.next(), || ());
            number
        };
        let seen = Mutex::new(BTreeSet::new());
        queue.scope(|scope| {
            for _ in 0..10 {
                let take_all = || {
                    while let Some(number) = next() {
                        seen.lock().unwrap().insert(number);
                    }
                };
                scope.queue(take_all).unwrap();
            }
        });
        assert!(seen.into_inner().unwrap().into_iter().eq(0..2_000));
    });
}

/// Scopes, joins and loops of one queue inside one another.
#[test]
fn scope_mix() {
    judge(|| {
        let queue = pool(3);
        let count = AtomicUsize::new(0);
        let add = |n| {
            count.fetch_add(n, Relaxed);
        };
        let numbers = range(1000);
        queue.scope(|scope| {
            scope.queue(|| add(1)).unwrap();
            let both = || {
                coreshard::join(|| add(1), || add(1));
            };
            scope.queue(both).unwrap();
            let sum = || map_reduce(&numbers, &|| 0, &|_| 1, &|a, b| a + b);
            scope.queue(move || add(sum())).unwrap();
            let inside = || {
                queue.scope(|scope| scope.queue(|| add(1)).unwrap());
                queue.for_each_range(0..100, |piece| add(piece.len())).unwrap();
            };
            scope.queue(inside).unwrap();
        });
        assert_eq!(count.into_inner(), 1 + 2 + 1000 + 1 + 100);
    });
}
