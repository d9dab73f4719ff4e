//! `dispatch_group.c`.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};

use coreshard::{Work, Workqueue};
use judges::{Counter, judge, ms, pool, queue, runtime, sleep_ms};

/// A group of items in queues that are let go of at once.
fn create_group(count: usize, delay: u64) -> (Counter, mpsc::Receiver<()>) {
    let (tx, over) = mpsc::channel();
    let (runtime, run) = (runtime(2), Counter::new());
    for _ in 0..count {
        let queue = runtime.workqueue().ordered().build().unwrap();
        let (count, left) = (run.clone(), tx.clone());
        let item = move || {
            coreshard::blocking(|| sleep_ms(delay));
            count.add_one();
            drop(left);
        };
        queue.queue(item).unwrap();
    }
    (run, over)
}

#[test]
fn group_wait_forever() {
    judge(|| {
        let (run, over) = create_group(100, 0);
        assert!(over.recv().is_err(), "the group is empty");
        assert_eq!(run.get(), 100);
    });
}

/// "Should be OK to re-use a group."
#[test]
fn group_is_used_again() {
    judge(|| {
        let queue = pool(2);
        let run = AtomicUsize::new(0);
        for round in 1..=100 {
            queue.scope(|scope| {
                let add = || {
                    run.fetch_add(1, SeqCst);
                };
                scope.queue(add).unwrap();
            });
            assert_eq!(run.load(SeqCst), round);
        }
    });
}

/// A wait that ends too early says so, and may be made again.
#[test]
fn group_wait_times_out_and_is_tried_again() {
    judge(|| {
        let queue = pool(1);
        let (tx, rx) = mpsc::channel::<()>();
        for rx in [Some(rx), None, None] {
            let item = move || {
                if let Some(rx) = rx {
                    let _ = coreshard::blocking(|| rx.recv());
                }
            };
            queue.queue(item).unwrap();
        }
        let timeout = queue.shutdown(ms(5)).unwrap_err();
        assert!((1..=3).contains(&timeout.in_flight()));
        drop(tx);
        queue.shutdown(ms(30_000)).unwrap();
    });
}

/// A notification of an empty group, on a separate queue.
#[test]
fn group_notify() {
    judge(|| {
        let (notified, queue) = (pool(1), pool(2));
        let (tx, rx) = mpsc::channel();
        let run = Arc::new(AtomicUsize::new(0));
        let left = Arc::new(AtomicUsize::new(100));
        let seen = Arc::clone(&run);
        let notify = Work::new(move |_| tx.send(seen.load(SeqCst)).unwrap());
        for _ in 0..100 {
            let (run, left) = (Arc::clone(&run), Arc::clone(&left));
            let (notify, notified) = (notify.clone(), notified.clone());
            let item = move || {
                run.fetch_add(1, SeqCst);
                if left.fetch_sub(1, SeqCst) == 1 {
                    assert!(notify.queue(&notified).unwrap());
                }
            };
            queue.queue(item).unwrap();
        }
        assert_eq!(rx.recv(), Ok(100));
    });
}

/// Runs one cycle of a group with some serial queues, and notifies the next cycle at its end.
fn cycle(runtime: &coreshard::Runtime, notify: &Workqueue, number: usize) {
    let queues: Vec<_> =
        (0..1 + number % 4).map(|_| runtime.workqueue().ordered().build().unwrap()).collect();
    let completed = Arc::new(AtomicUsize::new(0));
    let (tx, rx) = mpsc::channel();
    let left = Arc::new(AtomicUsize::new(queues.len()));
    for queue in &queues {
        let (completed, left) = (Arc::clone(&completed), Arc::clone(&left));
        let (notify, tx) = (notify.clone(), tx.clone());
        let item = move || {
            if left.fetch_sub(1, SeqCst) == 1 {
                let tell = move || {
                    completed.store(number, SeqCst);
                    tx.send(()).unwrap();
                };
                notify.queue(tell).unwrap();
            }
        };
        queue.queue(item).unwrap();
    }
    rx.recv().unwrap();
    assert_eq!(completed.load(SeqCst), number);
}

/// Over and over: queues are made, used once and let go of.
#[test]
fn test_group_notify2() {
    judge(|| {
        let runtime = runtime(2);
        let notify = queue(1, |builder| builder.ordered());
        (1..=500).for_each(|number| cycle(&runtime, &notify, number));
    });
}
