//! `rt_common.rs`: each on one worker and on four.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll};
use std::thread;
use std::time::Instant;

use coreshard::{Task, Workqueue, runtime, yield_now};
use judges::{Counter, Dropped, block_on, both, judge, ms, pool, sleep_ms, unbounded, wait_until};

pub(crate) fn on_one_and_on_four(test: impl Fn(Workqueue)) {
    [1, 4].into_iter().for_each(|workers| test(pool(workers)));
}

/// One value, once.
pub(crate) fn oneshot<T>() -> (judges::Sender<T>, judges::Receiver<T>) {
    unbounded()
}

#[test]
fn send_sync_bound() {
    fn is_send_sync<T: Send + Sync>() {}
    is_send_sync::<coreshard::Runtime>();
    is_send_sync::<Workqueue>();
    is_send_sync::<Task<i32>>();
    is_send_sync::<coreshard::Work>();
}

#[test]
fn block_on_async() {
    judge(|| {
        let (tx, rx) = oneshot();
        thread::spawn(move || {
            sleep_ms(5);
            tx.send_now("ZOMG");
        });
        assert_eq!(block_on(rx.recv()), Some("ZOMG"));
    });
}

#[test]
fn spawn_one_bg() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let (tx, rx) = oneshot();
            queue.spawn(async move { tx.send_now("ZOMG") }).unwrap().detach();
            assert_eq!(block_on(rx.recv()), Some("ZOMG"));
        });
    });
}

#[test]
fn spawn_one_join() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let (tx, rx) = oneshot();
            let task = queue.spawn(async move {
                tx.send_now("ZOMG");
                "DONE"
            });
            let result = block_on(async { (rx.recv().await, task.unwrap().await) });
            assert_eq!(result, (Some("ZOMG"), "DONE"));
        });
    });
}

#[test]
fn spawn_two() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let (tx1, rx1) = oneshot();
            let (tx2, rx2) = oneshot();
            queue.spawn(async move { tx1.send_now("ZOMG") }).unwrap().detach();
            let pass_on = async move { tx2.send_now(rx1.recv().await.unwrap()) };
            queue.spawn(pass_on).unwrap().detach();
            assert_eq!(block_on(rx2.recv()), Some("ZOMG"));
        });
    });
}

/// Tasks that each wait for a number that another thread sends.
fn spawn_many(queue: &Workqueue, count: usize) -> impl Future<Output = Vec<usize>> + Send + use<> {
    let (done, all) = unbounded();
    let senders: Vec<_> = (0..count)
        .map(|number| {
            let (tx, rx) = oneshot();
            let done = done.clone();
            let wait = async move {
                assert_eq!(rx.recv().await, Some(number));
                done.send_now(number);
            };
            queue.spawn(wait).unwrap().detach();
            tx
        })
        .collect();
    thread::spawn(move || senders.iter().enumerate().for_each(|(n, tx)| tx.send_now(n)));
    async move {
        let mut out = Vec::new();
        while let Some(number) = all.recv().await {
            out.push(number);
            if out.len() == count {
                break;
            }
        }
        out.sort_unstable();
        out
    }
}

#[test]
fn spawn_many_from_block_on() {
    judge(|| {
        on_one_and_on_four(|queue| {
            assert!(block_on(spawn_many(&queue, 200)).into_iter().eq(0..200));
        });
    });
}

#[test]
fn spawn_many_from_task() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let inner = queue.clone();
            let task = queue.spawn(async move { spawn_many(&inner, 500).await });
            assert!(block_on(task.unwrap()).into_iter().eq(0..500));
        });
    });
}

#[test]
fn spawn_await_chain() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let inner = queue.clone();
            let chain = async move { inner.spawn(async { "hello" }).unwrap().await };
            assert_eq!(block_on(queue.spawn(chain).unwrap()), "hello");
        });
    });
}

/// The data of a waiting task is dropped when no waker is left.
#[test]
fn outstanding_tasks_dropped() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let dropped = Counter::new();
            let guard = dropped.on_drop();
            let never = poll_fn(move |_| {
                let _keeps = &guard;
                Poll::<()>::Pending
            });
            let task = queue.spawn(never).unwrap();
            queue.flush().unwrap();
            assert_eq!(dropped.get(), 0);
            task.detach();
            wait_until(|| dropped.get() == 1);
        });
    });
}

