//! The tests of async-executor, asked of `Workqueue::spawn`.
//!
//! The names and assertions are from async-executor (<https://github.com/smol-rs/async-executor>, Apache-2.0 or MIT):
//! `tests/{different_executors,drop,larger_tasks,local_queue,panic_prop,spawn_many}.rs`, and its `examples`. The text
//! is ours. An executor there is a queue here, and the queue's workers tick it.

use std::future::{poll_fn, ready};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use coreshard::{Priority, Task, Workqueue, yield_now};
use judges::{Counter, block_on, judge, ms, poll_once, pool, thrown, timeout, wait_until};

testing::watch!();

/// A future on two queues is not polled if only the other queue runs.
#[test]
fn shared_queue_slot() {
    judge(|| {
        let (first, second) = (pool(1), pool(1));
        first.freeze().unwrap();
        let polls = Counter::new();
        let polled = polls.clone();
        let task = first.spawn(async move { polled.add_one() }).unwrap();
        block_on(second.spawn(async {}).unwrap());
        assert_eq!(polls.get(), 0);
        first.thaw().unwrap();
        block_on(task);
        assert_eq!(polls.get(), 1);
    });
}

/// A future that has been polled, waits for ever, and left its waker.
fn waiting(queue: &Workqueue, dropped: &Counter) -> (Task<()>, Arc<Mutex<Option<Waker>>>) {
    let place = Arc::new(Mutex::new(None));
    let (guard, left) = (dropped.on_drop(), Arc::clone(&place));
    let task = queue.spawn(async move {
        let _guard = guard;
        poll_fn(|context| {
            *left.lock().unwrap() = Some(context.waker().clone());
            Poll::<()>::Pending
        })
        .await;
    });
    wait_until(|| place.lock().unwrap().is_some());
    (task.unwrap(), place)
}

/// When the last handle of the queue is dropped, no worker is left to poll waiting tasks. A task is dropped at its next
/// wake-up or with its last handle, and not by the queue's drop as in async-executor.
#[test]
fn executor_cancels_everything() {
    judge(|| {
        let dropped = Counter::new();
        let queue = pool(1);
        let (task, waker) = waiting(&queue, &dropped);
        drop(queue);
        waker.lock().unwrap().take().unwrap().wake();
        wait_until(|| dropped.get() == 1);
        assert!(thrown(|| block_on(task)).is_some(), "there is nothing to wait for");
        assert_eq!(dropped.get(), 1);
    });
}

/// The same if the handle of the task is dropped first.
#[test]
fn dropped_queue_and_then_dropped_task() {
    judge(|| {
        let dropped = Counter::new();
        let queue = pool(1);
        let (task, waker) = waiting(&queue, &dropped);
        drop(queue);
        drop(task);
        drop(waker);
        wait_until(|| dropped.get() == 1);
    });
}

#[test]
fn leaked_executor_leaks_everything() {
    judge(|| {
        let dropped = Counter::new();
        let queue = pool(1);
        let (mut task, _waker) = waiting(&queue, &dropped);
        std::mem::forget(queue);
        assert!(poll_once(&mut task).is_none());
        assert_eq!(dropped.get(), 0);
        task.detach();
    });
}

#[test]
fn await_task_after_dropping_executor() {
    judge(|| {
        let queue = pool(1);
        let text = String::from("hello");
        let task = queue.spawn(async move { text }).unwrap();
        drop(queue);
        assert_eq!(block_on(task), "hello");
    });
}

#[test]
fn drop_executor_and_then_drop_finished_task() {
    judge(|| {
        let dropped = Counter::new();
        let queue = pool(1);
        let guard = dropped.on_drop();
        let task = queue.spawn(async move { guard }).unwrap();
        drop(queue);
        assert_eq!(dropped.get(), 0);
        drop(task);
        assert_eq!(dropped.get(), 1);
    });
}

#[test]
fn drop_finished_task_and_then_drop_executor() {
    judge(|| {
        let dropped = Counter::new();
        let queue = pool(1);
        let guard = dropped.on_drop();
        let task = queue.spawn(async move { guard }).unwrap();
        wait_until(|| task.is_finished());
        assert_eq!(dropped.get(), 0);
        drop(task);
        assert_eq!(dropped.get(), 1);
        drop(queue);
        assert_eq!(dropped.get(), 1);
    });
}

/// An iterator that panics while its futures are spawned one after the other.
#[test]
fn iterator_panics_mid_run() {
    judge(|| {
        let queue = pool(1);
        let numbers = (0..50).map(|number| {
            assert!(number != 25, "the iterator panics");
            ready(number)
        });
        let spawn_all = || numbers.map(|future| queue.spawn(future).unwrap()).collect::<Vec<_>>();
        assert_eq!(thrown(spawn_all).as_deref(), Some("the iterator panics"));
        assert_eq!(block_on(queue.spawn(ready(0)).unwrap()), 0);
    });
}

