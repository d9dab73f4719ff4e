//! `tests/cancel.rs`: `Task::cancel`, which waits.

use judges::{block_on, judge, poll_once};

use crate::stage::{PENDING, READY, Stage};

#[test]
fn run_and_cancel() {
    judge(|| {
        let mut stage = Stage::new();
        let task = stage.spawn(READY);
        stage.settle();
        stage.assert(1, 1, 0);
        assert!(block_on(task.cancel()).is_some());
        stage.assert(1, 1, 1);
    });
}

#[test]
fn cancel_and_run() {
    judge(|| {
        let mut stage = Stage::new();
        stage.hold();
        let task = stage.spawn(READY);
        let mut cancel = Box::pin(task.cancel());
        // The wait ends when the future is dropped, and the queue has not come to that.
        assert!(poll_once(&mut cancel).is_none());
        stage.assert(0, 0, 0);
        stage.run();
        assert!(block_on(cancel).is_none());
        stage.assert(0, 1, 0);
    });
}

/// async-task drops the result of a running poll. Here a cancelled task is not polled again. If the running poll was
/// the last one, its result goes to the thread that waits for the cancellation.
#[test]
fn cancel_during_run() {
    judge(|| {
        let (mut stage, director) = Stage::with_director();
        let task = stage.spawn_directed(READY);
        director.wait_until_begun();
        let mut cancel = Box::pin(task.cancel());
        assert!(poll_once(&mut cancel).is_none());
        stage.assert(1, 0, 0);
        director.go_on();
        assert!(block_on(cancel).is_some(), "the poll that went on was its last");
        stage.settle();
        stage.assert(1, 1, 1);
    });
}

/// A task that waits for something is cancelled at once, by anybody.
#[test]
fn cancel_while_it_waits() {
    judge(|| {
        let mut stage = Stage::new();
        let task = stage.spawn(PENDING);
        stage.settle();
        assert!(block_on(task.cancel()).is_none());
        stage.assert(1, 1, 0);
    });
}

/// Cancelled in the middle of a poll that is not the last: it is polled no more.
#[test]
fn cancel_during_run_of_what_waits() {
    judge(|| {
        let (mut stage, director) = Stage::with_director();
        let task = stage.spawn_directed(PENDING);
        director.wait_until_begun();
        let mut cancel = Box::pin(task.cancel());
        assert!(poll_once(&mut cancel).is_none());
        director.go_on();
        assert!(block_on(cancel).is_none());
        stage.settle();
        stage.assert(1, 1, 0);
    });
}
