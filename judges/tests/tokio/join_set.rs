//! `task_join_set.rs`: a set is a list of tasks here; the tests check the outcome of its tasks.

use coreshard::{Task, runtime};
use judges::{Counter, block_on, judge, ms, pool, thrown, unbounded, wait_until};

#[test]
fn test_with_sleep() {
    judge(|| {
        let queue = pool(2);
        for _ in 0..2 {
            let tasks: Vec<_> = (0..10_u64)
                .map(|number| {
                    let sleep = runtime().unwrap().sleep(ms(number)).unwrap();
                    let one = async move {
                        sleep.await;
                        number
                    };
                    queue.spawn(one).unwrap()
                })
                .collect();
            assert!(tasks.into_iter().map(block_on).eq(0..10));
        }
    });
}

#[test]
fn test_abort_on_drop() {
    judge(|| {
        let queue = pool(2);
        let (tasks, receivers): (Vec<_>, Vec<_>) = (0..16)
            .map(|_| {
                let (tx, rx) = unbounded::<()>();
                let never = async move {
                    judges::pending::<()>().await;
                    drop(tx);
                };
                (queue.spawn(never).unwrap(), rx)
            })
            .unzip();
        drop(tasks);
        // Each one's sender goes with it.
        assert!(receivers.iter().all(|rx| block_on(rx.recv()).is_none()));
    });
}

#[test]
fn alternating() {
    judge(|| {
        let queue = pool(2);
        let spawn = || queue.spawn(async {}).unwrap();
        let mut set = std::collections::VecDeque::from([spawn(), spawn()]);
        for _ in 0..16 {
            block_on(set.pop_front().unwrap());
            set.push_back(spawn());
            assert_eq!(set.len(), 2);
        }
    });
}

#[test]
fn abort_tasks() {
    judge(|| {
        let queue = pool(2);
        let tasks: Vec<_> = (0..16_u64)
            .map(|number| {
                let sleep = runtime().unwrap().sleep(ms(3_600_000 * (number % 2))).unwrap();
                let one = async move {
                    sleep.await;
                    number
                };
                queue.spawn(one).unwrap()
            })
            .collect();
        let ended = |(number, task): (usize, Task<u64>)| {
            if number % 2 == 1 { block_on(task.cancel()) } else { Some(block_on(task)) }
        };
        let ended: Vec<_> = tasks.into_iter().enumerate().filter_map(ended).collect();
        assert_eq!(ended, [0, 2, 4, 6, 8, 10, 12, 14]);
    });
}

#[test]
fn runtime_gone() {
    judge(|| {
        let queue = pool(1);
        let (waits, is_waited_for) = unbounded::<()>();
        let task = queue.spawn(async move { is_waited_for.recv().await }).unwrap();
        queue.flush().unwrap();
        drop(queue);
        waits.send_now(());
        assert!(thrown(|| block_on(task)).is_some());
    });
}

#[test]
fn join_all() {
    judge(|| {
        let queue = pool(2);
        let tasks: Vec<_> = (0..5).map(|_| queue.spawn(async { 1 }).unwrap()).collect();
        assert_eq!(tasks.into_iter().map(block_on).collect::<Vec<_>>(), [1; 5]);
    });
}

/// A panic of one task propagates where the task is awaited, and the other tasks are cancelled with the list.
#[test]
fn task_panics() {
    judge(|| {
        let queue = pool(2);
        let (tx, rx) = unbounded::<()>();
        let never = async move {
            judges::pending::<()>().await;
            drop(tx);
        };
        let tasks = [queue.spawn(async { panic!("oops") }).unwrap(), queue.spawn(never).unwrap()];
        let text = thrown(|| tasks.into_iter().for_each(block_on));
        assert_eq!(text.as_deref(), Some("oops"));
        assert!(block_on(rx.recv()).is_none());
    });
}

#[test]
fn abort_all() {
    judge(|| {
        let queue = pool(2);
        let dropped = Counter::new();
        let spawn = |_| {
            let guard = dropped.on_drop();
            let never = async move {
                let _guard = guard;
                judges::pending::<()>().await;
            };
            queue.spawn(never).unwrap()
        };
        let waiting: Vec<_> = (0..5).map(spawn).collect();
        let ended: Vec<_> = (0..5).map(|_| queue.spawn(async {}).unwrap()).collect();
        wait_until(|| ended.iter().all(Task::is_finished));
        let cancelled = waiting.into_iter().chain(ended).map(|task| block_on(task.cancel()));
        assert_eq!(cancelled.filter(Option::is_none).count(), 5);
        assert_eq!(dropped.get(), 5);
    });
}

/// `try_join_next`: returns finished tasks while others are pending.
#[test]
fn try_join_next() {
    judge(|| {
        let queue = pool(2);
        let (tx, rx) = unbounded::<i32>();
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let rx = rx.clone();
                queue.spawn(async move { rx.recv().await.unwrap() }).unwrap()
            })
            .collect();
        queue.flush().unwrap();
        assert!(!tasks.iter().any(Task::is_finished));
        (0..10).for_each(|number| tx.send_now(number));
        wait_until(|| tasks.iter().filter(|task| task.is_finished()).count() == 10);
        (10..20).for_each(|number| tx.send_now(number));
        assert_eq!(tasks.into_iter().map(block_on).sum::<i32>(), 190);
    });
}

/// `join_set_coop`: many tasks that are over at once are all taken.
#[test]
fn join_set_coop() {
    judge(|| {
        let queue = pool(2);
        let (tx, rx) = unbounded::<()>();
        let tasks: Vec<_> = (0..256)
            .map(|_| {
                let rx = rx.clone();
                queue.spawn(async move { assert!(rx.recv().await.is_none()) }).unwrap()
            })
            .collect();
        drop(tx);
        assert_eq!(tasks.into_iter().map(block_on).count(), 256);
    });
}