/// `larger_tasks.rs` runs each of its futures on one thread and on sixteen.
fn on_one_and_on_many(test: impl Fn(&Workqueue)) {
    [1, 16].into_iter().for_each(|workers| test(&pool(workers)));
}

#[test]
fn smoke() {
    judge(|| on_one_and_on_many(|queue| block_on(queue.spawn(async {}).unwrap())));
}

#[test]
fn task_yields() {
    judge(|| on_one_and_on_many(|queue| block_on(queue.spawn(yield_now()).unwrap())));
}

#[test]
fn timer() {
    judge(|| {
        on_one_and_on_many(|queue| {
            let sleep = coreshard::runtime().unwrap().sleep(ms(5)).unwrap();
            block_on(queue.spawn(sleep).unwrap());
        });
    });
}

/// Of two that run the same queue one goes: here, a worker that is in the middle of an item.
#[test]
fn two_queues() {
    judge(|| {
        let queue = pool(2);
        let (tx, rx) = std::sync::mpsc::channel::<()>();
        let wait = move || {
            let _ = coreshard::blocking(|| rx.recv());
        };
        queue.queue(wait).unwrap();
        for number in 0..100 {
            assert_eq!(block_on(queue.spawn(ready(number)).unwrap()), number);
        }
        drop(tx);
    });
}

#[test]
fn test_panic_propagation() {
    judge(|| {
        let queue = pool(1);
        let task = queue.spawn(async { panic!("should be caught by the task") }).unwrap();
        wait_until(|| task.is_finished());
        let text = thrown(|| block_on::<Task<()>>(task));
        assert_eq!(text.as_deref(), Some("should be caught by the task"));
        assert_eq!(block_on(queue.spawn(ready(1)).unwrap()), 1);
    });
}

#[test]
fn spawn_many() {
    const COUNT: usize = 50_000;
    judge(|| {
        let queue = pool(2);
        let tasks: Vec<_> = (0..COUNT).map(|n| queue.spawn(ready(n)).unwrap()).collect();
        let all = async move {
            for (number, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.await, number);
            }
        };
        block_on(queue.spawn(all).unwrap());
    });
}

/// `examples/limit.rs`: never more than this number at once, regardless of the spawner.
#[test]
fn limit() {
    judge(|| {
        let queue = judges::queue(4, |builder| builder.max_active(3));
        let (inside, most) = (Counter::new(), Arc::new(Mutex::new(0)));
        let each = |_| {
            let (inside, most) = (inside.clone(), Arc::clone(&most));
            let one = async move {
                inside.add_one();
                let mut seen = most.lock().unwrap();
                *seen = inside.get().max(*seen);
                drop(seen);
                judges::sleep_ms(1);
                inside.take_one();
            };
            queue.spawn(one).unwrap()
        };
        let tasks: Vec<_> = (0..50).map(each).collect();
        tasks.into_iter().for_each(block_on);
        assert!((1..=3).contains(&*most.lock().unwrap()));
    });
}

/// `examples/priority.rs`: tasks of a queue of their own priority; here that they all run, and that what
/// cannot be had is told.
#[test]
fn priority() {
    judge(|| {
        let runtime = judges::runtime(2);
        let low = runtime.workqueue().nice(19).build().unwrap();
        let Ok(high) = runtime.workqueue().priority(Priority::High).build() else { return };
        let tasks: Vec<_> = (0..50)
            .flat_map(|n| [low.spawn(ready(n)).unwrap(), high.spawn(ready(n)).unwrap()])
            .collect();
        assert_eq!(tasks.into_iter().map(block_on).sum::<i32>(), 49 * 50);
    });
}

/// A task that awaits another one on the queue's only worker.
#[test]
fn a_task_awaits_another_on_one_worker() {
    judge(|| {
        let queue = pool(1);
        let inner = queue.clone();
        let task = queue.spawn(async move { inner.spawn(async { 1 }).unwrap().await + 1 }).unwrap();
        assert_eq!(block_on(task), 2);
    });
}

/// A task that gives up waiting for another one cancels it.
#[test]
fn a_task_that_is_not_awaited_any_more_is_cancelled() {
    judge(|| {
        let queue = pool(1);
        let dropped = Counter::new();
        let guard = dropped.on_drop();
        let never = queue.spawn(async move {
            let _guard = guard;
            judges::pending::<()>().await;
        });
        let runtime = coreshard::runtime().unwrap();
        assert!(block_on(timeout(runtime, ms(5), never.unwrap())).is_none());
        wait_until(|| dropped.get() == 1);
    });
}
