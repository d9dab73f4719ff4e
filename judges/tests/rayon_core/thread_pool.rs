//! `rayon-core/src/thread_pool/test.rs`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, mpsc};

use coreshard::{Hooks, WorkScope, Workqueue, join};
use judges::{Counter, default_queue, judge, meet, pool, queue, sleep_ms, wait_until};

#[test]
#[should_panic(expected = "Hello, world!")]
fn panic_propagate() {
    judge(|| default_queue().install(|| panic!("Hello, world!")).unwrap());
}

fn join_a_lot(depth: usize) {
    if depth > 0 {
        join(|| join_a_lot(depth - 1), || join_a_lot(depth - 1));
    }
}

/// A queue that counts how many of its workers live, through their hooks.
fn counted(workers: usize) -> (Workqueue, Counter) {
    let alive = Counter::new();
    let (born, gone) = (alive.clone(), alive.clone());
    let hooks = Hooks::new().on_start(move |_| born.add_one()).on_stop(move |_| gone.take_one());
    (queue(workers, |builder| builder.hooks(hooks)), alive)
}

#[test]
fn workers_stop() {
    judge(|| {
        let (queue, alive) = counted(22);
        queue.install(|| join_a_lot(14)).unwrap();
        assert!(alive.get() > 0);
        drop(queue);
        wait_until(|| alive.get() == 0);
    });
}

#[test]
fn sleeper_stop() {
    judge(|| {
        let (queue, alive) = counted(22);
        // All 22 are started, and fall asleep.
        let all = std::sync::Barrier::new(22);
        queue.scope(|scope| {
            for _ in 0..22 {
                scope.queue(|| meet(&all)).unwrap();
            }
        });
        sleep_ms(100);
        drop(queue);
        wait_until(|| alive.get() == 0);
    });
}

/// A stack that no machine has is an error of the queue's making, and leaves no thread behind.
#[test]
fn failed_thread_stack() {
    judge(|| {
        let (started, stopped) = (Counter::new(), Counter::new());
        let (start, stop) = (started.clone(), stopped.clone());
        let hooks =
            Hooks::new().on_start(move |_| start.add_one()).on_stop(move |_| stop.add_one());
        let runtime = judges::runtime(10);
        let builder = runtime.workqueue().stack_bytes(isize::MAX as usize).hooks(hooks);
        let error = builder.build().expect_err("no machine has so large a stack");
        assert!(!error.to_string().is_empty());
        wait_until(|| started.holders() == 1 && stopped.holders() == 1);
        assert_eq!(started.get(), stopped.get());
    });
}

#[test]
fn self_install() {
    judge(|| {
        let queue = pool(1);
        assert!(queue.install(|| queue.install(|| true).unwrap()).unwrap());
    });
}

#[test]
fn mutual_install() {
    judge(|| {
        let (one, other) = (pool(1), pool(1));
        let back = || one.install(|| true).unwrap();
        assert!(one.install(|| other.install(back).unwrap()).unwrap());
    });
}

/// As above, with time for each pool to fall asleep.
#[test]
fn mutual_install_sleepy() {
    judge(|| {
        let (one, other) = (pool(1), pool(1));
        let innermost = || {
            sleep_ms(100);
            true
        };
        let back = || {
            sleep_ms(100);
            one.install(innermost).unwrap()
        };
        assert!(one.install(|| other.install(back).unwrap()).unwrap());
    });
}

#[test]
fn scope_fifo_order() {
    judge(|| {
        let queue = queue(1, |builder| builder.ordered());
        let seen = Mutex::new(Vec::new());
        queue.scope(|scope| {
            let seen = &seen;
            for number in 0..10 {
                scope.queue(move || seen.lock().unwrap().push(number)).unwrap();
            }
        });
        assert_eq!(seen.into_inner().unwrap(), (0..10).collect::<Vec<_>>());
    });
}

