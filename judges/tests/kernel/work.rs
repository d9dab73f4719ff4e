//! "Work item": pending once, never on two workers at once, and its own master.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;

use coreshard::{Intake, Work, WorkErrorReason};
use judges::{Counter, judge, pool, queue, runtime, sleep_ms, wait_until};

/// A function that waits in its middle for a word.
pub(crate) struct Gated {
    pub(crate) work: Work,
    pub(crate) runs: Counter,
    begun: mpsc::Receiver<()>,
    go_on: mpsc::Sender<()>,
}

impl Gated {
    pub(crate) fn new() -> Self {
        let (begin, begun) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel();
        let runs = Counter::new();
        let count = runs.clone();
        let work = Work::new(move |_| {
            let _ = begin.send(());
            let _ = coreshard::blocking(|| goes_on.recv());
            count.add_one();
        });
        Self { work, runs, begun, go_on }
    }

    pub(crate) fn wait_until_begun(&self) {
        self.begun.recv().expect("it begins");
    }

    pub(crate) fn go_on(&self) {
        self.go_on.send(()).expect("it waits");
    }
}

/// A counter, and an item that adds one to it.
pub(crate) fn counting() -> (Work, Counter) {
    let runs = Counter::new();
    let count = runs.clone();
    (Work::new(move |_| count.add_one()), runs)
}

/// `queue_work`: "false if @work was already on a queue, true otherwise".
#[test]
fn queue_work_is_false_while_it_is_pending() {
    judge(|| {
        let queue = pool(1);
        let (work, runs) = counting();
        queue.freeze().unwrap();
        assert!(work.queue(&queue).unwrap());
        assert!(!work.queue(&queue).unwrap());
        assert!(!work.queue(&queue).unwrap());
        queue.thaw().unwrap();
        work.flush().unwrap();
        assert_eq!(runs.get(), 1);
    });
}

/// It is pending no more as soon as its function begins, so that it can be queued from then on.
#[test]
fn work_pending_ends_as_the_function_begins() {
    judge(|| {
        let queue = pool(1);
        let gated = Gated::new();
        assert!(!gated.work.is_pending() && !gated.work.is_running());
        gated.work.queue(&queue).unwrap();
        gated.wait_until_begun();
        assert!(!gated.work.is_pending() && gated.work.is_running());
        assert!(gated.work.queue(&queue).unwrap());
        assert!(gated.work.is_pending() && gated.work.is_running());
        gated.go_on();
        gated.go_on();
        gated.work.flush().unwrap();
        assert_eq!(gated.runs.get(), 2);
    });
}

/// "Non-reentrance": an item runs on at most one worker at a time, regardless of the queueing thread.
#[test]
fn an_item_is_not_reentered() {
    judge(|| {
        let queue = pool(4);
        let inside = Arc::new(AtomicBool::new(false));
        let runs = Counter::new();
        let (within, count) = (Arc::clone(&inside), runs.clone());
        let work = Work::new(move |_| {
            assert!(!within.swap(true, SeqCst), "two workers are inside");
            thread::yield_now();
            within.store(false, SeqCst);
            count.add_one();
        });
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| (0..2_000).for_each(|_| drop(work.queue(&queue))));
            }
        });
        work.flush().unwrap();
        assert!(runs.get() > 0 && !inside.load(SeqCst));
    });
}

/// The same on two queues in turn, which the kernel leaves to its users.
#[test]
fn an_item_is_not_reentered_across_queues() {
    judge(|| {
        let queues = [pool(2), pool(2)];
        let inside = AtomicUsize::new(0);
        let work = Work::new(move |_| {
            assert_eq!(inside.fetch_add(1, SeqCst), 0);
            thread::yield_now();
            inside.fetch_sub(1, SeqCst);
        });
        thread::scope(|threads| {
            for queue in &queues {
                threads.spawn(|| (0..2_000).for_each(|_| drop(work.queue(queue))));
            }
        });
        work.flush().unwrap();
    });
}

/// "Memory-ordering properties": if a queueing is rejected because the item is pending, the pending run sees all
/// earlier writes.
#[test]
fn what_was_written_before_a_refused_queueing_is_seen() {
    judge(|| {
        let queue = pool(2);
        let written = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(AtomicUsize::new(0));
        let (from, to) = (Arc::clone(&written), Arc::clone(&seen));
        let work = Work::new(move |_| to.store(from.load(Relaxed), Relaxed));
        for number in 1..=5_000 {
            written.store(number, Relaxed);
            work.queue(&queue).unwrap();
        }
        work.flush().unwrap();
        assert_eq!(seen.load(Relaxed), 5_000);
    });
}