/// A queue made inside a task of another one.
#[test]
fn create_rt_in_block_on() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let second = block_on(queue.spawn(async { pool(1) }).unwrap());
            assert_eq!(block_on(second.spawn(async { "ZOMG" }).unwrap()), "ZOMG");
        });
    });
}

/// A task waits for the end of another queue, and holds its last handle.
#[test]
fn drop_rt_in_task() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let count = Counter::new();
            let inner = count.clone();
            let task = queue.spawn(async move {
                let second = pool(1);
                second.queue(move || inner.add_one()).unwrap();
                drop(second);
            });
            block_on(task.unwrap());
            assert_eq!(count.get(), 1);
        });
    });
}

/// A task that yields for ever, until it is told.
fn keep_busy(queue: &Workqueue) -> (Task<()>, Arc<AtomicBool>) {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let busy = async move {
        while !stopped.load(SeqCst) {
            yield_now().await;
        }
    };
    (queue.spawn(busy).unwrap(), stop)
}

#[test]
fn complete_block_on_under_load() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let (busy, stop) = keep_busy(&queue);
            let (tx, rx) = oneshot();
            thread::spawn(move || {
                sleep_ms(5);
                tx.send_now(());
            });
            assert_eq!(block_on(rx.recv()), Some(()));
            stop.store(true, SeqCst);
            block_on(busy);
        });
    });
}

#[test]
fn complete_task_under_load() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let (busy, stop) = keep_busy(&queue);
            let (tx1, rx1) = oneshot();
            let (tx2, rx2) = oneshot();
            thread::spawn(move || {
                sleep_ms(5);
                tx1.send_now("ZOMG");
            });
            let pass_on = async move { tx2.send_now(rx1.recv().await.unwrap()) };
            queue.spawn(pass_on).unwrap().detach();
            assert_eq!(block_on(rx2.recv()), Some("ZOMG"));
            stop.store(true, SeqCst);
            block_on(busy);
        });
    });
}

#[test]
fn spawn_from_other_thread_idle() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let (tx, rx) = oneshot();
            thread::spawn(move || {
                sleep_ms(5);
                queue.spawn(async move { tx.send_now(()) }).unwrap().detach();
            });
            assert_eq!(block_on(rx.recv()), Some(()));
        });
    });
}

#[test]
fn spawn_from_other_thread_under_load() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let (busy, stop) = keep_busy(&queue);
            let (tx, rx) = oneshot();
            let other = queue.clone();
            thread::spawn(move || other.spawn(async move { tx.send_now(()) }).unwrap().detach());
            assert_eq!(block_on(rx.recv()), Some(()));
            stop.store(true, SeqCst);
            block_on(busy);
        });
    });
}

#[test]
fn sleep_at_root() {
    judge(|| {
        let begin = Instant::now();
        block_on(runtime().unwrap().sleep(ms(20)).unwrap());
        assert!(begin.elapsed() >= ms(20));
    });
}

#[test]
fn sleep_in_spawn() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let begin = Instant::now();
            let task = queue.spawn(async { runtime().unwrap().sleep(ms(20)).unwrap().await });
            block_on(task.unwrap());
            assert!(begin.elapsed() >= ms(20));
        });
    });
}

