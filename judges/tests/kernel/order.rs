//! `alloc_ordered_workqueue`: "at most one work item at any given time in the queued order".

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use coreshard::{Scope, Work, Workqueue};
use judges::{judge, queue, wait_until};

use crate::work::counting;

fn ordered(workers: usize) -> Workqueue {
    queue(workers, |builder| builder.ordered())
}

/// Runs items that record their number and check that no other item runs at the same time.
fn run_in_order(queue: &Workqueue, count: usize) -> Vec<usize> {
    let inside = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(Mutex::new(Vec::new()));
    for number in 0..count {
        let (inside, seen) = (Arc::clone(&inside), Arc::clone(&seen));
        let item = move || {
            assert!(!inside.swap(true, SeqCst), "two items run");
            seen.lock().unwrap().push(number);
            inside.store(false, SeqCst);
        };
        queue.queue(item).unwrap();
    }
    queue.flush().unwrap();
    Arc::into_inner(seen).unwrap().into_inner().unwrap()
}

#[test]
fn an_ordered_queue_keeps_the_order() {
    judge(|| assert!(run_in_order(&ordered(4), 5_000).into_iter().eq(0..5_000)));
}

/// Each CPU has a separate pool.
#[test]
fn an_ordered_queue_keeps_the_order_across_pools() {
    judge(|| {
        let queue = queue(4, |builder| builder.ordered().scope(Scope::Cpu));
        let seen = Arc::new(Mutex::new(Vec::new()));
        for number in 0..2_000_u32 {
            let seen = Arc::clone(&seen);
            let item = move || seen.lock().unwrap().push(number);
            queue.queue_on(coreshard::CpuId(number % 4), item).unwrap();
        }
        queue.flush().unwrap();
        assert!(seen.lock().unwrap().iter().copied().eq(0..2_000));
    });
}

/// The order of several producers is that of each of them.
#[test]
fn an_ordered_queue_keeps_the_order_of_each_producer() {
    judge(|| {
        let queue = ordered(4);
        let seen = Arc::new(Mutex::new([const { Vec::<usize>::new() }; 4]));
        thread::scope(|threads| {
            for producer in 0..4 {
                let (queue, seen) = (&queue, &seen);
                threads.spawn(move || {
                    for number in 0..500 {
                        let seen = Arc::clone(seen);
                        let item = move || seen.lock().unwrap()[producer].push(number);
                        queue.queue(item).unwrap();
                    }
                });
            }
        });
        queue.flush().unwrap();
        assert!(seen.lock().unwrap().iter().all(|list| list.iter().copied().eq(0..500)));
    });
}

/// An item that waits in the middle keeps all others from running, and loses none.
#[test]
fn an_ordered_queue_waits_for_an_item_that_sleeps() {
    judge(|| {
        let queue = ordered(4);
        let over = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&over);
        let first = move || {
            coreshard::blocking(|| judges::sleep_ms(20));
            done.store(true, SeqCst);
        };
        queue.queue(first).unwrap();
        let second = queue.submit(move || over.load(SeqCst)).unwrap();
        assert!(second.join().unwrap());
    });
}

/// Reusable items keep the order, and so do delayed items from the time when they are queued.
#[test]
fn work_items_of_an_ordered_queue_keep_the_order() {
    judge(|| {
        let queue = ordered(2);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let works: Vec<_> = (0..100)
            .map(|number| {
                let seen = Arc::clone(&seen);
                Work::new(move |_| seen.lock().unwrap().push(number))
            })
            .collect();
        for _ in 0..3 {
            works.iter().for_each(|work| assert!(work.queue(&queue).unwrap()));
            queue.flush().unwrap();
            assert!(std::mem::take(&mut *seen.lock().unwrap()).into_iter().eq(0..100));
        }
    });
}

/// A cancelled item leaves no gap that others fall into.
#[test]
fn a_cancel_in_an_ordered_queue() {
    judge(|| {
        let queue = ordered(2);
        queue.freeze().unwrap();
        let (works, runs): (Vec<_>, Vec<_>) = (0..50).map(|_| counting()).unzip();
        works.iter().for_each(|work| assert!(work.queue(&queue).unwrap()));
        works.iter().step_by(2).for_each(|work| assert!(work.cancel()));
        queue.thaw().unwrap();
        queue.flush().unwrap();
        assert!(runs.iter().enumerate().all(|(number, count)| count.get() == number % 2));
    });
}

/// Two items that wait for one another through another queue: no order of the one keeps the other.
#[test]
fn ordered_queues_do_not_wait_for_one_another() {
    judge(|| {
        let (first, second) = (ordered(1), ordered(1));
        let reached = Arc::new(AtomicUsize::new(0));
        let meet = || {
            let reached = Arc::clone(&reached);
            move || {
                reached.fetch_add(1, SeqCst);
                coreshard::blocking(|| wait_until(|| reached.load(SeqCst) == 2));
            }
        };
        first.queue(meet()).unwrap();
        second.queue(meet()).unwrap();
        first.flush().unwrap();
        second.flush().unwrap();
    });
}

/// A flush of an item behind the caller would hang. This is an error here, while the kernel hangs.
#[test]
fn a_flush_of_what_waits_behind_the_caller() {
    judge(|| {
        let queue = ordered(1);
        let (work, runs) = counting();
        let (inner, behind) = (queue.clone(), work.clone());
        let item = move || {
            behind.queue(&inner).unwrap();
            behind.flush().is_err()
        };
        assert!(queue.submit(item).unwrap().join().unwrap());
        work.flush().unwrap();
        assert_eq!(runs.get(), 1);
    });
}

/// An ordered queue of many items is not starved by a busy neighbour on the same pools.
#[test]
fn an_ordered_queue_gets_on_beside_a_busy_one() {
    judge(|| {
        let runtime = judges::runtime(2);
        let busy = runtime.workqueue().build().unwrap();
        let queue = runtime.workqueue().ordered().build().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..4 {
            let (again, stopped) = (busy.clone(), Arc::clone(&stop));
            let work = Work::new(move |work: &Work| {
                if !stopped.load(SeqCst) {
                    work.queue(&again).unwrap();
                }
            });
            work.queue(&busy).unwrap();
        }
        assert!(run_in_order(&queue, 200).into_iter().eq(0..200));
        stop.store(true, SeqCst);
    });
}