/// An item may queue itself again from its function.
#[test]
fn an_item_may_queue_itself() {
    judge(|| {
        let queue = pool(1);
        let inner = queue.clone();
        let (tx, rx) = mpsc::channel();
        let mut left = 100;
        let work = Work::new(move |work: &Work| {
            left -= 1;
            if left > 0 {
                assert!(work.queue(&inner).unwrap());
            } else {
                tx.send(()).unwrap();
            }
        });
        work.queue(&queue).unwrap();
        rx.recv().unwrap();
    });
}

/// "It is permissible to free the struct the work is contained in inside the function": the last handle
/// may go there.
#[test]
fn an_item_may_be_freed_by_its_function() {
    judge(|| {
        let queue = pool(1);
        let dropped = Counter::new();
        let guard = dropped.on_drop();
        let work = Work::new(move |_| {
            let _keeps = &guard;
        });
        work.queue(&queue).unwrap();
        drop(work);
        queue.flush().unwrap();
        wait_until(|| dropped.get() == 1);
    });
}

/// A work item is not lost if it is queued at the end of its run.
#[test]
fn a_queueing_at_the_end_of_a_run_is_not_lost() {
    judge(|| {
        let queue = pool(2);
        let (work, runs) = counting();
        let mut queued = 0;
        for _ in 0..20_000 {
            queued += usize::from(work.queue(&queue).unwrap());
        }
        work.flush().unwrap();
        assert_eq!(runs.get(), queued);
    });
}

/// `system_wq`: items of all users, on a queue that needs no setup.
#[test]
fn schedule_work() {
    judge(|| {
        let queue = coreshard::workqueue().unwrap().build().unwrap();
        let (works, runs): (Vec<_>, Vec<_>) = (0..100).map(|_| counting()).unzip();
        assert!(works.iter().all(|work| work.queue(&queue).unwrap()));
        queue.flush().unwrap();
        assert!(runs.iter().all(|count| count.get() == 1));
    });
}

/// `disable_work`: "cancels, and it cannot be queued until it was enabled as often".
#[test]
fn disable_work_nests() {
    judge(|| {
        let queue = pool(1);
        let (work, runs) = counting();
        queue.freeze().unwrap();
        work.queue(&queue).unwrap();
        assert!(work.disable().unwrap(), "it was pending");
        assert!(!work.disable().unwrap());
        let error = work.queue(&queue).unwrap_err();
        assert_eq!(error.reason(), WorkErrorReason::Disabled);
        assert!(!work.enable().unwrap(), "it is disabled once more");
        assert!(work.queue(&queue).is_err());
        assert!(work.enable().unwrap());
        assert!(work.queue(&queue).unwrap());
        queue.thaw().unwrap();
        work.flush().unwrap();
        assert_eq!(runs.get(), 1);
        assert_eq!(work.enable().unwrap_err().reason(), WorkErrorReason::NotDisabled);
    });
}

/// `disable_work_sync`: and it does not run when that returns.
#[test]
fn disable_work_sync_waits() {
    judge(|| {
        let queue = pool(1);
        let gated = Gated::new();
        gated.work.queue(&queue).unwrap();
        gated.wait_until_begun();
        thread::scope(|threads| {
            let disable = threads.spawn(|| gated.work.disable_and_wait().unwrap());
            wait_until(|| gated.work.disable_depth() == 1);
            sleep_ms(5);
            assert!(!disable.is_finished());
            gated.go_on();
            assert!(!disable.join().unwrap(), "it was running, not pending");
        });
        assert!(!gated.work.is_running());
        assert!(gated.work.queue(&queue).is_err());
    });
}

/// A panic of a function affects only its item: the item can be queued again, and so can others.
#[test]
fn an_item_that_panics_can_be_queued_again() {
    judge(|| {
        let queue = pool(1);
        let runs = Counter::new();
        let count = runs.clone();
        let work = Work::new(move |_| assert!(count.next() > 0, "the first run panics"));
        for _ in 0..3 {
            assert!(work.queue(&queue).unwrap());
            work.flush().unwrap();
        }
        assert_eq!(runs.get(), 3);
    });
}

/// An item that is on no queue has no owner: it may be queued on another queue next.
#[test]
fn an_item_may_move_to_another_queue() {
    judge(|| {
        let (work, runs) = counting();
        let runtime = runtime(2);
        for intake in Intake::ALL {
            let queue = runtime.workqueue().intake(intake).build().unwrap();
            work.queue(&queue).unwrap();
            work.flush().unwrap();
        }
        assert_eq!(runs.get(), Intake::ALL.len());
    });
}

/// A dropped queue does not affect its former items: they can be queued elsewhere.
#[test]
fn an_item_outlives_its_queue() {
    judge(|| {
        let (work, runs) = counting();
        for _ in 0..3 {
            let queue = queue(1, |builder| builder.ordered());
            work.queue(&queue).unwrap();
            drop(queue);
        }
        assert_eq!(runs.get(), 3);
        assert!(!work.is_pending() && !work.is_running());
    });
}
