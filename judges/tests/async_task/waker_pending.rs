//! `tests/waker_pending.rs`: a future that is never ready.

use std::task::Waker;

use coreshard::Task;
use judges::{judge, wait_until};

use crate::stage::{Director, Output, PENDING, Stage};

/// A task in the middle of its second poll, and the waker of the first.
fn in_second_poll() -> (Stage, Director, Task<Output>, Waker) {
    let (mut stage, director) = Stage::with_director();
    let task = stage.spawn_directed(PENDING);
    director.wait_until_begun();
    director.go_on();
    stage.settle();
    let waker = stage.waker();
    waker.wake_by_ref();
    director.wait_until_begun();
    stage.assert(2, 0, 0);
    assert_eq!(stage.scheduled(), 1);
    (stage, director, task, waker)
}

/// A task that is woken during a poll is polled once more, after this poll has finished.
#[test]
fn wake_during_run() {
    judge(|| {
        let (stage, director, _task, waker) = in_second_poll();
        waker.wake_by_ref();
        waker.wake_by_ref();
        assert_eq!(stage.scheduled(), 1);
        director.go_on();
        director.wait_until_begun();
        assert_eq!(stage.scheduled(), 2);
        director.go_on();
        stage.settle();
        stage.assert(3, 0, 0);
        assert_eq!(stage.scheduled(), 2, "two wake-ups during one poll are one");
        stage.drop_waker();
    });
}

#[test]
fn cancel_during_run() {
    judge(|| {
        let (stage, director, task, waker) = in_second_poll();
        drop((task, waker));
        stage.assert(2, 0, 0);
        director.go_on();
        stage.settle();
        stage.drop_waker();
        stage.assert(2, 1, 0);
        assert_eq!(stage.scheduled(), 1);
    });
}

#[test]
fn wake_and_cancel_during_run() {
    judge(|| {
        let (stage, director, task, waker) = in_second_poll();
        waker.wake();
        drop(task);
        stage.assert(2, 0, 0);
        director.go_on();
        stage.settle();
        stage.assert(2, 1, 0);
    });
}

#[test]
fn cancel_and_wake_during_run() {
    judge(|| {
        let (stage, director, task, waker) = in_second_poll();
        drop(task);
        waker.wake();
        stage.assert(2, 0, 0);
        director.go_on();
        stage.settle();
        stage.assert(2, 1, 0);
    });
}

/// A task without an awaiter or a waker is dropped.
#[test]
fn drop_last_waker() {
    judge(|| {
        let mut stage = Stage::new();
        let task = stage.spawn(PENDING);
        stage.settle();
        let waker = stage.waker();
        task.detach();
        stage.assert(1, 0, 0);
        drop(waker);
        wait_until(|| stage.futures.get() == 1);
        stage.assert(1, 1, 0);
    });
}

#[test]
fn cancel_last_task() {
    judge(|| {
        let mut stage = Stage::new();
        let task = stage.spawn(PENDING);
        stage.settle();
        stage.drop_waker();
        stage.assert(1, 0, 0);
        drop(task);
        wait_until(|| stage.futures.get() == 1);
        stage.assert(1, 1, 0);
    });
}

#[test]
fn drop_last_task() {
    judge(|| {
        let mut stage = Stage::new();
        let task = stage.spawn(PENDING);
        stage.settle();
        stage.drop_waker();
        stage.assert(1, 0, 0);
        task.detach();
        wait_until(|| stage.futures.get() == 1);
        stage.assert(1, 1, 0);
    });
}

/// The task is detached before its first poll, and then has no waker.
#[test]
fn detached_before_its_poll_without_a_waker() {
    judge(|| {
        let stage = Stage::new();
        stage.hold();
        let dropped = judges::Counter::new();
        let guard = dropped.on_drop();
        let never = async move {
            let _guard = guard;
            judges::pending::<()>().await;
        };
        stage.queue.spawn(never).unwrap().detach();
        stage.run();
        wait_until(|| dropped.get() == 1);
    });
}
