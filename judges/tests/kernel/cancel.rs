//! `cancel_work`, `cancel_work_sync` and their kin.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use coreshard::{Work, WorkErrorReason};
use judges::{Counter, judge, ms, pool, runtime, sleep_ms, wait_until};

use crate::work::{Gated, counting};

/// `cancel_work`: "true if @work was pending, false otherwise".
#[test]
fn cancel_work_makes_a_pending_item_idle() {
    judge(|| {
        let queue = pool(1);
        let (work, runs) = counting();
        assert!(!work.cancel());
        queue.freeze().unwrap();
        work.queue(&queue).unwrap();
        assert!(work.cancel());
        assert!(!work.is_pending() && !work.cancel());
        queue.thaw().unwrap();
        queue.flush().unwrap();
        assert_eq!(runs.get(), 0);
    });
}

/// It may be queued anew at once, and then runs once.
#[test]
fn a_cancelled_item_can_be_queued_at_once() {
    judge(|| {
        let queue = pool(1);
        let (work, runs) = counting();
        queue.freeze().unwrap();
        for _ in 0..5 {
            assert!(work.queue(&queue).unwrap());
            assert!(work.cancel());
        }
        assert!(work.queue(&queue).unwrap());
        queue.thaw().unwrap();
        work.flush().unwrap();
        queue.flush().unwrap();
        assert_eq!(runs.get(), 1);
    });
}

/// It does not wait for a run that goes on.
#[test]
fn cancel_work_does_not_wait() {
    judge(|| {
        let queue = pool(1);
        let gated = Gated::new();
        gated.work.queue(&queue).unwrap();
        gated.wait_until_begun();
        assert!(!gated.work.cancel(), "it runs, and is not pending");
        assert!(gated.work.is_running());
        gated.go_on();
    });
}

/// `cancel_work_sync`: "on return the item is guaranteed to be not pending or executing on any CPU".
#[test]
fn cancel_work_sync_waits_for_the_run() {
    judge(|| {
        let queue = pool(1);
        let gated = Gated::new();
        gated.work.queue(&queue).unwrap();
        gated.wait_until_begun();
        gated.work.queue(&queue).unwrap();
        thread::scope(|threads| {
            let cancel = threads.spawn(|| gated.work.cancel_and_wait().unwrap());
            wait_until(|| !gated.work.is_pending());
            sleep_ms(5);
            assert!(!cancel.is_finished());
            gated.go_on();
            assert!(cancel.join().unwrap(), "it was pending besides");
        });
        assert!(!gated.work.is_pending() && !gated.work.is_running());
        queue.flush().unwrap();
        assert_eq!(gated.runs.get(), 1);
    });
}

/// "Even if the work re-queues itself".
#[test]
fn cancel_work_sync_stops_an_item_that_queues_itself() {
    judge(|| {
        let queue = pool(2);
        let inner = queue.clone();
        let runs = Counter::new();
        let count = runs.clone();
        let work = Work::new(move |work: &Work| {
            count.add_one();
            // Refused while it is being cancelled.
            let _ = work.queue(&inner);
        });
        work.queue(&queue).unwrap();
        runs.wait_for(10);
        work.cancel_and_wait().unwrap();
        let after = runs.get();
        queue.flush().unwrap();
        assert!(!work.is_pending() && !work.is_running());
        assert_eq!(runs.get(), after);
        // It can be queued again, and stopped again.
        work.queue(&queue).unwrap();
        runs.wait_for(after + 10);
        work.cancel_and_wait().unwrap();
    });
}

/// "Or migrates to another workqueue".
#[test]
fn cancel_work_sync_stops_an_item_that_moves_between_queues() {
    judge(|| {
        let queues = [pool(1), pool(1)];
        let (inner, runs) = (queues.clone(), Counter::new());
        let count = runs.clone();
        let work = Work::new(move |work: &Work| {
            let _ = work.queue(&inner[count.next() % 2]);
        });
        work.queue(&queues[1]).unwrap();
        runs.wait_for(10);
        work.cancel_and_wait().unwrap();
        let after = runs.get();
        queues.iter().for_each(|queue| queue.flush().unwrap());
        assert_eq!(runs.get(), after);
    });
}

/// Several may cancel one item: all return when it is idle.
#[test]
fn several_cancels_at_once() {
    judge(|| {
        let queue = pool(2);
        let gated = Gated::new();
        gated.work.queue(&queue).unwrap();
        gated.wait_until_begun();
        let ended = AtomicBool::new(false);
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    gated.work.cancel_and_wait().unwrap();
                    assert!(ended.load(SeqCst) && !gated.work.is_running());
                });
            }
            wait_until(|| gated.work.disable_depth() == 4);
            ended.store(true, SeqCst);
            gated.go_on();
        });
        assert!(gated.work.queue(&queue).unwrap(), "all of them have let go of it");
        gated.go_on();
        gated.work.flush().unwrap();
    });
}

/// An item that cancels itself and waits could never return. This is an error here, while the kernel hangs.
#[test]
fn cancel_work_sync_inside_itself() {
    judge(|| {
        let queue = pool(1);
        let told = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&told);
        let work = Work::new(move |work: &Work| {
            let errors = [
                work.cancel_and_wait().unwrap_err(),
                work.disable_and_wait().unwrap_err(),
                work.flush().unwrap_err(),
            ];
            let would_deadlock =
                |error: &coreshard::WorkError| error.reason() == WorkErrorReason::WouldDeadlock;
            tell.store(errors.iter().all(would_deadlock), SeqCst);
        });
        work.queue(&queue).unwrap();
        work.flush().unwrap();
        assert!(told.load(SeqCst) && work.disable_depth() == 0);
    });
}

/// `cancel_delayed_work`: the timer goes; "true if @dwork was pending and canceled".
#[test]
fn cancel_delayed_work_takes_the_timer_along() {
    judge(|| {
        let runtime = runtime(1);
        let queue = runtime.workqueue().build().unwrap();
        let (work, runs) = counting();
        assert!(work.queue_after(&queue, ms(3_600_000)).unwrap());
        assert_eq!(runtime.delayed_items(), 1);
        assert!(work.cancel());
        assert_eq!(runtime.delayed_items(), 0);
        assert!(!work.cancel());
        queue.flush().unwrap();
        assert_eq!(runs.get(), 0);
    });
}

/// `cancel_delayed_work_sync`, of an item that arms itself again and again.
#[test]
fn cancel_delayed_work_sync_stops_an_item_that_arms_itself() {
    judge(|| {
        let queue = pool(1);
        let inner = queue.clone();
        let runs = Counter::new();
        let count = runs.clone();
        let work = Work::new(move |work: &Work| {
            count.add_one();
            let _ = work.queue_after(&inner, ms(1));
        });
        work.queue(&queue).unwrap();
        runs.wait_for(5);
        work.cancel_and_wait().unwrap();
        let after = runs.get();
        sleep_ms(10);
        assert_eq!((runs.get(), work.is_pending()), (after, false));
    });
}

/// Queueings and cancels at once: a queueing that was accepted runs, or its cancel says so.
#[test]
fn queueings_and_cancels_add_up() {
    judge(|| {
        let queue = pool(2);
        let (work, runs) = counting();
        let (queued, cancelled) = thread::scope(|threads| {
            let queued =
                threads.spawn(|| (0..10_000).filter(|_| work.queue(&queue).unwrap()).count());
            let cancelled = threads.spawn(|| (0..10_000).filter(|_| work.cancel()).count());
            (queued.join().unwrap(), cancelled.join().unwrap())
        });
        work.flush().unwrap();
        assert_eq!(runs.get(), queued - cancelled);
    });
}
