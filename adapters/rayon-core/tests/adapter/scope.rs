//! Work that may borrow.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex};

use crate::support::{next, numbers, partition, pool, thrown};
use rayon_core::{
    Scope, ScopeFifo, ThreadPool, current_num_threads, in_place_scope, in_place_scope_fifo, scope,
    scope_fifo,
};

#[test]
fn scope_empty() {
    scope(|_| {});
    scope_fifo(|_| {});
    in_place_scope(|_| {});
    in_place_scope_fifo(|_| {});
}

#[test]
fn scope_result() {
    assert_eq!(scope(|_| 22), 22);
    assert_eq!(scope_fifo(|_| 22), 22);
    assert_eq!(in_place_scope(|_| 22), 22);
    assert_eq!(in_place_scope_fifo(|_| 22), 22);
}

#[test]
fn scope_two() {
    let count = AtomicUsize::new(0);
    scope(|scope| {
        for addend in [1, 10] {
            let count = &count;
            scope.spawn(move |_| {
                count.fetch_add(addend, SeqCst);
            });
        }
    });
    assert_eq!(count.into_inner(), 11);
}

fn leaves<'scope>(scope: &Scope<'scope>, count: &'scope AtomicUsize, size: usize) {
    if size > 1 {
        scope.spawn(move |scope| leaves(scope, count, size / 2));
        scope.spawn(move |scope| leaves(scope, count, size / 2));
    } else {
        count.fetch_add(1, SeqCst);
    }
}

#[test]
fn scope_divide_and_conquer() {
    let count = AtomicUsize::new(0);
    scope(|scope| scope.spawn(|scope| leaves(scope, &count, 1024)));
    assert_eq!(count.into_inner(), 1024);
}

struct Tree {
    value: u32,
    children: Vec<Tree>,
}

impl Tree {
    /// With up to three children at each place.
    fn random(depth: usize, numbers: &mut impl Iterator<Item = u32>) -> Self {
        let value = numbers.next().unwrap() % 1_000_000;
        let count = if depth == 0 { 0 } else { numbers.next().unwrap() % 4 };
        Self { value, children: (0..count).map(|_| Self::random(depth - 1, numbers)).collect() }
    }

    fn values(&self) -> Vec<u32> {
        let below = self.children.iter().flat_map(Self::values);
        std::iter::once(self.value).chain(below).collect()
    }

    fn update<'scope>(
        &'scope mut self,
        scope: &Scope<'scope>,
        change: &'scope (impl Fn(&mut u32) + Sync),
    ) {
        let Self { value, children } = self;
        scope.spawn(move |scope| {
            for child in children {
                scope.spawn(move |scope| child.update(scope, change));
            }
        });
        change(value);
    }
}

#[test]
fn update_tree() {
    let mut tree = Tree::random(10, &mut numbers());
    let before = tree.values();
    assert!(before.len() > 100, "the tree is large enough");
    let add_one = |value: &mut u32| *value += 1;
    scope(|scope| tree.update(scope, &add_one));
    assert!(tree.values().into_iter().eq(before.into_iter().map(|value| value + 1)));
}

/// Returns the stack used by a chain of this many tasks, each spawned by the one before.
fn stack_of_chain(length: usize) -> usize {
    fn go_on<'scope>(scope: &Scope<'scope>, start: usize, most: &'scope Mutex<usize>, left: usize) {
        let here = 0_u8;
        let used = start.abs_diff(std::ptr::from_ref(&here).addr());
        let mut most_yet = most.lock().unwrap();
        *most_yet = used.max(*most_yet);
        drop(most_yet);
        if left > 0 {
            scope.spawn(move |scope| go_on(scope, start, most, left - 1));
        }
    }
    let here = 0_u8;
    let start = std::ptr::from_ref(&here).addr();
    let most = Mutex::new(0);
    scope(|scope| go_on(scope, start, &most, length));
    most.into_inner().unwrap()
}

#[test]
fn linear_stack_growth() {
    let (short, long) = pool(1).install(|| (stack_of_chain(5), stack_of_chain(500)));
    // A task within another would take a hundred times as much.
    assert!(long < short * 2, "{long} and {short}");
}

#[test]
fn panic_propagate_scope() {
    assert_eq!(thrown(|| scope(|_| panic!("hello"))), "hello");
    assert_eq!(thrown(|| scope_fifo(|_| panic!("hello"))), "hello");
    assert_eq!(thrown(|| in_place_scope(|_| panic!("hello"))), "hello");
    assert_eq!(thrown(|| in_place_scope_fifo(|_| panic!("hello"))), "hello");
}

#[test]
fn panic_propagate_spawn() {
    assert_eq!(thrown(|| scope(|scope| scope.spawn(|_| panic!("hello")))), "hello");
}

#[test]
fn panic_propagate_spawn_fifo() {
    assert_eq!(thrown(|| scope_fifo(|scope| scope.spawn_fifo(|_| panic!("hello")))), "hello");
}

