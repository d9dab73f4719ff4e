//! `tests/panic.rs`: a future that panics at its first poll.
//!
//! In async-task, the panic propagates through the thread that runs the task. Here the worker continues, and the panic
//! goes to the awaiter of the task, or else to the queue's panic handler.

use std::thread;

use judges::{block_on, judge, poll_once, thrown};

use crate::stage::{PANIC, Stage};

fn is_the_futures(text: Option<String>) -> bool {
    text.as_deref() == Some("the future panics")
}

/// The queue works as before.
fn assert_the_queue_goes_on(stage: &Stage) {
    stage.settle();
    assert_eq!(block_on(stage.queue.spawn(async { 5 }).unwrap()), 5);
}

#[test]
fn cancel_during_run() {
    judge(|| {
        let (mut stage, director) = Stage::with_director();
        let task = stage.spawn_directed(PANIC);
        director.wait_until_begun();
        drop(task);
        stage.assert(1, 0, 0);
        director.go_on();
        assert_the_queue_goes_on(&stage);
        stage.assert(1, 1, 0);
    });
}

#[test]
fn run_and_join() {
    judge(|| {
        let mut stage = Stage::new();
        let task = stage.spawn(PANIC);
        stage.settle();
        stage.assert(1, 1, 0);
        assert!(is_the_futures(thrown(|| block_on(task))));
        assert_the_queue_goes_on(&stage);
    });
}

#[test]
fn try_join_and_run_and_join() {
    judge(|| {
        let mut stage = Stage::new();
        stage.hold();
        let mut task = stage.spawn(PANIC);
        assert!(poll_once(&mut task).is_none());
        stage.assert(0, 0, 0);
        stage.run();
        stage.assert(1, 1, 0);
        assert!(is_the_futures(thrown(|| block_on(task))));
    });
}

#[test]
fn join_during_run() {
    judge(|| {
        let (mut stage, director) = Stage::with_director();
        let task = stage.spawn_directed(PANIC);
        director.wait_until_begun();
        let joiner = thread::spawn(move || thrown(|| block_on(task)));
        judges::sleep_ms(20);
        director.go_on();
        assert!(is_the_futures(joiner.join().unwrap()));
        stage.settle();
        stage.assert(1, 1, 0);
    });
}

#[test]
fn try_join_during_run() {
    judge(|| {
        let (mut stage, director) = Stage::with_director();
        let mut task = stage.spawn_directed(PANIC);
        director.wait_until_begun();
        assert!(poll_once(&mut task).is_none());
        stage.assert(1, 0, 0);
        drop(task);
        director.go_on();
        assert_the_queue_goes_on(&stage);
        stage.assert(1, 1, 0);
    });
}

#[test]
fn detach_during_run() {
    judge(|| {
        let (mut stage, director) = Stage::with_director();
        let task = stage.spawn_directed(PANIC);
        director.wait_until_begun();
        task.detach();
        stage.assert(1, 0, 0);
        director.go_on();
        assert_the_queue_goes_on(&stage);
        stage.assert(1, 1, 0);
        assert_eq!(stage.panics.get(), 1, "without an awaiter, the handler is called");
    });
}

/// Nobody will await a task that was dropped while it was polled: its panic is not to be lost.
#[test]
fn cancel_during_run_tells_the_handler() {
    judge(|| {
        let (mut stage, director) = Stage::with_director();
        let task = stage.spawn_directed(PANIC);
        director.wait_until_begun();
        drop(task);
        director.go_on();
        assert_the_queue_goes_on(&stage);
        assert_eq!(stage.panics.get(), 1);
    });
}

/// A task that panicked, and whose handle is given away after that.
#[test]
fn run_and_detach_tells_the_handler() {
    judge(|| {
        let mut stage = Stage::new();
        let task = stage.spawn(PANIC);
        stage.settle();
        task.detach();
        assert_eq!(stage.panics.get(), 1);
    });
}

#[test]
fn cancel_and_run() {
    judge(|| {
        let mut stage = Stage::new();
        stage.hold();
        drop(stage.spawn(PANIC));
        stage.run();
        stage.assert(0, 1, 0);
        assert_eq!(stage.panics.get(), 0);
    });
}
