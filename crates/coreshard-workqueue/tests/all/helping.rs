//! A waiting worker runs only subtasks of the job it waits for. So a wait under a lock ends, and the number of threads does
//! not grow with the nesting depth.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use coreshard_platform::{Host, affinity};
use coreshard_topology::{Scope, Topology};
use coreshard_workqueue::{Runtime, Workqueue, join};
use testing::{NEVER, within};

/// A queue on a machine of one cache with this many CPUs, laid over the real ones.
fn queue(cpus: usize) -> Workqueue<Host> {
    let topology = Topology::from_synthetic(&format!("package:1 l3:1 core:{cpus} pu:1")).unwrap();
    let runtime = Runtime::builder(topology).laid_over(affinity().unwrap()).build().unwrap();
    Box::leak(Box::new(runtime)).workqueue().scope(Scope::System).build().unwrap()
}

/// The number of items. More for a long run: see ci/nightly.sh.
fn items(by_default: u64) -> u64 {
    std::env::var("CORESHARD_HELPING_ITEMS").map_or(by_default, |items| items.parse().unwrap())
}

/// The ways to create subtasks.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Join,
    Scope,
    Loop,
}

fn both(way: Way, queue: &Workqueue<Host>, a: impl FnOnce() + Send, b: impl FnOnce() + Send) {
    match way {
        Way::Join => drop(join::<Host, _, _>(a, b)),
        Way::Scope => queue.scope(|scope| {
            scope.queue(a).unwrap();
            scope.queue(b).unwrap();
        }),
        Way::Loop => {
            let (a, b) = (Mutex::new(Some(a)), Mutex::new(Some(b)));
            let half = |number| {
                if number == 0 {
                    let a = a.lock().unwrap().take();
                    a.expect("called once")();
                } else {
                    let b = b.lock().unwrap().take();
                    b.expect("called once")();
                }
            };
            assert!(queue.for_each_range(0..2, |numbers| numbers.for_each(half)).is_ok());
        }
    }
}

fn tree(way: Way, queue: &Workqueue<Host>, depth: u32, leaf: &(dyn Fn() + Sync)) {
    match depth {
        0 => leaf(),
        _ => both(
            way,
            queue,
            || tree(way, queue, depth - 1, leaf),
            || tree(way, queue, depth - 1, leaf),
        ),
    }
}

fn spread(way: Way, queue: &Workqueue<Host>, items: u64, body: &(dyn Fn() + Sync)) {
    if way == Way::Loop {
        let each = |numbers: Range<usize>| numbers.for_each(|_| body());
        return assert!(queue.for_each_range(0..items as usize, each).is_ok());
    }
    match items {
        0 => {}
        1 => body(),
        _ => both(
            way,
            queue,
            || spread(way, queue, items / 2, body),
            || spread(way, queue, items - items / 2, body),
        ),
    }
}

thread_local! {
    /// This thread is inside an item that holds the lock.
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

/// A parallel loop under a lock, inside a parallel loop.
fn loops_under_a_lock(outer: Way, inner: Way, items: u64, depth: u32) {
    within(NEVER, move || {
        let queue = queue(3);
        let lock = Mutex::new(0);
        let begun_under_it = AtomicBool::new(false);
        let parts = AtomicU64::new(0);
        let inside = queue.install(|| {
            spread(outer, &queue, items, &|| {
                // A worker that waits under the lock must not begin this: it would wait for itself.
                begun_under_it.fetch_or(HOLDS.get(), SeqCst);
                let mut sum = lock.lock().unwrap();
                HOLDS.set(true);
                tree(inner, &queue, depth, &|| {
                    parts.fetch_add(1, SeqCst);
                });
                HOLDS.set(false);
                *sum += 1;
            });
        });
        assert!(inside.is_ok());
        assert!(!begun_under_it.into_inner(), "a waiter began a job that it did not wait for");
        assert_eq!((lock.into_inner().unwrap(), parts.into_inner()), (items, items << depth));
    });
}

#[test]
fn joins_under_a_lock_inside_joins_end() {
    loops_under_a_lock(Way::Join, Way::Join, items(3000), 6);
}

#[test]
fn scopes_under_a_lock_inside_scopes_end() {
    loops_under_a_lock(Way::Scope, Way::Scope, items(1500), 4);
}

#[test]
fn scopes_under_a_lock_inside_joins_end() {
    loops_under_a_lock(Way::Join, Way::Scope, items(1500), 4);
}

#[test]
fn joins_under_a_lock_inside_scopes_end() {
    loops_under_a_lock(Way::Scope, Way::Join, items(1500), 5);
}

#[test]
fn loops_under_a_lock_inside_loops_end() {
    loops_under_a_lock(Way::Loop, Way::Loop, items(1500), 5);
}

#[test]
fn joins_under_a_lock_inside_loops_end() {
    loops_under_a_lock(Way::Loop, Way::Join, items(3000), 6);
}

#[test]
fn loops_under_a_lock_inside_joins_end() {
    loops_under_a_lock(Way::Join, Way::Loop, items(1500), 5);
}

#[test]
fn scopes_under_a_lock_inside_loops_end() {
    loops_under_a_lock(Way::Loop, Way::Scope, items(1500), 4);
}

#[test]
fn loops_under_a_lock_inside_scopes_end() {
    loops_under_a_lock(Way::Scope, Way::Loop, items(1500), 4);
}

/// A value that is made once, in parallel, by the first item that needs it. All others wait for it.
#[test]
fn a_value_is_made_in_parallel_once() {
    within(NEVER, || {
        for _ in 0..items(300).min(10_000) {
            let queue = queue_once();
            let value = std::sync::OnceLock::new();
            let made = AtomicUsize::new(0);
            let asked = AtomicU64::new(0);
            let done = queue.for_each_range(0..64, |numbers| {
                numbers.for_each(|_| {
                    let value = value.get_or_init(|| {
                        made.fetch_add(1, SeqCst);
                        let sum = AtomicU64::new(0);
                        queue
                            .for_each_range(0..64, |numbers| {
                                numbers.for_each(|n| {
                                    sum.fetch_add(n as u64, SeqCst);
                                });
                            })
                            .unwrap();
                        sum.into_inner()
                    });
                    asked.fetch_add(*value, SeqCst);
                })
            });
            assert!(done.is_ok());
            assert_eq!((made.into_inner(), asked.into_inner()), (1, 64 * (63 * 64 / 2)));
        }
    });
}

fn queue_once() -> &'static Workqueue<Host> {
    static QUEUE: std::sync::OnceLock<Workqueue<Host>> = std::sync::OnceLock::new();
    QUEUE.get_or_init(|| queue(2))
}