#[test]
fn panic_propagate_nested_spawn() {
    let nested = || scope(|s| s.spawn(|s| s.spawn(|s| s.spawn(|_| panic!("hello")))));
    assert_eq!(thrown(nested), "hello");
}

#[test]
fn panic_propagate_nested_scope_spawn() {
    let nested = || scope(|s| s.spawn(|_| scope(|s| s.spawn(|_| panic!("hello")))));
    assert_eq!(thrown(nested), "hello");
}

#[test]
fn panic_propagate_still_execute_1() {
    let mut ran = false;
    let both = || {
        scope(|scope| {
            scope.spawn(|_| panic!("hello"));
            scope.spawn(|_| ran = true);
        });
    };
    assert_eq!(thrown(both), "hello");
    assert!(ran, "the task spawned after it");
}

#[test]
fn panic_propagate_still_execute_2() {
    let mut ran = false;
    let both = || {
        scope(|scope| {
            scope.spawn(|_| ran = true);
            scope.spawn(|_| panic!("hello"));
        });
    };
    assert_eq!(thrown(both), "hello");
    assert!(ran, "the task spawned before it");
}

#[test]
fn panic_propagate_still_execute_3() {
    let mut ran = false;
    let both = || {
        scope(|scope| {
            scope.spawn(|_| ran = true);
            panic!("hello");
        });
    };
    assert_eq!(thrown(both), "hello");
    assert!(ran, "the task spawned by the closure that panicked");
}

#[test]
fn panic_propagate_still_execute_4() {
    let mut ran = false;
    let both = || {
        scope(|scope| {
            scope.spawn(|_| panic!("hello"));
            ran = true;
        });
    };
    assert_eq!(thrown(both), "hello");
    assert!(ran, "the closure of the scope");
}

/// A scope with a longer lifetime than its closure's borrows.
macro_rules! sum_of_static {
    ($scope:ident($Scope:ident).$spawn:ident) => {{
        static SUM: AtomicUsize = AtomicUsize::new(0);
        let mut numbers = 0..100;
        let borrowed = &mut numbers;
        $scope(|scope: &$Scope<'static>| {
            for number in borrowed {
                scope.$spawn(move |_| {
                    SUM.fetch_add(number, Relaxed);
                });
            }
        });
        SUM.load(Relaxed)
    }};
}

#[test]
fn static_scope() {
    assert_eq!(sum_of_static!(scope(Scope).spawn), 4950);
}

#[test]
fn static_scope_fifo() {
    assert_eq!(sum_of_static!(scope_fifo(ScopeFifo).spawn_fifo), 4950);
}

/// Only the closure of the scope borrows the list; the spawned tasks borrow the counters.
macro_rules! count_mixed {
    ($scope:ident($Scope:ident).$spawn:ident) => {{
        fn count<'list, 'counter>(counters: &'list [&'counter AtomicUsize]) {
            $scope(move |scope: &$Scope<'counter>| {
                for &counter in counters {
                    scope.$spawn(move |_| {
                        counter.fetch_add(1, Relaxed);
                    });
                }
            });
        }
        let counter = AtomicUsize::new(0);
        count(&[&counter; 100]);
        counter.into_inner()
    }};
}

#[test]
fn mixed_lifetime_scope() {
    assert_eq!(count_mixed!(scope(Scope).spawn), 100);
}

#[test]
fn mixed_lifetime_scope_fifo() {
    assert_eq!(count_mixed!(scope_fifo(ScopeFifo).spawn_fifo), 100);
}

#[test]
fn scope_spawn_broadcast() {
    let sum = AtomicUsize::new(0);
    let threads = scope(|scope| {
        scope.spawn_broadcast(|_, thread| {
            sum.fetch_add(thread.index(), Relaxed);
        });
        current_num_threads()
    });
    assert_eq!(sum.into_inner(), threads * (threads - 1) / 2);
}

#[test]
fn scope_fifo_spawn_broadcast() {
    let sum = AtomicUsize::new(0);
    let threads = scope_fifo(|scope| {
        scope.spawn_broadcast(|_, thread| {
            sum.fetch_add(thread.index(), Relaxed);
        });
        current_num_threads()
    });
    assert_eq!(sum.into_inner(), threads * (threads - 1) / 2);
}

#[test]
fn scope_spawn_broadcast_nested() {
    let sum = AtomicUsize::new(0);
    let threads = scope(|scope| {
        scope.spawn_broadcast(|scope, _| {
            scope.spawn_broadcast(|_, thread| {
                sum.fetch_add(thread.index(), Relaxed);
            });
        });
        current_num_threads()
    });
    assert_eq!(sum.into_inner(), threads * threads * (threads - 1) / 2);
}

#[test]
fn scope_spawn_broadcast_barrier() {
    let barrier = Barrier::new(8);
    pool(7).in_place_scope(|scope| {
        scope.spawn_broadcast(|_, _| {
            barrier.wait();
        });
        // Eight threads, with this one.
        barrier.wait();
    });
}

