//! `rayon-core/src/scope/test.rs`, but for the order of execution.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

use coreshard::{WorkScope, Workqueue};
use judges::{judge, pool, thrown};

use crate::join::numbers;

#[test]
fn scope_empty() {
    judge(|| pool(2).scope(|_| {}));
}

#[test]
fn scope_result() {
    judge(|| assert_eq!(pool(2).scope(|_| 22), 22));
}

#[test]
fn scope_two() {
    judge(|| {
        let counter = AtomicUsize::new(0);
        pool(2).scope(|scope| {
            scope
                .queue(|| {
                    counter.fetch_add(1, SeqCst);
                })
                .unwrap();
            scope
                .queue(|| {
                    counter.fetch_add(10, SeqCst);
                })
                .unwrap();
        });
        assert_eq!(counter.into_inner(), 11);
    });
}

fn leaves<'scope>(scope: &'scope WorkScope<'scope, '_>, counter: &'scope AtomicUsize, size: usize) {
    if size > 1 {
        scope.queue(move || leaves(scope, counter, size / 2)).unwrap();
        scope.queue(move || leaves(scope, counter, size / 2)).unwrap();
    } else {
        counter.fetch_add(1, SeqCst);
    }
}

#[test]
fn scope_divide_and_conquer() {
    judge(|| {
        let counter = AtomicUsize::new(0);
        pool(4).scope(|scope| scope.queue(|| leaves(scope, &counter, 1024)).unwrap());
        assert_eq!(counter.into_inner(), 1024);
    });
}

struct Tree {
    value: u32,
    children: Vec<Tree>,
}

impl Tree {
    /// Up to three children a level.
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
        change: &'scope (impl Fn(&mut u32) + Sync),
        scope: &'scope WorkScope<'scope, '_>,
    ) {
        let Self { value, children } = self;
        let each = move || {
            for child in children {
                scope.queue(move || child.update(change, scope)).unwrap();
            }
        };
        scope.queue(each).unwrap();
        change(value);
    }
}

#[test]
fn update_tree() {
    judge(|| {
        let mut tree = Tree::random(10, &mut numbers(200_000).into_iter());
        let before = tree.values();
        assert!(before.len() > 10, "the tree has {} nodes", before.len());
        let change = |value: &mut u32| *value += 1;
        pool(4).scope(|scope| tree.update(&change, scope));
        let expected: Vec<u32> = before.iter().map(|value| value + 1).collect();
        assert_eq!(tree.values(), expected);
    });
}

/// Returns the maximum stack depth in a chain of items that each queue the next.
fn deepest(queue: &Workqueue, links: usize) -> usize {
    fn link<'scope>(
        scope: &'scope WorkScope<'scope, '_>,
        bottom: usize,
        deepest: &'scope Mutex<usize>,
        left: usize,
    ) {
        let top = 0_u8;
        let depth = bottom.abs_diff(&raw const top as usize);
        let mut most = deepest.lock().unwrap();
        *most = depth.max(*most);
        drop(most);
        if left > 0 {
            scope.queue(move || link(scope, bottom, deepest, left - 1)).unwrap();
        }
    }
    let deepest = Mutex::new(0);
    // Frames are compared on one thread, relative to the first item's frame.
    queue.scope(|scope| {
        let deepest = &deepest;
        let begin = move || {
            let bottom = 0_u8;
            let bottom = &raw const bottom as usize;
            scope.queue(move || link(scope, bottom, deepest, links)).unwrap();
        };
        scope.queue(begin).unwrap();
    });
    deepest.into_inner().unwrap()
}

/// A chain of items does not nest, however long it is.
#[test]
fn linear_stack_growth() {
    judge(|| {
        let queue = pool(1);
        let few = deepest(&queue, 5);
        let many = deepest(&queue, 500);
        let most = few.max(many) - few.min(many);
        assert!(most < 4096, "the stack grew from {few} to {many} bytes");
    });
}

#[test]
#[should_panic(expected = "Hello, world!")]
fn panic_propagate_scope() {
    judge(|| pool(2).scope(|_| panic!("Hello, world!")));
}

#[test]
#[should_panic(expected = "Hello, world!")]
fn panic_propagate_spawn() {
    judge(|| pool(2).scope(|scope| scope.queue(|| panic!("Hello, world!")).unwrap()));
}

