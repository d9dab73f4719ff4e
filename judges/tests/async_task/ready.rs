//! `tests/ready.rs`: what happens to a task in the middle of its only poll.

use std::thread;

use judges::{block_on, judge, poll_once};

use crate::stage::{READY, Stage};

#[test]
fn cancel_during_run() {
    judge(|| {
        let (mut stage, director) = Stage::with_director();
        let task = stage.spawn_directed(READY);
        director.wait_until_begun();
        stage.assert(1, 0, 0);
        drop(task);
        stage.assert(1, 0, 0);
        director.go_on();
        stage.settle();
        stage.assert(1, 1, 1);
    });
}

#[test]
fn join_during_run() {
    judge(|| {
        let (mut stage, director) = Stage::with_director();
        let task = stage.spawn_directed(READY);
        director.wait_until_begun();
        let joiner = thread::spawn(move || drop(block_on(task)));
        judges::sleep_ms(20);
        stage.assert(1, 0, 0);
        director.go_on();
        joiner.join().unwrap();
        stage.settle();
        stage.assert(1, 1, 1);
    });
}

#[test]
fn try_join_during_run() {
    judge(|| {
        let (mut stage, director) = Stage::with_director();
        let mut task = stage.spawn_directed(READY);
        director.wait_until_begun();
        assert!(poll_once(&mut task).is_none());
        stage.assert(1, 0, 0);
        drop(task);
        director.go_on();
        stage.settle();
        stage.assert(1, 1, 1);
    });
}

#[test]
fn detach_during_run() {
    judge(|| {
        let (mut stage, director) = Stage::with_director();
        let task = stage.spawn_directed(READY);
        director.wait_until_begun();
        task.detach();
        stage.assert(1, 0, 0);
        director.go_on();
        stage.settle();
        stage.assert(1, 1, 1);
    });
}
