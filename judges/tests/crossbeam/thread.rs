//! `crossbeam-utils/tests/thread.rs`, `wait_group.rs`.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, mpsc};

use coreshard::WorkScope;
use judges::{Counter, judge, judge_alone, pool, queue, sleep_ms, thrown};

const THREADS: usize = 10;

#[test]
fn join() {
    judge(|| {
        let queue = pool(2);
        let counter = AtomicUsize::new(0);
        queue.scope(|_| {
            queue.install(|| counter.store(1, Relaxed)).unwrap();
            let text = "\"My honey is running out!\", said Pooh.";
            assert_eq!(
                thrown(|| queue.install(|| panic!("{text}")).unwrap()).as_deref(),
                Some(text)
            );
        });
        assert_eq!(counter.into_inner(), 1);
    });
}

#[test]
fn counter() {
    judge(|| {
        let counter = AtomicUsize::new(0);
        pool(2).scope(|scope| {
            for _ in 0..THREADS {
                let add = || {
                    counter.fetch_add(1, Relaxed);
                };
                scope.queue(add).unwrap();
            }
        });
        assert_eq!(counter.into_inner(), THREADS);
    });
}

/// With a stack of a few bytes: one that is large enough for the worker itself is taken.
#[test]
fn counter_builder() {
    judge_alone(|| {
        let counter = AtomicUsize::new(0);
        queue(2, |builder| builder.name("children").stack_bytes(20)).scope(|scope| {
            for _ in 0..THREADS {
                let add = || {
                    counter.fetch_add(1, Relaxed);
                };
                scope.queue(add).unwrap();
            }
        });
        assert_eq!(counter.into_inner(), THREADS);
    });
}

#[test]
fn counter_panic() {
    judge(|| {
        let counter = AtomicUsize::new(0);
        let text = thrown(|| {
            pool(2).scope(|scope| {
                scope.queue(|| panic!("\"My honey is running out!\", said Pooh.")).unwrap();
                sleep_ms(10);
                for _ in 0..THREADS {
                    let add = || {
                        counter.fetch_add(1, Relaxed);
                    };
                    scope.queue(add).unwrap();
                }
            });
        });
        assert_eq!(counter.into_inner(), THREADS);
        assert!(text.is_some_and(|text| text.contains("Pooh")));
    });
}

/// There all panics come together, in a list; here the first one in time comes out.
#[test]
fn panic_twice() {
    judge(|| {
        let queue = pool(2);
        let text = thrown(|| {
            queue.scope(|scope| {
                let (tx, rx) = mpsc::channel::<()>();
                let late = move || {
                    let _ = coreshard::blocking(|| rx.recv());
                    sleep_ms(20);
                    panic!("thread #1");
                };
                scope.queue(late).unwrap();
                let soon = move || {
                    let _at_its_end = tx;
                    panic!("thread #2");
                };
                scope.queue(soon).unwrap();
            });
        });
        assert_eq!(text.as_deref(), Some("thread #2"));
    });
}

#[test]
fn panic_many() {
    judge(|| {
        let text = thrown(|| {
            pool(3).scope(|scope| {
                for number in 1..=3 {
                    scope.queue(move || panic!("deliberate panic #{number}")).unwrap();
                }
            });
        });
        assert!(text.is_some_and(|text| text.starts_with("deliberate panic #")));
    });
}

/// A second panic whose payload panics as it is dropped.
#[test]
fn panic_twice_with_a_payload_that_panics() {
    struct Payload;
    impl Drop for Payload {
        fn drop(&mut self) {
            panic!("the payload panics");
        }
    }
    judge(|| {
        let text = thrown(|| {
            pool(1).scope(|scope| {
                scope.queue(|| panic!("first")).unwrap();
                scope.queue(|| std::panic::panic_any(Payload)).unwrap();
            });
        });
        assert_eq!(text.as_deref(), Some("first"));
    });
}

#[test]
fn nesting() {
    struct Wrapper<'text>(&'text str);
    impl Wrapper<'_> {
        fn recurse<'scope>(&'scope self, scope: &'scope WorkScope<'scope, '_>, depth: usize) {
            assert_eq!(self.0, "foo");
            if depth > 0 {
                scope.queue(move || self.recurse(scope, depth - 1)).unwrap();
            }
        }
    }
    judge(|| {
        let text = String::from("foo");
        let wrapper = Wrapper(&text);
        let wrapped = &wrapper;
        pool(2).scope(|scope| {
            let inner = move || scope.queue(move || wrapped.recurse(scope, 5)).unwrap();
            scope.queue(inner).unwrap();
        });
    });
}

#[test]
fn join_nested() {
    judge(|| {
        let queue = pool(1);
        queue.scope(|scope| {
            let outer = || {
                let inner = queue.submit(|| 7).unwrap();
                sleep_ms(5);
                assert_eq!(inner.join().unwrap(), 7);
            };
            scope.queue(outer).unwrap();
            sleep_ms(2);
        });
    });
}

#[test]
fn scope_returns_ok() {
    judge(|| {
        let queue = pool(1);
        assert_eq!(queue.scope(|_| queue.install(|| 1234).unwrap()), 1234);
    });
}

/// `WaitGroup::wait`: all wait for all, on the queue's own workers.
#[test]
fn wait() {
    judge(|| {
        let queue = pool(2);
        let group = Arc::new(Barrier::new(THREADS + 1));
        let (tx, rx) = mpsc::channel();
        for _ in 0..THREADS {
            let (group, tx) = (Arc::clone(&group), tx.clone());
            let item = move || {
                judges::meet(&group);
                tx.send(()).unwrap();
            };
            queue.queue(item).unwrap();
        }
        sleep_ms(5);
        assert!(rx.try_recv().is_err());
        group.wait();
        (0..THREADS).for_each(|_| rx.recv().unwrap());
    });
}

/// `WaitGroup::wait_and_drop`: members that leave without waiting count as well.
#[test]
fn wait_and_drop() {
    judge(|| {
        let queue = pool(2);
        let (hold, held) = mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        let done = Counter::new();
        for _ in 0..THREADS {
            let (held, guard) = (Arc::clone(&held), done.on_drop());
            let item = move || {
                let _ = coreshard::blocking(|| held.lock().unwrap().recv());
                drop(guard);
            };
            queue.queue(item).unwrap();
        }
        assert_eq!(done.get(), 0);
        drop(hold);
        queue.drain().unwrap();
        assert_eq!(done.get(), THREADS);
    });
}