/// Two threads that drive futures of one runtime, and sleep beside one another.
#[test]
fn always_active_parker() {
    judge(|| {
        let (tx1, rx1) = oneshot();
        let (tx2, rx2) = oneshot();
        let sleep = || runtime().unwrap().sleep(ms(5)).unwrap();
        let first = thread::spawn(move || {
            block_on(async {
                rx2.recv().await.unwrap();
                sleep().await;
                tx1.send_now(());
            });
        });
        let second = thread::spawn(move || {
            block_on(async {
                tx2.send_now(());
                sleep().await;
                rx1.recv().await.unwrap();
                sleep().await;
            });
        });
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// The future is dropped when it panics, and the worker continues.
#[test]
fn panic_in_task() {
    struct Boom {
        _told: Dropped,
    }
    impl Future for Boom {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            panic!("boom")
        }
    }
    judge(|| {
        on_one_and_on_four(|queue| {
            let dropped = Counter::new();
            queue.spawn(Boom { _told: dropped.on_drop() }).unwrap().detach();
            wait_until(|| dropped.get() == 1);
            assert_eq!(block_on(queue.spawn(async { 1 }).unwrap()), 1);
        });
    });
}

#[test]
#[should_panic(expected = "in block_on")]
fn panic_in_block_on() {
    judge(|| block_on(async { panic!("in block_on") }));
}

/// The queue goes while two tasks wait for one another's end: each one's drop wakes the other.
#[test]
fn wake_while_rt_is_dropping() {
    struct SendOnDrop(judges::Sender<()>);
    impl Drop for SendOnDrop {
        fn drop(&mut self) {
            self.0.send_now(());
        }
    }
    judge(|| {
        on_one_and_on_four(|queue| {
            let (tx1, rx1) = oneshot();
            let (tx2, rx2) = oneshot();
            let tasks = [(tx2, rx1), (tx1, rx2)].map(|(tx, rx)| {
                let wait = async move {
                    let _sends = SendOnDrop(tx);
                    rx.recv().await;
                };
                queue.spawn(wait).unwrap()
            });
            queue.flush().unwrap();
            drop(queue);
            drop(tasks);
        });
    });
}

#[test]
fn shutdown_timeout() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let (tx, rx) = mpsc::channel::<()>();
            let (begin, begun) = mpsc::channel();
            let item = move || {
                begin.send(()).unwrap();
                let _ = coreshard::blocking(|| rx.recv());
            };
            queue.queue(item).unwrap();
            begun.recv().unwrap();
            assert_eq!(queue.shutdown(ms(10)).unwrap_err().in_flight(), 1);
            drop(tx);
            queue.shutdown(ms(30_000)).unwrap();
        });
    });
}

#[test]
fn shutdown_timeout_0() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let (tx, rx) = mpsc::channel::<()>();
            let item = move || {
                let _ = coreshard::blocking(|| rx.recv());
            };
            queue.queue(item).unwrap();
            assert!(queue.shutdown(ms(0)).is_err());
            drop(tx);
        });
    });
}

/// A timer that has fired before leaves nothing that a shutdown waits for.
#[test]
fn shutdown_wakeup_time() {
    judge(|| {
        let runtime = judges::runtime(2);
        let queue = runtime.workqueue().build().unwrap();
        let sleep = runtime.sleep(ms(5)).unwrap();
        block_on(queue.spawn(sleep).unwrap());
        runtime.shutdown(ms(30_000)).unwrap();
    });
}

#[test]
fn runtime_in_thread_local() {
    thread_local! {
        static KEPT: std::cell::RefCell<Option<Workqueue>> = const { std::cell::RefCell::new(None) };
    }
    judge(|| {
        let keep = || {
            KEPT.with(|kept| *kept.borrow_mut() = Some(pool(2)));
            let _another = pool(2);
        };
        thread::spawn(keep).join().unwrap();
    });
}

/// `join!` of two futures in one task that wake one another.
#[test]
fn two_futures_of_one_task() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let ping_pong = async {
                let (ping, pinged) = unbounded();
                let (pong, ponged) = unbounded();
                let first = async {
                    for number in 0..100 {
                        ping.send_now(number);
                        assert_eq!(ponged.recv().await, Some(number));
                    }
                };
                let second = async {
                    for _ in 0..100 {
                        pong.send_now(pinged.recv().await.unwrap());
                    }
                };
                both(first, second).await;
            };
            block_on(queue.spawn(ping_pong).unwrap());
        });
    });
}

/// `enter_and_spawn`: the task is spawned and awaited on a thread outside the queue.
#[test]
fn enter_and_spawn() {
    judge(|| on_one_and_on_four(|queue| block_on(queue.spawn(async {}).unwrap())));
}

/// Many threads spawn tasks, and one list records the finished ones.
#[test]
fn spawn_from_many_threads() {
    judge(|| {
        on_one_and_on_four(|queue| {
            let seen = Arc::new(Mutex::new(Vec::new()));
            thread::scope(|threads| {
                for thread in 0..4 {
                    let (queue, seen) = (&queue, &seen);
                    threads.spawn(move || {
                        for number in 0..100 {
                            let seen = Arc::clone(seen);
                            let push =
                                async move { seen.lock().unwrap().push(thread * 100 + number) };
                            block_on(queue.spawn(push).unwrap());
                        }
                    });
                }
            });
            let mut seen = std::mem::take(&mut *seen.lock().unwrap());
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..400));
        });
    });
}
