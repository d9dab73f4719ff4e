//! Many calls at once, nested calls, and drops in odd places.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;

use crate::support::{all, next, pool};
use rayon_core::{ThreadPoolBuilder, broadcast, join, scope, spawn, yield_now};
use testing::wait_until;

#[test]
fn many_threads_install_in_few() {
    let pool = pool(2);
    let count = AtomicUsize::new(0);
    thread::scope(|threads| {
        for _ in 0..16 {
            threads.spawn(|| {
                for _ in 0..200 {
                    let (left, right) = pool.install(|| join(|| 1, || 1));
                    count.fetch_add(left + right, SeqCst);
                }
            });
        }
    });
    assert_eq!(count.into_inner(), 16 * 200 * 2);
}

/// A pool's last handle is dropped on a thread of the pool.
#[test]
fn dropped_on_its_own_thread() {
    for _ in 0..50 {
        let (say, hear) = channel();
        let pool = Arc::new(pool(2));
        let own = Arc::clone(&pool);
        pool.spawn(move || {
            // Most likely the last one then.
            while Arc::strong_count(&own) > 1 {
                thread::yield_now();
            }
            drop(own);
            spawn(move || say.send(join(|| 1, || 2)).unwrap());
        });
        drop(pool);
        assert_eq!(all(hear), [(1, 2)]);
    }
}

/// Many pools are built and dropped: all their threads exit, after the spawned work.
#[test]
fn pools_come_and_go() {
    let (done, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..100 {
        let hook = {
            let ended = Arc::clone(&ended);
            move |_| {
                ended.fetch_add(1, SeqCst);
            }
        };
        let pool = ThreadPoolBuilder::new().num_threads(3).exit_handler(hook).build().unwrap();
        for _ in 0..10 {
            let done = Arc::clone(&done);
            pool.spawn(move || {
                spawn(move || {
                    done.fetch_add(1, SeqCst);
                });
            });
        }
    }
    wait_until("all threads have ended", || ended.load(SeqCst) == 300);
    assert_eq!(done.load(SeqCst), 1_000);
}

#[test]
fn broadcasts_within_broadcasts() {
    let pool = pool(3);
    let count = AtomicUsize::new(0);
    let indexes = pool.broadcast(|outer| {
        let inner = broadcast(|inner| {
            count.fetch_add(1, SeqCst);
            inner.index()
        });
        (outer.index(), inner)
    });
    assert_eq!(indexes, [0, 1, 2].map(|index| (index, vec![0, 1, 2])));
    assert_eq!(count.into_inner(), 9);
}

/// All calls, nested in one another.
#[test]
fn everything_within_everything() {
    fn go(depth: usize, count: &AtomicUsize) {
        count.fetch_add(1, SeqCst);
        if depth == 0 {
            return;
        }
        join(
            || scope(|scope| scope.spawn(|_| go(depth - 1, count))),
            || {
                rayon_core::in_place_scope_fifo(|scope| {
                    scope.spawn_fifo(|_| go(depth - 1, count));
                    scope.spawn_broadcast(|_, thread| {
                        if thread.index() == 0 {
                            go(depth - 1, count);
                        }
                    });
                });
            },
        );
        if depth == 2 {
            broadcast(|thread| {
                if thread.index() == 0 {
                    go(0, count);
                }
            });
        }
    }
    let count = AtomicUsize::new(0);
    pool(3).install(|| go(5, &count));
    // 3 calls from each but the last, and one more from each of those with 2 left: 1 + 3 + 9 + 27 + 81 + 243, and 27.
    assert_eq!(count.into_inner(), 364 + 27);
}

#[test]
fn a_thread_that_yields_does_the_rest() {
    let pool = pool(1);
    let flag = Arc::new(AtomicBool::new(false));
    pool.install(|| {
        for _ in 0..10 {
            spawn(|| ());
        }
        let set = Arc::clone(&flag);
        rayon_core::spawn_fifo(move || set.store(true, SeqCst));
        wait_until("it ran", || {
            yield_now();
            flag.load(SeqCst)
        });
    });
}

/// Panics on all threads at once do not change a pool.
#[test]
fn after_many_panics() {
    let pool = pool(3);
    for round in 0..100 {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            pool.scope(|scope| {
                for number in 0..10 {
                    scope.spawn(move |_| {
                        join(|| assert_ne!(number, 3), || assert_ne!(number, 7));
                    });
                }
                scope.spawn_broadcast(move |_, thread| assert_ne!(thread.index(), round % 3));
            });
        }));
        assert!(outcome.is_err());
    }
    assert_eq!(pool.broadcast(|thread| thread.index()), [0, 1, 2]);
    assert_eq!(pool.join(|| 1, || 2), (1, 2));
}

/// The contents of results and payloads are dropped once.
#[test]
fn nothing_is_lost_by_a_panic() {
    let held = Arc::new(());
    let hold = || Arc::clone(&held);
    let pool = pool(2);
    for _ in 0..50 {
        let first = catch_unwind(AssertUnwindSafe(|| {
            pool.join(|| -> Arc<()> { std::panic::panic_any(hold()) }, hold)
        }));
        assert!(first.is_err());
        let second = catch_unwind(AssertUnwindSafe(|| {
            pool.join(hold, || -> Arc<()> { std::panic::panic_any(hold()) })
        }));
        assert!(second.is_err());
        let both = catch_unwind(AssertUnwindSafe(|| {
            let throw = || -> Arc<()> { std::panic::panic_any(hold()) };
            pool.join(throw, throw)
        }));
        assert!(both.is_err());
        let some = catch_unwind(AssertUnwindSafe(|| {
            pool.broadcast(|thread| if thread.index() == 1 { panic!("one") } else { hold() })
        }));
        assert!(some.is_err());
        let scope = catch_unwind(AssertUnwindSafe(|| {
            pool.scope(|scope| {
                scope.spawn(|_| std::panic::panic_any(hold()));
                scope.spawn(|_| std::panic::panic_any(hold()));
                hold()
            })
        }));
        assert!(scope.is_err());
        drop((first, second, both, some, scope));
    }
    assert_eq!(Arc::strong_count(&held), 1);
}

/// A handler may itself use the pool.
#[test]
fn a_panic_handler_that_spawns() {
    let (say, hear) = channel();
    let pool = ThreadPoolBuilder::new()
        .num_threads(1)
        .panic_handler(move |_| {
            let say = say.clone();
            spawn(move || say.send(join(|| 1, || 2)).unwrap());
        })
        .build()
        .unwrap();
    pool.spawn(|| panic!("hello"));
    assert_eq!(next(&hear), (1, 2));
}

/// The same for hooks: they run on the pool's threads.
#[test]
fn a_start_handler_that_spawns() {
    let (say, hear) = channel();
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .start_handler(move |index| {
            let say = say.clone();
            spawn(move || say.send(index).unwrap());
        })
        .build()
        .unwrap();
    let mut indexes = [next(&hear), next(&hear)];
    indexes.sort_unstable();
    assert_eq!(indexes, [0, 1]);
    drop(pool);
}

/// A detached task does not delay the end of a scope that does not need it.
#[test]
fn a_scope_ends_beside_a_task_that_does_not() {
    let pool = pool(2);
    let (say, hear) = channel::<()>();
    pool.spawn(move || _ = hear.recv());
    let mut value = 0;
    pool.scope(|scope| scope.spawn(|_| value = 22));
    assert_eq!(value, 22);
    say.send(()).unwrap();
}
