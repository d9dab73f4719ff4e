//! `tests/basic.rs`.

use coreshard::{RefusedReason, yield_now};
use judges::{Counter, block_on, judge, ms, poll_once, wait_until};

use crate::stage::{PENDING, READY, READY_AT_SECOND, Stage};

/// In async-task, the queue of a task is shut down before its first poll, and the task is then detached. A queue here
/// runs every accepted task, so the first poll happens; a waiting task is dropped.
#[test]
fn drop_and_detach() {
    judge(|| {
        let mut stage = Stage::new();
        let task = stage.spawn(PENDING);
        stage.settle();
        stage.assert(1, 0, 0);
        stage.queue.shutdown(ms(10_000)).unwrap();
        let waker = stage.waker();
        waker.wake();
        stage.assert_soon(1, 1, 0);
        task.detach();
        stage.assert(1, 1, 0);
    });
}

#[test]
fn detach_and_drop() {
    judge(|| {
        let mut stage = Stage::new();
        stage.spawn(PENDING).detach();
        stage.settle();
        stage.assert(1, 0, 0);
        stage.queue.shutdown(ms(10_000)).unwrap();
        stage.waker().wake();
        stage.assert_soon(1, 1, 0);
    });
}

#[test]
fn detach_and_run() {
    judge(|| {
        let mut stage = Stage::new();
        stage.hold();
        stage.spawn(READY).detach();
        stage.assert(0, 0, 0);
        stage.run();
        stage.assert(1, 1, 1);
    });
}

#[test]
fn run_and_detach() {
    judge(|| {
        let mut stage = Stage::new();
        let task = stage.spawn(READY);
        stage.settle();
        stage.assert(1, 1, 0);
        task.detach();
        stage.assert(1, 1, 1);
    });
}

/// A cancelled task is not polled. The queue drops its future instead of polling it.
#[test]
fn cancel_and_run() {
    judge(|| {
        let mut stage = Stage::new();
        stage.hold();
        drop(stage.spawn(READY));
        stage.assert(0, 0, 0);
        stage.run();
        stage.assert(0, 1, 0);
    });
}

#[test]
fn run_and_cancel() {
    judge(|| {
        let mut stage = Stage::new();
        let task = stage.spawn(READY);
        stage.settle();
        stage.assert(1, 1, 0);
        drop(task);
        stage.assert(1, 1, 1);
    });
}

#[test]
fn cancel_join() {
    judge(|| {
        let mut stage = Stage::new();
        stage.hold();
        let mut task = stage.spawn(READY);
        assert!(poll_once(&mut task).is_none());
        stage.assert(0, 0, 0);
        stage.run();
        stage.assert(1, 1, 0);
        assert!(poll_once(&mut task).is_some());
        drop(task);
        stage.assert(1, 1, 1);
    });
}

/// A future that is never ready is polled when it is woken, and at no other time.
#[test]
fn schedule() {
    judge(|| {
        let mut stage = Stage::new();
        let _task = stage.spawn(PENDING);
        stage.settle();
        for polls in 1..=3 {
            stage.assert(polls, 0, 0);
            judges::sleep_ms(5);
            stage.assert(polls, 0, 0);
            stage.waker().wake();
            stage.settle();
        }
    });
}

#[test]
fn schedule_counter() {
    judge(|| {
        let mut stage = Stage::new();
        let _task = stage.spawn(PENDING);
        stage.settle();
        for _ in 0..3 {
            stage.waker().wake();
            stage.settle();
        }
        assert_eq!(stage.scheduled(), 3);
    });
}

/// A rejected future is returned unchanged.
#[test]
fn drop_inside_schedule() {
    judge(|| {
        let stage = Stage::new();
        stage.queue.shutdown(ms(10_000)).unwrap();
        let dropped = Counter::new();
        let guard = dropped.on_drop();
        let refused = stage.queue.spawn(async move { drop(guard) }).unwrap_err();
        assert_eq!((refused.reason(), dropped.get()), (RefusedReason::ShutDown, 0));
        drop(refused);
        assert_eq!(dropped.get(), 1);
    });
}

/// The waker of a task can be used before and after the end of its first poll.
#[test]
fn waker() {
    judge(|| {
        let (mut stage, director) = Stage::with_director();
        let task = stage.spawn_directed(READY_AT_SECOND);
        director.wait_until_begun();
        let waker = stage.waker();
        waker.wake_by_ref();
        director.go_on();
        director.wait_until_begun();
        director.go_on();
        block_on(task);
        stage.settle();
        waker.wake();
        stage.settle();
        stage.assert(2, 1, 1);
    });
}

/// `tests/metadata.rs`: two tasks that yield until each was polled five times.
#[test]
fn metadata_use_case() {
    judge(|| {
        let stage = Stage::new();
        let count_to_five = async || {
            let mut polls = 1;
            while polls < 5 {
                yield_now().await;
                polls += 1;
            }
            polls
        };
        let first = stage.queue.spawn(async move { count_to_five().await }).unwrap();
        let second = stage.queue.spawn(async move { count_to_five().await }).unwrap();
        assert_eq!(block_on(async { (first.await, second.await) }), (5, 5));
        stage.settle();
        wait_until(|| stage.queue.stats().run == 10);
    });
}

/// `is_finished` tells the truth at each step.
#[test]
fn is_finished() {
    judge(|| {
        let mut stage = Stage::new();
        stage.hold();
        let task = stage.spawn(READY);
        assert!(!task.is_finished());
        stage.run();
        assert!(task.is_finished());
    });
}
