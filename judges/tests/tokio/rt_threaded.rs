//! `rt_threaded.rs`.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Waker};

use coreshard::{Hooks, Task, Workqueue, blocking, yield_now};
use judges::{Counter, block_on, channel, judge, ms, poll_once, pool, queue, wait_until};

#[test]
fn single_thread() {
    judge(|| drop(pool(1)));
}

#[test]
fn many_oneshot_futures() {
    const COUNT: usize = 1_000;
    judge(|| {
        for _ in 0..5 {
            let queue = pool(4);
            let done = Counter::new();
            for _ in 0..COUNT {
                let done = done.clone();
                queue.spawn(async move { done.add_one() }).unwrap().detach();
            }
            done.wait_for(COUNT);
            drop(queue);
            assert_eq!(done.get(), COUNT);
        }
    });
}

/// Rings of tasks that pass a message on, several times around.
#[test]
fn many_multishot_futures() {
    const CHAIN: usize = 100;
    const CYCLES: usize = 5;
    const TRACKS: usize = 20;
    judge(|| {
        let queue = pool(4);
        let mut starts = Vec::new();
        let mut ends: Vec<Task<&str>> = Vec::new();
        for _ in 0..TRACKS {
            let (start, mut from) = channel(10);
            for _ in 0..CHAIN {
                let (to, next) = channel(10);
                let pass_on = async move {
                    while let Some(message) = from.recv().await {
                        if !to.send(message).await {
                            break;
                        }
                    }
                };
                queue.spawn(pass_on).unwrap().detach();
                from = next;
            }
            let again = start.clone();
            let cycle = async move {
                for _ in 1..CYCLES {
                    let message = from.recv().await.unwrap();
                    again.send(message).await;
                }
                from.recv().await.unwrap()
            };
            ends.push(queue.spawn(cycle).unwrap());
            starts.push(start);
        }
        for start in &starts {
            block_on(start.send("ping"));
        }
        assert!(ends.into_iter().all(|end| block_on(end) == "ping"));
    });
}

/// `lifo_slot_budget`: a task that spawns itself anew for ever does not keep others from running.
#[test]
fn lifo_slot_budget() {
    fn spawn_another(queue: &Workqueue, stop: &Arc<AtomicBool>) {
        let (again, stopped) = (queue.clone(), Arc::clone(stop));
        let next = async move {
            if !stopped.load(SeqCst) {
                spawn_another(&again, &stopped);
            }
        };
        queue.spawn(next).unwrap().detach();
    }
    judge(|| {
        let (queue, stop) = (pool(1), Arc::new(AtomicBool::new(false)));
        spawn_another(&queue, &stop);
        block_on(queue.spawn(async {}).unwrap());
        stop.store(true, SeqCst);
    });
}

/// Workers that were started have stopped when nothing of the pool is left, and what waited was dropped.
#[test]
fn drop_threadpool_drops_futures() {
    judge(|| {
        for _ in 0..50 {
            let (started, stopped, dropped) = (Counter::new(), Counter::new(), Counter::new());
            let (start, stop) = (started.clone(), stopped.clone());
            let hooks =
                Hooks::new().on_start(move |_| start.add_one()).on_stop(move |_| stop.add_one());
            let queue = queue(4, |builder| builder.hooks(hooks));
            let guard = dropped.on_drop();
            let never = async move {
                let _guard = guard;
                judges::pending::<()>().await;
            };
            let mut task = queue.spawn(never).unwrap();
            assert!(poll_once(&mut task).is_none());
            drop(task);
            drop(queue);
            wait_until(|| dropped.get() == 1);
            wait_until(|| started.get() >= 1 && started.get() == stopped.get());
        }
    });
}

#[test]
fn start_stop_callbacks_called() {
    judge(|| {
        let (started, stopped) = (Counter::new(), Counter::new());
        let (start, stop) = (started.clone(), stopped.clone());
        let hooks =
            Hooks::new().on_start(move |_| start.add_one()).on_stop(move |_| stop.add_one());
        let queue = queue(2, |builder| builder.hooks(hooks));
        block_on(queue.spawn(async {}).unwrap());
        drop(queue);
        wait_until(|| started.get() > 0 && started.get() == stopped.get());
    });
}

/// As many blocking tasks as there are workers: the others go on.
#[test]
fn blocking_tasks_hand_over() {
    const COUNT: usize = 1_000;
    judge(|| {
        for _ in 0..3 {
            let queue = pool(4);
            let barrier = Arc::new(Barrier::new(5));
            for _ in 0..4 {
                let barrier = Arc::clone(&barrier);
                let block = async move {
                    blocking(|| {
                        barrier.wait();
                        barrier.wait();
                    });
                };
                queue.spawn(block).unwrap().detach();
            }
            barrier.wait();
            let done = Counter::new();
            for _ in 0..COUNT {
                let done = done.clone();
                queue.spawn(async move { done.add_one() }).unwrap().detach();
            }
            done.wait_for(COUNT);
            barrier.wait();
        }
    });
}

#[test]
fn multi_threadpool() {
    judge(|| {
        let (first, second) = (pool(2), pool(2));
        let (tx, rx) = judges::unbounded();
        let (done, is_done) = mpsc::channel();
        let wait = async move {
            rx.recv().await.unwrap();
            done.send(()).unwrap();
        };
        second.spawn(wait).unwrap().detach();
        first.spawn(async move { tx.send_now(()) }).unwrap().detach();
        is_done.recv().unwrap();
    });
}

