//! `task_blocking.rs`, `rt_spawn_blocking.rs`, and `rt_common.rs`'s tests of blocking work.

use std::sync::mpsc;
use std::time::Instant;

use coreshard::{JoinHandle, Workqueue, blocking, runtime};
use judges::{Counter, block_on, judge, ms, pool, sleep_ms, thrown, unbounded};

#[test]
fn basic_blocking() {
    judge(|| {
        let queue = pool(2);
        for _ in 0..50 {
            let inner = queue.clone();
            let task = queue.spawn(async move {
                let item = inner.submit(|| {
                    sleep_ms(1);
                    "hello"
                });
                item.unwrap().join().unwrap()
            });
            assert_eq!(block_on(task.unwrap()), "hello");
        }
    });
}

#[test]
fn block_in_blocking() {
    judge(|| {
        let queue = pool(2);
        for _ in 0..50 {
            let item = queue.submit(|| {
                blocking(|| sleep_ms(1));
                "hello"
            });
            assert_eq!(item.unwrap().join().unwrap(), "hello");
        }
    });
}

#[test]
fn block_in_block() {
    judge(|| {
        let queue = pool(2);
        for _ in 0..50 {
            let task = queue.spawn(async {
                blocking(|| {
                    blocking(|| sleep_ms(1));
                    "hello"
                })
            });
            assert_eq!(block_on(task.unwrap()), "hello");
        }
    });
}

#[test]
fn can_enter_current_thread_rt_from_within_block_in_place() {
    judge(|| {
        let nested = async { blocking(|| block_on(async { 7 })) };
        assert_eq!(block_on(pool(1).spawn(nested).unwrap()), 7);
    });
}

/// `useful_panic_message_when_dropping_rt_in_rt`: this panics in tokio. Here the last handle of a queue may be dropped
/// anywhere, including inside its own items.
#[test]
fn dropping_rt_in_rt() {
    judge(|| {
        let queue = pool(1);
        let run = Counter::new();
        let (own, count) = (queue.clone(), run.clone());
        let item = move || {
            let again = count.clone();
            own.queue(move || again.add_one()).unwrap();
            drop(own);
            count.add_one();
        };
        queue.queue(item).unwrap();
        drop(queue);
        run.wait_for(2);
    });
}

#[test]
fn can_shutdown_with_zero_timeout_in_runtime() {
    judge(|| {
        let queue = pool(1);
        let shut_down = || pool(1).shutdown(ms(0)).is_ok();
        assert!(queue.install(shut_down).unwrap());
    });
}

/// `coop_disabled_in_block_in_place`: a future that is polled inside `blocking` receives all available values.
#[test]
fn block_on_inside_block_in_place() {
    judge(|| {
        let (tx, rx) = unbounded();
        (0..200).for_each(|number| tx.send_now(number));
        drop(tx);
        let count = async move {
            blocking(|| {
                block_on(async {
                    let mut count = 0;
                    while rx.recv().await.is_some() {
                        count += 1;
                    }
                    count
                })
            })
        };
        assert_eq!(block_on(pool(1).spawn(count).unwrap()), 200);
    });
}

#[test]
fn spawn_from_blocking() {
    judge(|| {
        let queue = pool(1);
        let inner = queue.clone();
        let item = queue.submit(move || inner.spawn(async { "hello" }).unwrap()).unwrap();
        assert_eq!(block_on(item.join().unwrap()), "hello");
    });
}

#[test]
fn spawn_blocking_from_blocking() {
    judge(|| {
        let queue = pool(1);
        let inner = queue.clone();
        let item: JoinHandle<JoinHandle<_>> =
            queue.submit(move || inner.submit(|| "hello").unwrap()).unwrap();
        assert_eq!(item.join().unwrap().join().unwrap(), "hello");
    });
}

#[test]
fn sleep_from_blocking() {
    judge(|| {
        let item = pool(1).submit(|| {
            let begin = Instant::now();
            blocking(|| block_on(runtime().unwrap().sleep(ms(5)).unwrap()));
            assert!(begin.elapsed() >= ms(5));
        });
        item.unwrap().join().unwrap();
    });
}

/// `panicking_blocking_task_wakes_paused_runtime`: who waits for an item that panics is woken.
#[test]
fn panicking_blocking_task_wakes_its_waiter() {
    judge(|| {
        let item = pool(1).submit(|| {
            sleep_ms(1);
            panic!("blocking task panicked");
        });
        let panic = item.unwrap().join().map(|(): ()| ()).unwrap_err();
        assert_eq!(panic.message(), "blocking task panicked");
    });
}

/// `unawaited_blocking_task`: the task completes without an awaiter.
#[test]
fn unawaited_blocking_task() {
    judge(|| {
        let queue = pool(1);
        let run = Counter::new();
        let count = run.clone();
        drop(queue.submit(move || count.add_one()).unwrap());
        queue.flush().unwrap();
        assert_eq!(run.get(), 1);
    });
}

/// Queues two items that wait until all their senders are dropped.
fn make_writer(queue: &Workqueue) -> (Vec<mpsc::Sender<()>>, Vec<JoinHandle<()>>) {
    (0..2)
        .map(|_| {
            let (tx, rx) = mpsc::channel::<()>();
            (tx, queue.submit(move || blocking(|| while rx.recv().is_ok() {})).unwrap())
        })
        .unzip()
}

/// `rt_spawn_blocking.rs`: blocking items that come while workers are between idle and busy all get one.
#[test]
fn issue_8056_regression_test() {
    judge(|| {
        for _ in 0..100 {
            let queue = pool(1);
            let quick = || queue.submit(|| ()).unwrap().join().unwrap();
            quick();
            quick();
            let persistent = make_writer(&queue);
            for _ in 0..2 {
                quick();
                quick();
                let (senders, handles) = make_writer(&queue);
                drop(senders);
                handles.into_iter().for_each(|handle| handle.join().unwrap());
            }
            quick();
            quick();
            for (senders, handles) in [persistent, make_writer(&queue)] {
                senders.iter().for_each(|sender| sender.send(()).unwrap());
                drop(senders);
                handles.into_iter().for_each(|handle| handle.join().unwrap());
            }
        }
    });
}

/// A panic inside `blocking` goes through it, and the worker is one that runs again.
#[test]
fn panic_in_block_in_place() {
    judge(|| {
        let queue = pool(1);
        let text = thrown(|| queue.install(|| blocking(|| panic!("inside"))).unwrap());
        assert_eq!(text.as_deref(), Some("inside"));
        assert_eq!(queue.install(|| 1).unwrap(), 1);
        assert_eq!(queue.stats().total().blocked_workers, 0);
    });
}