/// Returns the largest number of workers during `run`, for a queue on this many CPUs.
fn most_workers(cpus: usize, run: impl Fn(&Workqueue<Host>) + Send + Sync) -> usize {
    let queue = queue(cpus);
    queue.install(|| run(&queue)).expect("the queue is open");
    let total = queue.stats().total();
    total.workers
}

/// For a queue on two CPUs, which has three workers when idle. A worker that waits for one that gets no CPU is replaced by
/// another.
const MAX_WORKERS: usize = 8;

fn nested(way: Way, depth: u32) {
    within(NEVER, move || {
        let cpus = 2;
        let leaves = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&leaves);
        let workers = most_workers(cpus, move |queue| {
            tree(way, queue, depth, &|| {
                count.fetch_add(1, SeqCst);
            });
        });
        assert_eq!(leaves.load(SeqCst), 1 << depth);
        assert!(workers <= MAX_WORKERS, "{workers} workers");
    });
}

#[test]
fn joins_sixteen_deep_take_few_threads() {
    nested(Way::Join, 16);
}

#[test]
fn scopes_sixteen_deep_take_few_threads() {
    nested(Way::Scope, 16);
}

fn chain(way: Way, queue: &Workqueue<Host>, depth: u32, ends: &AtomicU64) {
    if depth == 0 {
        return;
    }
    both(
        way,
        queue,
        || {
            ends.fetch_add(1, SeqCst);
        },
        || chain(way, queue, depth - 1, ends),
    );
}

#[test]
fn a_thousand_nested_waits_take_few_threads() {
    within(NEVER, || {
        for way in [Way::Join, Way::Scope] {
            let ends = Arc::new(AtomicU64::new(0));
            let count = Arc::clone(&ends);
            let workers = most_workers(2, move |queue| chain(way, queue, 1000, &count));
            assert_eq!(ends.load(SeqCst), 1000);
            assert!(workers <= MAX_WORKERS, "{workers} workers");
        }
    });
}

/// A worker that waits for a handle runs parts of the handle's item.
#[test]
fn who_waits_for_a_handle_helps() {
    within(NEVER, || {
        let queue = queue(2);
        let leaves = Arc::new(AtomicU64::new(0));
        for _ in 0..200 {
            let (inner, count) = (queue.clone(), Arc::clone(&leaves));
            let outer = queue.submit(move || {
                let (own, count) = (inner.clone(), Arc::clone(&count));
                let item = inner.submit(move || {
                    tree(Way::Join, &own, 8, &|| {
                        count.fetch_add(1, SeqCst);
                    });
                });
                item.unwrap().join().unwrap();
            });
            outer.unwrap().join().unwrap();
        }
        assert_eq!(leaves.load(SeqCst), 200 << 8);
    });
}

/// Items that an item of a scope queues through it also count as inside the caller's item, on any thread. A wait for that
/// item there is an error instead of a hang.
#[test]
fn what_a_part_spawns_is_inside_the_callers_item() {
    within(NEVER, || {
        let queue = queue(2);
        let refused = AtomicU64::new(0);
        for _ in 0..300 {
            let inside = queue.install(|| {
                queue.scope(|scope| {
                    for _ in 0..4 {
                        scope
                            .queue_with(|scope| {
                                for _ in 0..4 {
                                    let wait = || {
                                        refused
                                            .fetch_add(u64::from(queue.flush().is_err()), SeqCst);
                                    };
                                    scope.queue(wait).unwrap();
                                }
                            })
                            .unwrap();
                    }
                });
            });
            assert!(inside.is_ok());
        }
        assert_eq!(refused.into_inner(), 300 * 16);
    });
}
