//! `tests/join.rs`.

use std::thread;

use judges::{block_on, judge, ms, poll_once, sleep_ms, thrown};

use crate::stage::{PENDING, READY, Stage};

/// Awaiting a task of a dropped queue panics with a message.
#[test]
fn drop_and_join() {
    judge(|| {
        let mut stage = Stage::new();
        let task = stage.spawn(PENDING);
        stage.settle();
        stage.queue.shutdown(ms(10_000)).unwrap();
        stage.waker().wake();
        let text = thrown(|| block_on(task)).expect("there is nothing to wait for");
        assert!(text.contains("shut down"), "{text}");
        stage.assert_soon(1, 1, 0);
    });
}

#[test]
fn run_and_join() {
    judge(|| {
        let mut stage = Stage::new();
        let task = stage.spawn(READY);
        stage.settle();
        stage.assert(1, 1, 0);
        drop(block_on(task));
        stage.assert(1, 1, 1);
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

/// The result is taken once; who awaits it again is told so.
#[test]
fn join_twice() {
    judge(|| {
        let mut stage = Stage::new();
        let mut task = stage.spawn(READY);
        drop(block_on(&mut task));
        stage.settle();
        stage.assert(1, 1, 1);
        assert!(thrown(|| block_on(&mut task)).is_some());
        stage.assert(1, 1, 1);
        task.detach();
    });
}

/// The queue is dropped while a thread waits for the task.
#[test]
fn join_and_cancel() {
    judge(|| {
        let mut stage = Stage::new();
        let task = stage.spawn(PENDING);
        stage.settle();
        let joiner = thread::spawn(move || thrown(|| block_on(task)).is_some());
        sleep_ms(20);
        stage.queue.shutdown(ms(10_000)).unwrap();
        stage.waker().wake();
        assert!(joiner.join().unwrap());
        stage.assert_soon(1, 1, 0);
    });
}

#[test]
fn join_and_run() {
    judge(|| {
        let mut stage = Stage::new();
        stage.hold();
        let task = stage.spawn(READY);
        let joiner = thread::spawn(move || drop(block_on(task)));
        sleep_ms(20);
        stage.assert(0, 0, 0);
        stage.run();
        joiner.join().unwrap();
        stage.assert(1, 1, 1);
    });
}

#[test]
fn try_join_and_run_and_join() {
    judge(|| {
        let mut stage = Stage::new();
        stage.hold();
        let mut task = stage.spawn(READY);
        assert!(poll_once(&mut task).is_none());
        stage.assert(0, 0, 0);
        let joiner = thread::spawn(move || drop(block_on(task)));
        sleep_ms(20);
        stage.run();
        joiner.join().unwrap();
        stage.assert(1, 1, 1);
    });
}

#[test]
fn try_join_and_cancel_and_run() {
    judge(|| {
        let mut stage = Stage::new();
        stage.hold();
        let mut task = stage.spawn(READY);
        assert!(poll_once(&mut task).is_none());
        drop(task);
        stage.assert(0, 0, 0);
        stage.run();
        stage.assert(0, 1, 0);
    });
}

#[test]
fn try_join_and_run_and_cancel() {
    judge(|| {
        let mut stage = Stage::new();
        stage.hold();
        let mut task = stage.spawn(READY);
        assert!(poll_once(&mut task).is_none());
        stage.run();
        stage.assert(1, 1, 0);
        drop(task);
        stage.assert(1, 1, 1);
    });
}

#[test]
fn await_output() {
    judge(|| {
        let stage = Stage::new();
        for number in 0..10 {
            assert_eq!(block_on(stage.queue.spawn(async move { number }).unwrap()), number);
            let list = stage.queue.spawn(async move { vec![7; number] }).unwrap();
            assert_eq!(block_on(list), vec![7; number]);
        }
        assert_eq!(block_on(stage.queue.spawn(async { "foo".to_owned() }).unwrap()), "foo");
    });
}

/// The latest awaiter is woken, even if the task was awaited with another waker before.
#[test]
fn the_latest_awaiter_is_woken() {
    judge(|| {
        let mut stage = Stage::new();
        stage.hold();
        let mut task = stage.spawn(READY);
        for _ in 0..3 {
            assert!(poll_once(&mut task).is_none());
        }
        let joiner = thread::spawn(move || drop(block_on(task)));
        sleep_ms(20);
        stage.run();
        joiner.join().unwrap();
    });
}
