//! `rayon-core/src/scope/test.rs`: the order of execution, and broadcasts.
//!
//! Rayon's `scope` runs its jobs last in, first out, and its `scope_fifo` first in, first out. An ordered queue is
//! first in, first out, and other queues guarantee no order. The tests of `scope` are therefore omitted, and tests of
//! both use two ordered queues, one inside the other.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};

use coreshard::{CpuId, Scope, WorkScope, Workqueue};
use judges::{judge, meet, queue, thrown};

fn ordered() -> Workqueue {
    queue(1, |builder| builder.ordered())
}

#[test]
fn fifo_order() {
    judge(|| {
        let seen = Mutex::new(Vec::new());
        ordered().scope(|scope| {
            let seen = &seen;
            let all = move || {
                for outer in 0..10 {
                    let each = move || {
                        for inner in 0..10 {
                            let push = move || seen.lock().unwrap().push(outer * 10 + inner);
                            scope.queue(push).unwrap();
                        }
                    };
                    scope.queue(each).unwrap();
                }
            };
            scope.queue(all).unwrap();
        });
        assert_eq!(seen.into_inner().unwrap(), (0..100).collect::<Vec<_>>());
    });
}

#[test]
fn nested_fifo_order() {
    judge(|| {
        let (outer, inner) = (ordered(), ordered());
        let seen = Mutex::new(Vec::new());
        outer.scope(|scope| {
            let (inner, seen) = (&inner, &seen);
            for tens in 0..10 {
                let each = move || {
                    inner.scope(|scope| {
                        for ones in 0..10 {
                            let push = move || seen.lock().unwrap().push(tens * 10 + ones);
                            scope.queue(push).unwrap();
                        }
                    });
                };
                scope.queue(each).unwrap();
            }
        });
        assert_eq!(seen.into_inner().unwrap(), (0..100).collect::<Vec<_>>());
    });
}

/// What goes to one queue keeps its order there, whatever goes to another one in between.
#[test]
fn mixed_fifo_order() {
    judge(|| {
        let (first, second) = (ordered(), ordered());
        let seen = Mutex::new(Vec::new());
        let push = |number: i32| {
            let seen = &seen;
            move || seen.lock().unwrap().push(number)
        };
        first.scope(|outer| {
            outer.queue(push(0)).unwrap();
            second.scope(|inner| {
                inner.queue(push(-1)).unwrap();
                outer.queue(push(1)).unwrap();
                inner.queue(push(-2)).unwrap();
                outer.queue(push(2)).unwrap();
                inner.queue(push(-3)).unwrap();
            });
            outer.queue(push(3)).unwrap();
        });
        let seen = seen.into_inner().unwrap();
        let (positive, negative): (Vec<i32>, Vec<i32>) = seen.into_iter().partition(|n| *n >= 0);
        assert_eq!(positive, [0, 1, 2, 3]);
        assert_eq!(negative, [-1, -2, -3]);
    });
}

/// Creates a queue with a pool for each of `cpus` CPUs.
pub(crate) fn by_cpu(cpus: usize) -> Workqueue {
    queue(cpus, |builder| builder.scope(Scope::Cpu))
}

/// Returns the CPUs of a machine with `cpus` CPUs.
pub(crate) fn cpus(cpus: usize) -> impl Iterator<Item = CpuId> {
    (0..cpus as u32).map(CpuId)
}

fn broadcast<'scope>(
    scope: &'scope WorkScope<'scope, '_>,
    count: usize,
    work: impl Fn(usize) + Send + Sync + Copy + 'scope,
) {
    (0..count).for_each(|index| scope.queue(move || work(index)).unwrap());
}

#[test]
fn scope_spawn_broadcast() {
    judge(|| {
        let sum = AtomicUsize::new(0);
        by_cpu(5).scope(|scope| {
            broadcast(scope, 5, |index| {
                sum.fetch_add(index, Relaxed);
            })
        });
        assert_eq!(sum.into_inner(), 5 * 4 / 2);
    });
}

#[test]
fn scope_spawn_broadcast_nested() {
    judge(|| {
        let sum = AtomicUsize::new(0);
        let add = |index| {
            sum.fetch_add(index, Relaxed);
        };
        by_cpu(5).scope(|scope| broadcast(scope, 5, |_| broadcast(scope, 5, add)));
        assert_eq!(sum.into_inner(), 5 * 5 * 4 / 2);
    });
}

/// Items that wait for one another, and for the one who queued them, all get a worker.
#[test]
fn scope_spawn_broadcast_barrier() {
    judge(|| {
        let barrier = Barrier::new(8);
        by_cpu(7).scope(|scope| {
            broadcast(scope, 7, |_| meet(&barrier));
            barrier.wait();
        });
    });
}

#[test]
fn scope_spawn_broadcast_panic_one() {
    judge(|| {
        let count = AtomicUsize::new(0);
        let work = |index| {
            count.fetch_add(1, Relaxed);
            assert!(index != 3, "Hello, world!");
        };
        let text = thrown(|| by_cpu(7).scope(|scope| broadcast(scope, 7, work)));
        assert_eq!((count.into_inner(), text.as_deref()), (7, Some("Hello, world!")));
    });
}

#[test]
fn scope_spawn_broadcast_panic_many() {
    judge(|| {
        let count = AtomicUsize::new(0);
        let work = |index| {
            count.fetch_add(1, Relaxed);
            assert!(index % 2 != 0, "Hello, world!");
        };
        let text = thrown(|| by_cpu(7).scope(|scope| broadcast(scope, 7, work)));
        assert_eq!((count.into_inner(), text.as_deref()), (7, Some("Hello, world!")));
    });
}
