//! `crossbeam-deque/tests`: each element is taken exactly once, by any thread. Forked jobs are on the worker's deque;
//! items are in the pool's intake, from which all its workers take.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use coreshard::{Intake, Scope, Workqueue, join};
use judges::{Counter, judge, meet, pool, queue, wait_until};

fn of_each_intake(workers: usize, test: impl Fn(&Workqueue)) {
    Intake::ALL.into_iter().for_each(|intake| test(&queue(workers, |b| b.intake(intake))));
}

#[test]
fn smoke() {
    judge(|| {
        of_each_intake(1, |queue| {
            for number in 0..5 {
                assert_eq!(queue.submit(move || number).unwrap().join().unwrap(), number);
            }
        });
    });
}

#[test]
fn is_empty() {
    judge(|| {
        of_each_intake(1, |queue| {
            assert_eq!(queue.stats().in_flight(), 0);
            queue.freeze().unwrap();
            queue.queue(|| ()).unwrap();
            assert_eq!((queue.stats().in_flight(), queue.stats().waiting), (1, 1));
            queue.thaw().unwrap();
            queue.drain().unwrap();
            assert_eq!(queue.stats().in_flight(), 0);
        });
    });
}

#[test]
fn spsc() {
    const STEPS: usize = 20_000;
    judge(|| {
        of_each_intake(1, |queue| {
            let seen = Counter::new();
            for number in 0..STEPS {
                let seen = seen.clone();
                queue.queue(move || assert!(seen.next() <= number + 64)).unwrap();
            }
            queue.flush().unwrap();
            assert_eq!(seen.get(), STEPS);
        });
    });
}

#[test]
fn mpmc() {
    const COUNT: usize = 5_000;
    const THREADS: usize = 4;
    judge(|| {
        of_each_intake(THREADS, |queue| {
            let seen: Arc<Vec<AtomicUsize>> =
                Arc::new((0..COUNT).map(|_| AtomicUsize::new(0)).collect());
            thread::scope(|threads| {
                for _ in 0..THREADS {
                    threads.spawn(|| {
                        for number in 0..COUNT {
                            let seen = Arc::clone(&seen);
                            let item = move || {
                                seen[number].fetch_add(1, SeqCst);
                            };
                            queue.queue(item).unwrap();
                        }
                    });
                }
            });
            queue.flush().unwrap();
            assert!(seen.iter().all(|count| count.load(SeqCst) == THREADS));
        });
    });
}

/// All that is there at once, taken by all workers at once.
#[test]
fn stampede() {
    const COUNT: usize = 20_000;
    judge(|| {
        of_each_intake(8, |queue| {
            let left = Arc::new(AtomicUsize::new(COUNT));
            queue.freeze().unwrap();
            for _ in 0..COUNT {
                let left = Arc::clone(&left);
                let item = move || {
                    left.fetch_sub(1, SeqCst);
                };
                queue.queue(item).unwrap();
            }
            queue.thaw().unwrap();
            wait_until(|| left.load(SeqCst) == 0);
        });
    });
}

/// Pushes and pops of the owner in no order, beside thieves: here, joins of all depths.
#[test]
fn stress() {
    fn count(size: usize, hits: &AtomicUsize) {
        hits.fetch_add(1, Relaxed);
        if size > 1 {
            // Uneven, so that thieves find pieces of all sizes.
            let some = 1 + size / 7;
            join(|| count(some.min(size - 1), hits), || count((size - some).max(1), hits));
        }
    }
    fn expected(size: usize) -> usize {
        if size <= 1 {
            return 1;
        }
        let some = 1 + size / 7;
        1 + expected(some.min(size - 1)) + expected((size - some).max(1))
    }
    judge(|| {
        let queue = pool(8);
        for size in [1, 2, 100, 3_000] {
            let hits = AtomicUsize::new(0);
            queue.install(|| count(size, &hits)).unwrap();
            assert_eq!(hits.into_inner(), expected(size));
        }
    });
}

/// Each worker gets something to do, though the others take all they can.
#[test]
fn no_starvation() {
    const WORKERS: usize = 4;
    judge(|| {
        let queue = pool(WORKERS);
        let seen = Mutex::new(std::collections::BTreeSet::new());
        let done = AtomicBool::new(false);
        while !done.load(SeqCst) {
            queue.scope(|scope| {
                for _ in 0..100 {
                    let tell = || {
                        thread::yield_now();
                        let mut seen = seen.lock().unwrap();
                        seen.insert(thread::current().name().unwrap().to_owned());
                        done.fetch_or(seen.len() >= WORKERS, SeqCst);
                    };
                    scope.queue(tell).unwrap();
                }
            });
        }
    });
}

/// Each item is dropped once: items that ran, stolen items, and remaining items.
#[test]
fn destructors() {
    const COUNT: usize = 5_000;
    judge(|| {
        of_each_intake(4, |queue| {
            let dropped = Counter::new();
            for _ in 0..COUNT {
                let guard = dropped.on_drop();
                queue.queue(move || drop(guard)).unwrap();
            }
            for number in 0..COUNT {
                let guard = dropped.on_drop();
                let item = move || {
                    let _guard = guard;
                    assert!(number % 100 != 0, "one in a hundred panics");
                };
                queue.queue(item).unwrap();
            }
            queue.flush().unwrap();
            assert_eq!(dropped.get(), 2 * COUNT);
        });
    });
}

/// `injector::stack_overflow`: large items do not go over a stack.
#[test]
fn stack_overflow() {
    judge(|| {
        of_each_intake(1, |queue| {
            let large = [7_u8; 32_768];
            let sum = queue.submit(move || large.iter().map(|byte| u64::from(*byte)).sum::<u64>());
            assert_eq!(sum.unwrap().join().unwrap(), 7 * 32_768);
        });
    });
}

/// `steal_fifo`: a thief takes the oldest job: the largest one.
#[test]
fn steal_fifo() {
    judge(|| {
        let stolen = pool(2).install(|| {
            let (met, here) = (Barrier::new(2), thread::current().id());
            let oldest = || {
                meet(&met);
                thread::current().id()
            };
            // The younger jobs wait until another worker has stolen the oldest.
            let ((), thief) = join(
                || {
                    join(
                        || {
                            join(
                                || {
                                    met.wait();
                                },
                                || (),
                            )
                        },
                        || (),
                    );
                },
                oldest,
            );
            thief != here
        });
        assert!(stolen.unwrap());
    });
}

/// `steal_batch_*`: a claim of many items that a worker has is open to thieves.
#[test]
fn steal_batch() {
    judge(|| {
        of_each_intake(2, |queue| {
            let met = Arc::new(Barrier::new(2));
            queue.freeze().unwrap();
            // The first and the last item that one worker would claim at once wait for each other.
            for number in 0..32 {
                let met = Arc::clone(&met);
                let item = move || {
                    if number == 0 || number == 31 {
                        met.wait();
                    }
                };
                queue.queue(item).unwrap();
            }
            queue.thaw().unwrap();
            queue.flush().unwrap();
        });
    });
}

/// `steal_injector`: jobs of a pool without an idle worker are taken by another pod's.
#[test]
fn steal_from_another_pod() {
    judge(|| {
        let queue = queue(2, |builder| builder.scope(Scope::Cpu));
        let met = Barrier::new(2);
        let both = || join(|| met.wait().is_leader(), || met.wait().is_leader());
        let (first, second) = queue.install(both).unwrap();
        assert!(first != second);
    });
}