#[test]
fn spawn_fifo_order() {
    judge(|| {
        let queue = queue(1, |builder| builder.ordered());
        let (tx, rx) = mpsc::channel();
        let inner = queue.clone();
        let all = move || {
            for number in 0..10 {
                let tx = tx.clone();
                inner.queue(move || tx.send(number).unwrap()).unwrap();
            }
        };
        queue.install(all).unwrap();
        assert_eq!(rx.iter().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    });
}

/// A scope of each queue, one inside the other, and then an item in each.
fn nest<'env>(
    queues: &'env [Workqueue],
    counter: &'env AtomicUsize,
    queue_all: &mut dyn FnMut(),
) -> usize {
    let Some((first, rest)) = queues.split_first() else {
        queue_all();
        return 0;
    };
    first.scope(|scope: &WorkScope<'_, '_>| {
        let mut with_mine = || {
            scope
                .queue(|| {
                    counter.fetch_add(1, Relaxed);
                })
                .unwrap();
            queue_all();
        };
        1 + nest(rest, counter, &mut with_mine)
    })
}

#[test]
fn nested_scopes() {
    judge(|| {
        let queues: Vec<_> = (0..10).map(|_| pool(1)).collect();
        let counter = AtomicUsize::new(0);
        assert_eq!(nest(&queues, &counter, &mut || ()), 10);
        assert_eq!(counter.into_inner(), queues.len());
    });
}

#[test]
fn nested_fifo_scopes() {
    judge(|| {
        let queues: Vec<_> = (0..10).map(|_| queue(1, |builder| builder.ordered())).collect();
        let counter = AtomicUsize::new(0);
        assert_eq!(nest(&queues, &counter, &mut || ()), 10);
        assert_eq!(counter.into_inner(), queues.len());
    });
}

/// The body of a scope runs on the caller's thread, and may wait for its own items.
#[test]
fn in_place_scope_no_deadlock() {
    judge(|| {
        let (tx, rx) = mpsc::channel();
        pool(1).scope(|scope| {
            scope.queue(move || tx.send(()).unwrap()).unwrap();
            rx.recv().unwrap();
        });
    });
}

#[test]
fn in_place_scope_fifo_no_deadlock() {
    judge(|| {
        let (tx, rx) = mpsc::channel();
        queue(1, |builder| builder.ordered()).scope(|scope| {
            scope.queue(move || tx.send(()).unwrap()).unwrap();
            rx.recv().unwrap();
        });
    });
}

/// The same inside an item of the only worker: the wait of a scope's end lets another one run.
#[test]
fn scope_inside_the_only_worker() {
    judge(|| {
        let queue = pool(1);
        let run = Counter::new();
        queue.install(|| queue.scope(|scope| scope.queue(|| run.add_one()).unwrap())).unwrap();
        assert_eq!(run.get(), 1);
    });
}

/// A task that yields lets an item go first that was queued before.
#[test]
fn yield_now_to_spawn() {
    judge(|| {
        let queue = queue(1, |builder| builder.ordered());
        let (tx, rx) = mpsc::channel();
        let inner = queue.clone();
        let task = queue.spawn(async move {
            inner.queue(move || tx.send(22).unwrap()).unwrap();
            coreshard::yield_now().await;
            rx.try_recv()
        });
        assert_eq!(judges::block_on(task.unwrap()), Ok(22));
    });
}

/// `current_thread_index`: what tells workers from others, and from one another, is their name.
#[test]
fn workers_have_names_of_their_own() {
    judge(|| {
        let queue = pool(3);
        let names = Mutex::new(BTreeSet::new());
        let all = std::sync::Barrier::new(3);
        queue.scope(|scope| {
            for _ in 0..3 {
                let tell = || {
                    names.lock().unwrap().insert(std::thread::current().name().map(str::to_owned));
                    meet(&all);
                };
                scope.queue(tell).unwrap();
            }
        });
        let names = names.into_inner().unwrap();
        assert!(names.len() == 3 && !names.contains(&None), "{names:?}");
    });
}