#[test]
fn yield_after_block_in_place() {
    judge(|| {
        let queue = pool(1);
        let task = queue.spawn(async {
            blocking(|| block_on(pool(1).spawn(async {}).unwrap()));
            yield_now().await;
        });
        block_on(task.unwrap());
    });
}

/// `coop_and_block_in_place`: a worker that comes back from `blocking` is one among others again.
#[test]
fn block_in_place_again_and_again() {
    judge(|| {
        let queue = pool(1);
        let task = queue.spawn(async {
            for _ in 0..100 {
                blocking(|| ());
                yield_now().await;
            }
        });
        let others: Vec<_> = (0..100).map(|n| queue.spawn(async move { n }).unwrap()).collect();
        assert_eq!(others.into_iter().map(block_on).sum::<i32>(), 4_950);
        block_on(task.unwrap());
    });
}

#[test]
fn max_blocking_threads() {
    judge(|| {
        let runtime = judges::machine(1).max_workers_per_pool(2).build().unwrap();
        let queue = runtime.workqueue().build().unwrap();
        let done = Counter::new();
        for _ in 0..50 {
            let done = done.clone();
            let item = move || {
                blocking(|| std::thread::sleep(ms(1)));
                done.add_one();
            };
            queue.queue(item).unwrap();
        }
        queue.flush().unwrap();
        assert_eq!(done.get(), 50);
        assert!(queue.stats().total().workers <= 2);
    });
}

/// A blocked task that another one frees after its sleep: the queue's drop waits for both.
#[test]
fn hang_on_shutdown() {
    judge(|| {
        let queue = pool(2);
        let (tx, rx) = mpsc::channel::<()>();
        let wait = async move {
            let _ = blocking(|| rx.recv());
        };
        queue.spawn(wait).unwrap().detach();
        let sleep = coreshard::runtime().unwrap().sleep(ms(20)).unwrap();
        let free = async move {
            sleep.await;
            drop(tx);
        };
        let free = queue.spawn(free).unwrap();
        block_on(free);
        drop(queue);
    });
}

/// One of two futures that share a lock wakes the other while it is dropped with the lock held. The wake-up must not
/// drop the other future immediately, although its queue no longer exists.
#[test]
fn wake_during_shutdown() {
    struct Shared {
        waker: Mutex<Option<Waker>>,
        puts: bool,
    }
    struct Half(Arc<Shared>, bool);
    impl Future for Half {
        type Output = ();
        fn poll(self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            if self.1 {
                *self.0.waker.lock().unwrap() = Some(context.waker().clone());
            }
            Poll::Pending
        }
    }
    impl Drop for Half {
        fn drop(&mut self) {
            let mut waker = self.0.waker.lock().unwrap();
            if !self.1
                && let Some(waker) = waker.take()
            {
                assert!(self.0.puts);
                waker.wake();
            }
        }
    }
    judge(|| {
        let shared = Arc::new(Shared { waker: Mutex::new(None), puts: true });
        let queue = pool(1);
        let first = queue.spawn(Half(Arc::clone(&shared), true)).unwrap();
        let second = queue.spawn(Half(Arc::clone(&shared), false)).unwrap();
        wait_until(|| shared.waker.lock().unwrap().is_some());
        drop(queue);
        drop(second);
        drop(first);
        wait_until(|| Arc::strong_count(&shared) == 1);
    });
}

/// `block_in_place` off a worker is a call.
#[test]
fn test_block_in_place() {
    judge(|| {
        assert_eq!(blocking(|| 1), 1);
        assert_eq!(block_on(async { blocking(|| 2) }), 2);
        assert_eq!(pool(1).install(|| blocking(|| blocking(|| 3))).unwrap(), 3);
    });
}

/// A mutex that is held across `blocking` by one task, and wanted by another.
#[test]
fn mutex_in_block_in_place() {
    judge(|| {
        let queue = pool(1);
        let lock = Arc::new(Mutex::new(0));
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let lock = Arc::clone(&lock);
                let add = async move {
                    blocking(|| {
                        let mut number = lock.lock().unwrap();
                        std::thread::yield_now();
                        *number += 1;
                    });
                };
                queue.spawn(add).unwrap()
            })
            .collect();
        tasks.into_iter().for_each(block_on);
        assert_eq!(*lock.lock().unwrap(), 20);
    });
}

/// `different_runtime_names`.
#[test]
fn different_runtime_names() {
    judge(|| {
        let runtime = judges::runtime(1);
        let named = |name: &str| runtime.workqueue().name(name).build().unwrap();
        let (first, second) = (named("first"), named("second"));
        let unnamed = runtime.workqueue().build().unwrap();
        assert_eq!((first.name(), second.name(), unnamed.name()), ("first", "second", "unnamed"));
    });
}

/// `start_stop_callbacks_called`, while a waker of a finished task still exists.
#[test]
fn workers_stop_though_a_waker_is_kept() {
    judge(|| {
        let (started, stopped) = (Counter::new(), Counter::new());
        let (start, stop) = (started.clone(), stopped.clone());
        let hooks =
            Hooks::new().on_start(move |_| start.add_one()).on_stop(move |_| stop.add_one());
        let queue = queue(2, |builder| builder.hooks(hooks));
        let keep = std::future::poll_fn(|context| Poll::Ready(context.waker().clone()));
        let waker = block_on(queue.spawn(keep).unwrap());
        drop(queue);
        wait_until(|| started.get() > 0 && started.get() == stopped.get());
        drop(waker);
    });
}
