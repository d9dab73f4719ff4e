//! `flush_work`, `flush_workqueue`, `drain_workqueue`, `destroy_workqueue`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use coreshard::{RefusedReason, Work};
use judges::{Counter, judge, ms, pool, sleep_ms, spawn_waiting, wait_until};

use crate::work::{Gated, counting};

/// `flush_work`: "true if it waited for the work to finish, false if it was already idle".
#[test]
fn flush_work_says_whether_it_waited() {
    judge(|| {
        let queue = pool(1);
        let gated = Gated::new();
        assert!(!gated.work.flush().unwrap());
        gated.work.queue(&queue).unwrap();
        gated.wait_until_begun();
        thread::scope(|threads| {
            let flush = spawn_waiting(threads, || gated.work.flush().unwrap());
            sleep_ms(5);
            assert!(!flush.is_finished());
            gated.go_on();
            assert!(flush.join().unwrap());
        });
        assert_eq!(gated.runs.get(), 1);
        assert!(!gated.work.flush().unwrap());
    });
}

/// It waits for the latest queueing before the call, so for both of one that runs and one that waits.
#[test]
fn flush_work_waits_for_the_latest_queueing() {
    judge(|| {
        let queue = pool(2);
        let gated = Gated::new();
        gated.work.queue(&queue).unwrap();
        gated.wait_until_begun();
        gated.work.queue(&queue).unwrap();
        thread::scope(|threads| {
            let flush = spawn_waiting(threads, || gated.work.flush().unwrap());
            gated.go_on();
            gated.wait_until_begun();
            sleep_ms(5);
            assert!(!flush.is_finished());
            gated.go_on();
            assert!(flush.join().unwrap());
        });
        assert_eq!(gated.runs.get(), 2);
    });
}

/// An item that queues itself without end does not keep a flush for ever.
#[test]
fn flush_work_ends_though_the_item_queues_itself() {
    judge(|| {
        let queue = pool(1);
        let (inner, stop) = (queue.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let work = Work::new(move |work: &Work| {
            if !stopped.load(SeqCst) {
                work.queue(&inner).unwrap();
            }
        });
        work.queue(&queue).unwrap();
        for _ in 0..20 {
            work.flush().unwrap();
        }
        stop.store(true, SeqCst);
    });
}

/// A flush inside an item of another queue lets that queue's others run meanwhile.
#[test]
fn flush_work_inside_an_item_of_another_queue() {
    judge(|| {
        let (outer, inner) = (pool(1), pool(1));
        let gated = Gated::new();
        gated.work.queue(&inner).unwrap();
        gated.wait_until_begun();
        let work = gated.work.clone();
        outer.queue(move || assert!(work.flush().unwrap())).unwrap();
        assert_eq!(outer.submit(|| 5).unwrap().join().unwrap(), 5);
        gated.go_on();
        outer.flush().unwrap();
        assert_eq!(gated.runs.get(), 1);
    });
}

/// `flush_workqueue`: "all work items queued on entry have finished".
#[test]
fn flush_workqueue_waits_for_all_before_it() {
    judge(|| {
        let queue = pool(4);
        let (works, runs): (Vec<_>, Vec<_>) = (0..500).map(|_| counting()).unzip();
        for round in 1..=10 {
            works.iter().for_each(|work| assert!(work.queue(&queue).unwrap()));
            queue.flush().unwrap();
            assert!(runs.iter().all(|count| count.get() == round));
        }
    });
}

/// "But isn't livelocked by new incoming ones."
#[test]
fn flush_workqueue_is_not_kept_by_later_items() {
    judge(|| {
        let queue = pool(2);
        let inner = queue.clone();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = Work::new(move |work: &Work| {
            if !stopped.load(SeqCst) {
                work.queue(&inner).unwrap();
            }
        });
        work.queue(&queue).unwrap();
        for _ in 0..20 {
            queue.flush().unwrap();
        }
        stop.store(true, SeqCst);
    });
}

/// Many threads flush while others queue.
#[test]
fn many_flushes_at_once() {
    judge(|| {
        let queue = pool(2);
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..50 {
                        let run = Counter::new();
                        let count = run.clone();
                        queue.queue(move || count.add_one()).unwrap();
                        queue.flush().unwrap();
                        assert_eq!(run.get(), 1);
                    }
                });
            }
        });
    });
}

/// A flush inside the queue would wait for itself. This is an error here, while lockdep warns.
#[test]
fn flush_workqueue_inside_itself() {
    judge(|| {
        let queue = pool(2);
        let inner = queue.clone();
        let errors = move || (inner.flush().is_err(), inner.drain().is_err());
        assert_eq!(queue.submit(errors).unwrap().join().unwrap(), (true, true));
    });
}

/// `drain_workqueue`: "wait until the workqueue becomes empty"; "only chain queueing is allowed".
#[test]
fn drain_workqueue_waits_for_chains() {
    judge(|| {
        let queue = pool(2);
        let inner = queue.clone();
        let runs = Counter::new();
        let count = runs.clone();
        let work = Work::new(move |work: &Work| {
            if count.next() < 99 {
                work.queue(&inner).unwrap();
            }
        });
        work.queue(&queue).unwrap();
        queue.drain().unwrap();
        assert_eq!(runs.get(), 100);
    });
}

/// While the queue drains, only its own items may queue. Other callers are rejected until the drain has finished.
#[test]
fn drain_workqueue_refuses_others() {
    judge(|| {
        let queue = pool(1);
        let gated = Gated::new();
        gated.work.queue(&queue).unwrap();
        gated.wait_until_begun();
        thread::scope(|threads| {
            let drain = threads.spawn(|| queue.drain().unwrap());
            wait_until(|| queue.queue(|| ()).is_err());
            let refused = queue.queue(|| ()).unwrap_err();
            assert_eq!(refused.reason(), RefusedReason::Draining);
            assert!(!drain.is_finished());
            gated.go_on();
        });
        queue.queue(|| ()).unwrap();
    });
}

/// `destroy_workqueue`: "all work currently pending will be done first".
#[test]
fn destroy_workqueue_does_all_pending_work_first() {
    judge(|| {
        let queue = pool(1);
        let run = Counter::new();
        for _ in 0..1_000 {
            let count = run.clone();
            queue.queue(move || count.add_one()).unwrap();
        }
        drop(queue);
        assert_eq!(run.get(), 1_000);
    });
}

/// The same for chains: items that an item of the queue queues during its destruction also run, as long as that item's
/// handle keeps the queue open.
#[test]
fn destroy_workqueue_waits_for_chains() {
    judge(|| {
        let queue = pool(1);
        let run = Arc::new(AtomicUsize::new(0));
        let (inner, count) = (queue.clone(), Arc::clone(&run));
        let work = Work::new(move |work: &Work| {
            if count.fetch_add(1, SeqCst) < 99 {
                work.queue(&inner).unwrap();
            }
        });
        work.queue(&queue).unwrap();
        drop((work, queue));
        wait_until(|| run.load(SeqCst) == 100);
    });
}

/// After a shutdown nothing is accepted, and rejected items are returned.
#[test]
fn a_destroyed_queue_takes_nothing() {
    judge(|| {
        let queue = pool(1);
        queue.shutdown(ms(10_000)).unwrap();
        let guard = Counter::new();
        let held = guard.on_drop();
        let refused = queue.queue(move || drop(held)).unwrap_err();
        assert_eq!((refused.reason(), guard.get()), (RefusedReason::ShutDown, 0));
        refused.into_item()();
        assert_eq!(guard.get(), 1);
        assert!(counting().0.queue(&queue).is_err());
    });
}
