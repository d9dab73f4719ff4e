//! `dispatch_apply.c`, `dispatch_sema.c`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use coreshard::Workqueue;
use judges::{default_queue, judge, pool, wait_until};

const FINAL: usize = 32;

/// `dispatch_apply`: once for each index.
fn apply(queue: &Workqueue, count: usize, body: impl Fn(usize) + Sync + Send) {
    queue.for_each_range(0..count, |piece| piece.for_each(&body)).unwrap();
}

#[test]
fn apply_counts() {
    judge(|| {
        let count = AtomicUsize::new(0);
        apply(&default_queue(), FINAL, |_| {
            count.fetch_add(1, SeqCst);
        });
        assert_eq!(count.into_inner(), FINAL);
    });
}

#[test]
fn nested_count() {
    judge(|| {
        let (queue, count) = (pool(3), AtomicUsize::new(0));
        let add = |_| {
            count.fetch_add(1, SeqCst);
        };
        apply(&queue, FINAL, |_| apply(&queue, FINAL, |_| apply(&queue, FINAL, add)));
        assert_eq!(count.into_inner(), FINAL * FINAL * FINAL);
    });
}

/// "dispatch_apply should not block waiting on other threads while the calling thread is available": all
/// the workers are busy for as long as the apply lasts, and it ends.
#[test]
fn test_apply_contended() {
    judge(|| {
        let queue = pool(2);
        let (started, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let all_done = AtomicBool::new(false);
        queue.scope(|scope| {
            for _ in 0..2 {
                let busy = || {
                    started.fetch_add(1, SeqCst);
                    while !all_done.load(SeqCst) {
                        thread::yield_now();
                    }
                };
                scope.queue(busy).unwrap();
            }
            wait_until(|| started.load(SeqCst) == 2);
            apply(&queue, FINAL, |_| {
                count.fetch_add(1, SeqCst);
            });
            assert_eq!(count.load(SeqCst), FINAL);
            all_done.store(true, SeqCst);
        });
    });
}

/// An apply on a serial queue is a loop.
#[test]
fn apply_on_a_serial_queue() {
    judge(|| {
        let queue = judges::queue(1, |builder| builder.ordered());
        let seen = Mutex::new(Vec::new());
        apply(&queue, FINAL, |index| seen.lock().unwrap().push(index));
        assert!(seen.into_inner().unwrap().into_iter().eq(0..FINAL));
    });
}

/// `dispatch_sema.c`: a semaphore of one around each index. Waiters block their workers.
#[test]
fn semaphore() {
    judge(|| {
        let free = Mutex::new(0);
        apply(&pool(4), 10_000, |_| *free.lock().unwrap() += 1);
        assert_eq!(free.into_inner().unwrap(), 10_000);
    });
}

/// A semaphore that another queue signals: an apply waits for it in the middle.
#[test]
fn semaphore_of_another_queue() {
    judge(|| {
        let (queue, other) = (pool(1), pool(1));
        let (tx, rx) = std::sync::mpsc::sync_channel(0);
        let signals = move || (0..FINAL).for_each(|_| tx.send(()).unwrap());
        other.queue(signals).unwrap();
        let rx = Mutex::new(rx);
        apply(&queue, FINAL, |_| coreshard::blocking(|| rx.lock().unwrap().recv().unwrap()));
        other.flush().unwrap();
    });
}