#[test]
#[should_panic(expected = "Hello, world!")]
fn panic_propagate_nested_spawn() {
    judge(|| {
        pool(2).scope(|scope| {
            let innermost = || panic!("Hello, world!");
            let inner = move || scope.queue(innermost).unwrap();
            scope.queue(move || scope.queue(inner).unwrap()).unwrap();
        });
    });
}

#[test]
#[should_panic(expected = "Hello, world!")]
fn panic_propagate_nested_scope_spawn() {
    judge(|| {
        let queue = pool(2);
        queue.scope(|outer| {
            let nested = || queue.scope(|inner| inner.queue(|| panic!("Hello, world!")).unwrap());
            outer.queue(nested).unwrap();
        });
    });
}

#[test]
fn panic_propagate_still_execute_1() {
    judge(|| {
        let mut run = false;
        let text = thrown(|| {
            pool(1).scope(|scope| {
                scope.queue(|| panic!("Hello, world!")).unwrap();
                scope.queue(|| run = true).unwrap();
            });
        });
        assert_eq!((text.as_deref(), run), (Some("Hello, world!"), true));
    });
}

#[test]
fn panic_propagate_still_execute_2() {
    judge(|| {
        let mut run = false;
        let text = thrown(|| {
            pool(1).scope(|scope| {
                scope.queue(|| run = true).unwrap();
                scope.queue(|| panic!("Hello, world!")).unwrap();
            });
        });
        assert_eq!((text.as_deref(), run), (Some("Hello, world!"), true));
    });
}

#[test]
fn panic_propagate_still_execute_3() {
    judge(|| {
        let mut run = false;
        let text = thrown(|| {
            pool(1).scope(|scope| {
                scope.queue(|| run = true).unwrap();
                panic!("Hello, world!");
            });
        });
        assert_eq!((text.as_deref(), run), (Some("Hello, world!"), true));
    });
}

#[test]
fn panic_propagate_still_execute_4() {
    judge(|| {
        let mut run = false;
        let text = thrown(|| {
            pool(1).scope(|scope| {
                scope.queue(|| panic!("Hello, world!")).unwrap();
                run = true;
            });
        });
        assert_eq!((text.as_deref(), run), (Some("Hello, world!"), true));
    });
}

#[test]
fn static_scope() {
    static COUNTER: AtomicUsize = AtomicUsize::new(0);
    judge(|| {
        let mut range = 0..100;
        let sum: usize = range.clone().sum();
        let each = &mut range;
        pool(2).scope(|scope| {
            // The loop borrows from here, the items do not.
            for number in each {
                scope
                    .queue(move || {
                        COUNTER.fetch_add(number, Relaxed);
                    })
                    .unwrap();
            }
        });
        assert_eq!(COUNTER.load(Relaxed), sum);
    });
}

#[test]
fn static_scope_fifo() {
    static COUNTER: AtomicUsize = AtomicUsize::new(0);
    judge(|| {
        let mut range = 0..100;
        let sum: usize = range.clone().sum();
        let each = &mut range;
        judges::queue(2, |builder| builder.ordered()).scope(|scope| {
            for number in each {
                scope
                    .queue(move || {
                        COUNTER.fetch_add(number, Relaxed);
                    })
                    .unwrap();
            }
        });
        assert_eq!(COUNTER.load(Relaxed), sum);
    });
}

fn increment(queue: &Workqueue, counters: &[&AtomicUsize]) {
    queue.scope(|scope| {
        for &counter in counters {
            scope
                .queue(move || {
                    counter.fetch_add(1, Relaxed);
                })
                .unwrap();
        }
    });
}

#[test]
fn mixed_lifetime_scope() {
    judge(|| {
        let counter = AtomicUsize::new(0);
        increment(&pool(2), &[&counter; 100]);
        assert_eq!(counter.into_inner(), 100);
    });
}

#[test]
fn mixed_lifetime_scope_fifo() {
    judge(|| {
        let counter = AtomicUsize::new(0);
        increment(&judges::queue(2, |builder| builder.ordered()), &[&counter; 100]);
        assert_eq!(counter.into_inner(), 100);
    });
}
