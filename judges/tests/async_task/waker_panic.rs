//! `tests/waker_panic.rs`: a future that waits, and panics when it is polled again.

use judges::{block_on, judge, poll_once, thrown};

use crate::stage::{Director, PANIC_AT_SECOND, Stage};
use coreshard::Task;

/// A task in the middle of its second poll, which panics, and the waker of the first.
fn in_second_poll() -> (Stage, Director, Task<crate::stage::Output>, std::task::Waker) {
    let (mut stage, director) = Stage::with_director();
    let task = stage.spawn_directed(PANIC_AT_SECOND);
    director.wait_until_begun();
    director.go_on();
    stage.settle();
    let waker = stage.waker();
    waker.wake_by_ref();
    director.wait_until_begun();
    stage.assert(2, 0, 0);
    (stage, director, task, waker)
}

/// The future was dropped at its panic, is polled no more, and the queue goes on.
fn assert_over(stage: &Stage, director: &Director) {
    director.go_on();
    stage.settle();
    stage.drop_waker();
    assert_eq!(block_on(stage.queue.spawn(async { 1 }).unwrap()), 1);
    stage.assert(2, 1, 0);
}

#[test]
fn wake_during_run() {
    judge(|| {
        let (stage, director, task, waker) = in_second_poll();
        waker.wake();
        task.detach();
        stage.assert(2, 0, 0);
        assert_over(&stage, &director);
        assert_eq!(stage.panics.get(), 1);
    });
}

#[test]
fn cancel_during_run() {
    judge(|| {
        let (stage, director, task, waker) = in_second_poll();
        drop((task, waker));
        stage.assert(2, 0, 0);
        assert_over(&stage, &director);
    });
}

#[test]
fn wake_and_cancel_during_run() {
    judge(|| {
        let (stage, director, task, waker) = in_second_poll();
        waker.wake();
        drop(task);
        stage.assert(2, 0, 0);
        assert_over(&stage, &director);
    });
}

#[test]
fn cancel_and_wake_during_run() {
    judge(|| {
        let (stage, director, task, waker) = in_second_poll();
        drop(task);
        waker.wake();
        stage.assert(2, 0, 0);
        assert_over(&stage, &director);
    });
}

#[test]
fn panic_and_poll() {
    judge(|| {
        let mut stage = Stage::new();
        let mut task = stage.spawn(PANIC_AT_SECOND);
        stage.settle();
        assert!(poll_once(&mut task).is_none());
        stage.waker().wake();
        stage.settle();
        stage.assert(2, 1, 0);
        assert_eq!(thrown(|| poll_once(&mut task)).as_deref(), Some("the future panics"));
        stage.assert(2, 1, 0);
        stage.drop_waker();
        drop(task);
        stage.assert(2, 1, 0);
        assert_eq!(stage.panics.get(), 0, "it went to who awaited it");
    });
}