fn broadcast_panics(throws: fn(usize) -> bool) -> usize {
    let count = AtomicUsize::new(0);
    let pool = pool(7);
    let all = || {
        pool.scope(|scope| {
            scope.spawn_broadcast(|_, thread| {
                count.fetch_add(1, Relaxed);
                assert!(!throws(thread.index()), "thrown");
            });
        });
    };
    assert_eq!(thrown(all), "thrown");
    count.into_inner()
}

#[test]
fn scope_spawn_broadcast_panic_one() {
    assert_eq!(broadcast_panics(|index| index == 3), 7);
}

#[test]
fn scope_spawn_broadcast_panic_many() {
    assert_eq!(broadcast_panics(|index| index.is_multiple_of(2)), 7);
}

/// A join made with a scope.
#[test]
fn scope_join() {
    fn quick_sort(elements: &mut [u32]) {
        if elements.len() > 1 {
            let middle = partition(elements);
            let (low, high) = elements.split_at_mut(middle);
            scope(|scope| {
                scope.spawn(|_| quick_sort(&mut high[1..]));
                quick_sort(low);
            });
        }
    }
    let mut data: Vec<_> = numbers().take(256).collect();
    quick_sort(&mut data);
    assert!(data.is_sorted());
}

/// Nested scopes with one lifetime, in several pools.
macro_rules! nested {
    ($Scope:ident, $scope:ident, $spawn:ident) => {{
        fn nest<'scope>(
            pools: &[ThreadPool],
            mut scopes: Vec<&$Scope<'scope>>,
            call: impl FnOnce(&[&$Scope<'scope>]) + Send,
        ) {
            match pools.split_first() {
                // The references are shortened, but their targets still have the one lifetime.
                Some((pool, rest)) => pool.$scope(|scope| {
                    let mut scopes: Vec<&$Scope<'scope>> = scopes;
                    scopes.push(scope);
                    nest(rest, scopes, call);
                }),
                None => {
                    scopes.reverse();
                    call(&scopes);
                }
            }
        }
        let pools: Vec<_> = (0..10).map(|_| pool(1)).collect();
        let count = AtomicUsize::new(0);
        nest(&pools, Vec::new(), |scopes| {
            for scope in scopes {
                scope.$spawn(|_| {
                    count.fetch_add(1, Relaxed);
                });
            }
        });
        count.into_inner()
    }};
}

#[test]
fn nested_scopes() {
    assert_eq!(nested!(Scope, scope, spawn), 10);
}

#[test]
fn nested_fifo_scopes() {
    assert_eq!(nested!(ScopeFifo, scope_fifo, spawn_fifo), 10);
}

/// The closure is not on the pool's only thread.
#[test]
fn in_place_scope_no_deadlock() {
    let (say, hear) = channel();
    pool(1).in_place_scope(|scope| {
        scope.spawn(|_| say.send(22).unwrap());
        assert_eq!(next(&hear), 22);
    });
}

#[test]
fn in_place_scope_fifo_no_deadlock() {
    let (say, hear) = channel();
    pool(1).in_place_scope_fifo(|scope| {
        scope.spawn_fifo(|_| say.send(22).unwrap());
        assert_eq!(next(&hear), 22);
    });
}

/// The closure stays on this thread, so its captures need not be `Send`.
#[test]
fn in_place_scope_may_hold_what_cannot_be_sent() {
    let shared = std::rc::Rc::new(21);
    let doubled = Mutex::new(0);
    let number = in_place_scope(|scope| {
        let number = *shared;
        scope.spawn(|scope| scope.spawn(move |_| ()));
        let doubled = &doubled;
        scope.spawn(move |_| *doubled.lock().unwrap() = 2 * number);
        std::rc::Rc::clone(&shared)
    });
    assert_eq!((*number, doubled.into_inner().unwrap()), (21, 42));
}

/// Another thread may spawn in a scope while the scope is open.
#[test]
fn spawned_from_a_thread_of_no_pool() {
    let count = AtomicUsize::new(0);
    scope(|scope| {
        let count = &count;
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..25 {
                        scope.spawn(|_| {
                            count.fetch_add(1, Relaxed);
                        });
                    }
                });
            }
        });
    });
    assert_eq!(count.into_inner(), 100);
}

/// A spawned task is dropped once, whether it returns or panics.
#[test]
fn closures_are_dropped_once() {
    let held = std::sync::Arc::new(());
    let all = || {
        pool(2).scope(|scope| {
            for number in 0..100 {
                let held = std::sync::Arc::clone(&held);
                scope.spawn(move |_| {
                    let _held = held;
                    assert_ne!(number, 50, "thrown");
                });
            }
        });
    };
    thrown(all);
    assert_eq!(std::sync::Arc::strong_count(&held), 1);
}
