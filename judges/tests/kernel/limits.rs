//! `max_active`, freezing, and changes to a queue in use.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use coreshard::{Scope, Work, Workqueue};
use judges::{Counter, judge, meet, pool, queue, sleep_ms, wait_until};

use crate::work::counting;

/// How many of `count` items were inside at once, at most.
fn most_at_once(queue: &Workqueue, count: usize) -> usize {
    let inside = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    for _ in 0..count {
        let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
        let item = move || {
            most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
            coreshard::blocking(|| sleep_ms(1));
            inside.fetch_sub(1, SeqCst);
        };
        queue.queue(item).unwrap();
    }
    queue.flush().unwrap();
    most.load(SeqCst)
}

/// "@max_active determines the maximum number of execution contexts which can be assigned to the work
/// items of a wq."
#[test]
fn max_active_is_not_exceeded() {
    judge(|| {
        for limit in [1, 3, 7] {
            let most = most_at_once(&queue(4, |builder| builder.max_active(limit)), 100);
            assert!((1..=limit).contains(&most), "{most} at once under a limit of {limit}");
        }
    });
}

/// That many waiting items do run at the same time.
#[test]
fn max_active_is_reached() {
    judge(|| {
        let queue = queue(1, |builder| builder.max_active(6));
        let all = Barrier::new(6);
        queue.scope(|scope| (0..6).for_each(|_| scope.queue(|| meet(&all)).unwrap()));
    });
}

/// Waiting items run in the order of their arrival.
#[test]
fn max_active_keeps_the_order_of_what_waits() {
    judge(|| {
        let queue = queue(4, |builder| builder.max_active(1));
        let seen = Arc::new(Mutex::new(Vec::new()));
        for number in 0..1_000 {
            let seen = Arc::clone(&seen);
            queue.queue(move || seen.lock().unwrap().push(number)).unwrap();
        }
        queue.flush().unwrap();
        assert!(seen.lock().unwrap().iter().copied().eq(0..1_000));
    });
}

/// Eight items that wait for one another get on under any limit of eight or more, on each node.
#[test]
fn min_active_lets_interdependent_items_get_on() {
    judge(|| {
        let queue = queue(2, |builder| builder.max_active_by_node(8));
        let all = Barrier::new(8);
        queue.scope(|scope| (0..8).for_each(|_| scope.queue(|| meet(&all)).unwrap()));
    });
}

/// `workqueue_set_max_active`: waiting items can start at once.
#[test]
fn set_max_active_lets_what_waits_go() {
    judge(|| {
        let queue = queue(1, |builder| builder.max_active(1));
        let all = Arc::new(Barrier::new(3));
        for _ in 0..3 {
            let all = Arc::clone(&all);
            queue.queue(move || meet(&all)).unwrap();
        }
        assert_eq!(queue.stats().waiting, 2);
        queue.change().max_active(3).apply().unwrap();
        queue.flush().unwrap();
    });
}

/// Lowered: no further item begins above it.
#[test]
fn set_max_active_to_less() {
    judge(|| {
        let queue = queue(4, |builder| builder.max_active(8));
        assert!(most_at_once(&queue, 50) <= 8);
        queue.change().max_active(2).apply().unwrap();
        assert!(most_at_once(&queue, 50) <= 2);
    });
}

/// A cancelled item that waited gives its turn away.
#[test]
fn a_cancel_of_what_waits_for_its_turn() {
    judge(|| {
        let queue = queue(1, |builder| builder.max_active(1));
        let (tx, rx) = std::sync::mpsc::channel::<()>();
        let hold = move || {
            let _ = coreshard::blocking(|| rx.recv());
        };
        queue.queue(hold).unwrap();
        let (works, runs): (Vec<_>, Vec<_>) = (0..10).map(|_| counting()).unzip();
        works.iter().for_each(|work| assert!(work.queue(&queue).unwrap()));
        works[..9].iter().for_each(|work| assert!(work.cancel()));
        drop(tx);
        queue.flush().unwrap();
        assert_eq!(runs.iter().map(Counter::get).sum::<usize>(), 1);
    });
}

/// `WQ_FREEZABLE`: "work items on the wq are drained and no new work item starts execution until thawed".
#[test]
fn a_frozen_queue_begins_nothing() {
    judge(|| {
        let queue = pool(2);
        queue.freeze().unwrap();
        assert!(queue.stats().is_frozen);
        let run = Counter::new();
        for _ in 0..100 {
            let count = run.clone();
            queue.queue(move || count.add_one()).unwrap();
        }
        sleep_ms(10);
        assert_eq!((run.get(), queue.stats().waiting), (0, 100));
        queue.thaw().unwrap();
        queue.flush().unwrap();
        assert_eq!(run.get(), 100);
    });
}

/// A delay that ends while the queue is frozen waits there.
#[test]
fn a_delay_ends_in_a_frozen_queue() {
    judge(|| {
        let queue = pool(1);
        let (work, runs) = counting();
        queue.freeze().unwrap();
        work.queue_after(&queue, judges::ms(2)).unwrap();
        wait_until(|| queue.stats().waiting == 1);
        assert_eq!((runs.get(), work.is_pending()), (0, true));
        queue.thaw().unwrap();
        work.flush().unwrap();
        assert_eq!(runs.get(), 1);
    });
}

/// `apply_workqueue_attrs`: "items which are already in flight finish on the previous ones".
#[test]
fn attributes_are_changed_under_load() {
    judge(|| {
        let queue = pool(4);
        let run = Arc::new(AtomicUsize::new(0));
        thread::scope(|threads| {
            let (queue, run) = (&queue, &run);
            let producer = threads.spawn(move || {
                for _ in 0..20_000 {
                    let run = Arc::clone(run);
                    let count = move || {
                        run.fetch_add(1, SeqCst);
                    };
                    queue.queue(count).unwrap();
                }
            });
            for scope in [Scope::Cpu, Scope::System, Scope::Cache].into_iter().cycle() {
                queue.change().scope(scope).apply().unwrap();
                if producer.is_finished() {
                    break;
                }
            }
        });
        queue.flush().unwrap();
        assert_eq!(run.load(SeqCst), 20_000);
    });
}

/// An ordered queue keeps its order over a change, and refuses another limit.
#[test]
fn attributes_of_an_ordered_queue() {
    judge(|| {
        let queue = queue(4, |builder| builder.ordered());
        let seen = Arc::new(Mutex::new(Vec::new()));
        for number in 0..500 {
            let seen = Arc::clone(&seen);
            queue.queue(move || seen.lock().unwrap().push(number)).unwrap();
            if number % 100 == 50 {
                let scope = if number % 200 == 50 { Scope::Cpu } else { Scope::System };
                queue.change().scope(scope).apply().unwrap();
            }
        }
        queue.flush().unwrap();
        assert!(seen.lock().unwrap().iter().copied().eq(0..500));
        assert!(queue.change().max_active(4).apply().is_err());
        assert!(queue.submit(|| ()).unwrap().join().is_ok());
    });
}

/// A change from inside an item of the queue.
#[test]
fn attributes_are_changed_by_an_item() {
    judge(|| {
        let queue = pool(2);
        let inner = queue.clone();
        let change = move || inner.change().scope(Scope::Cpu).apply().is_ok();
        assert!(queue.submit(change).unwrap().join().unwrap());
        assert_eq!(queue.stats().scope, Scope::Cpu);
        let work = Work::new(|_| ());
        work.queue(&queue).unwrap();
        work.flush().unwrap();
    });
}
