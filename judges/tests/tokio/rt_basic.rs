//! `rt_basic.rs`, `rt_handle.rs`: each on one worker and on four.

use std::future::poll_fn;
use std::thread;

use coreshard::Task;
use judges::{Counter, Dropped, block_on, judge, sleep_ms, thrown, unbounded, wait_until};

use crate::rt_common::{on_one_and_on_four, oneshot};

/// `rt_basic`: a future is polled when something has happened to it, and at no other time.
#[test]
fn no_extra_poll() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let (tx, rx) = unbounded::<()>();
            let polls = Counter::new();
            let count = polls.clone();
            let mut receive = Box::pin(async move { while rx.recv().await.is_some() {} });
            let tracked = poll_fn(move |context| {
                count.add_one();
                receive.as_mut().poll(context)
            });
            let task = queue.spawn(tracked).unwrap();
            queue.flush().unwrap();
            assert_eq!(polls.get(), 1);
            tx.send_now(());
            queue.flush().unwrap();
            assert_eq!(polls.get(), 2);
            drop(tx);
            block_on(task);
            assert_eq!(polls.get(), 3);
        });
    });
}

/// `rt_basic`: each task of a chain waits for a sender in another task. When the first sender is dropped, the whole
/// chain ends.
#[test]
fn acquire_mutex_in_drop() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let dropped = Counter::new();
            let (tx1, rx1) = oneshot::<()>();
            let (tx2, rx2) = oneshot::<()>();
            let guards = [dropped.on_drop(), dropped.on_drop(), dropped.on_drop()];
            let [first, second, third] = guards;
            let wait_for = |rx: judges::Receiver<()>, tx: Option<judges::Sender<()>>, guard| async move {
                let _guard: Dropped = guard;
                if rx.recv().await.is_some() {
                    tx.iter().for_each(|tx| tx.send_now(()));
                }
            };
            queue.spawn(wait_for(rx2, None, first)).unwrap().detach();
            queue.spawn(wait_for(rx1, Some(tx2), second)).unwrap().detach();
            let never = async move {
                let _guard = third;
                judges::pending::<()>().await;
                tx1.send_now(());
            };
            let task = queue.spawn(never).unwrap();
            queue.flush().unwrap();
            drop(queue);
            drop(task);
            wait_until(|| dropped.get() == 3);
        });
    });
}

#[test]
fn spawn_remote() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let task = queue.spawn(async {
                let (tx, rx) = oneshot();
                thread::spawn(move || {
                    sleep_ms(5);
                    tx.send_now("ZOMG");
                });
                rx.recv().await
            });
            assert_eq!(block_on(task.unwrap()), Some("ZOMG"));
        });
    });
}

/// `rt_basic`: a panic beside tasks that wake one another as they are dropped.
#[test]
fn wake_in_drop_after_panic() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let (tx, rx) = oneshot::<()>();
            let waits = queue.spawn(async move { rx.recv().await }).unwrap();
            let panics = queue.spawn(async move {
                let _dropped_here = tx;
                panic!("boom")
            });
            assert_eq!(thrown(|| block_on::<Task<()>>(panics.unwrap())).as_deref(), Some("boom"));
            assert_eq!(block_on(waits), None);
        });
    });
}

/// `rt_handle`: tasks that hold one another's handles end with their queue's last handle.
#[test]
fn drop_tasks_with_reference_cycle() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let dropped = Counter::new();
            let (tx, rx) = unbounded::<Task<()>>();
            let (first, second) = (dropped.on_drop(), dropped.on_drop());
            let a = queue.spawn(async move {
                let _guard = first;
                let _b = rx.recv().await;
                judges::pending::<()>().await;
            });
            let a = a.unwrap();
            let b = queue.spawn(async move {
                let _guard = second;
                let _a = a;
                judges::pending::<()>().await;
            });
            tx.send_now(b.unwrap());
            queue.flush().unwrap();
            drop(queue);
            // They hold one another: a task that is never woken is never dropped, like a cycle of two `Arc`s.
            assert_eq!(dropped.get(), 0);
        });
    });
}
