//! `dispatch_concur.c`: how many items of a queue run at once, for each width and each way in.
//!
//! In libdispatch a queue may target another queue, and its width is the narrowest on the way. Queues here do not nest,
//! so the tests use one queue of each width: serial, wide, without a limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use coreshard::Workqueue;
use judges::{judge, ms, queue, sleep_ms};

const WIDE: usize = 4;

fn serial() -> Workqueue {
    queue(4, |builder| builder.ordered())
}

fn wide() -> Workqueue {
    queue(4, |builder| builder.max_active(WIDE))
}

fn concurrent() -> Workqueue {
    queue(4, |builder| builder)
}

/// Counts how many are inside, and how many at most.
#[derive(Clone, Default)]
struct Concurrency(Arc<(AtomicUsize, AtomicUsize)>);

impl Concurrency {
    fn enter(&self) {
        let (inside, most) = &*self.0;
        most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
        coreshard::blocking(|| thread::sleep(ms(1)));
        inside.fetch_sub(1, SeqCst);
    }

    fn most(&self) -> usize {
        self.0.1.load(SeqCst)
    }
}

/// Items that each queue four more.
fn with_async(queue: &Workqueue) -> usize {
    let concurrency = Concurrency::default();
    queue.freeze().unwrap();
    for _ in 0..20 {
        let (again, inside) = (queue.clone(), concurrency.clone());
        let submit = move || {
            for _ in 0..4 {
                let inside = inside.clone();
                again.queue(move || inside.enter()).unwrap();
            }
            inside.enter();
        };
        queue.queue(submit).unwrap();
    }
    queue.thaw().unwrap();
    queue.drain().unwrap();
    assert_eq!(queue.stats().queued, 100);
    concurrency.most()
}

#[test]
fn concur_async_serial() {
    judge(|| assert_eq!(with_async(&serial()), 1));
}

#[test]
fn concur_async_wide() {
    judge(|| assert!((2..=WIDE).contains(&with_async(&wide()))));
}

#[test]
fn concur_async_concurrent() {
    judge(|| assert!(with_async(&concurrent()) > 1));
}

/// Starts threads that each wait for an item.
fn with_sync(queue: &Workqueue) -> usize {
    let concurrency = Concurrency::default();
    thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                sleep_ms(5);
                (0..5).for_each(|_| queue.install(|| concurrency.enter()).unwrap());
            });
        }
    });
    concurrency.most()
}

#[test]
fn concur_sync_serial() {
    judge(|| assert_eq!(with_sync(&serial()), 1));
}

#[test]
fn concur_sync_wide() {
    judge(|| assert!((1..=WIDE).contains(&with_sync(&wide()))));
}

#[test]
fn concur_sync_concurrent() {
    judge(|| assert!((1..=8).contains(&with_sync(&concurrent()))));
}

/// A loop counts as one item for the limit: its pieces are forked, and its own. On a serial queue the
/// others do not begin meanwhile.
#[test]
fn concur_apply_keeps_others_of_a_serial_queue_out() {
    judge(|| {
        let queue = serial();
        let inside = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&inside);
        let (loop_runs, begun) = std::sync::mpsc::channel();
        let in_loop = move |_: usize| {
            let _ = loop_runs.send(());
            inside.fetch_add(1, SeqCst);
            coreshard::blocking(|| sleep_ms(1));
            inside.fetch_sub(1, SeqCst);
        };
        thread::scope(|threads| {
            threads
                .spawn(|| queue.for_each_range(0..16, |piece| piece.for_each(&in_loop)).unwrap());
            begun.recv().unwrap();
            let alone = queue.submit(move || seen.load(SeqCst)).unwrap();
            assert_eq!(alone.join().unwrap(), 0, "an item ran beside the loop");
        });
    });
}
