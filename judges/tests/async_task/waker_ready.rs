//! `tests/waker_ready.rs`: a future without an awaiter that is ready in its second poll.

use judges::{judge, ms};

use crate::stage::{READY_AT_SECOND, Stage};

/// A detached task after its first poll.
fn after_first_poll() -> Stage {
    let mut stage = Stage::new();
    stage.spawn(READY_AT_SECOND).detach();
    stage.settle();
    stage.assert(1, 0, 0);
    assert_eq!(stage.scheduled(), 0);
    stage
}

#[test]
fn wake() {
    judge(|| {
        let stage = after_first_poll();
        stage.waker().wake();
        stage.settle();
        stage.assert(2, 1, 1);
        stage.waker().wake();
        stage.settle();
        stage.assert(2, 1, 1);
        assert_eq!(stage.scheduled(), 1);
    });
}

#[test]
fn wake_by_ref() {
    judge(|| {
        let stage = after_first_poll();
        stage.waker().wake_by_ref();
        stage.settle();
        stage.assert(2, 1, 1);
        stage.waker().wake_by_ref();
        stage.settle();
        stage.assert(2, 1, 1);
        assert_eq!(stage.scheduled(), 1);
    });
}

#[test]
fn clone() {
    judge(|| {
        let stage = after_first_poll();
        let first = stage.waker();
        let second = first.clone();
        let third = second.clone();
        assert!(first.will_wake(&third));
        third.wake();
        stage.settle();
        stage.assert(2, 1, 1);
        second.wake();
        stage.settle();
        assert_eq!(stage.scheduled(), 1);
        drop(first);
        stage.drop_waker();
    });
}

/// Woken when its queue takes no more: it is dropped, once, and its wakers are harmless.
#[test]
fn wake_dropped() {
    judge(|| {
        let stage = after_first_poll();
        let waker = stage.waker();
        stage.queue.shutdown(ms(10_000)).unwrap();
        waker.wake_by_ref();
        stage.assert_soon(1, 1, 0);
        waker.wake();
        stage.assert(1, 1, 0);
    });
}

#[test]
fn wake_completed() {
    judge(|| {
        let stage = after_first_poll();
        let waker = stage.waker();
        waker.wake_by_ref();
        stage.settle();
        stage.assert(2, 1, 1);
        waker.wake();
        stage.settle();
        stage.assert(2, 1, 1);
        assert_eq!(stage.scheduled(), 1);
    });
}

/// Woken from many threads at once, it is polled once.
#[test]
fn wake_from_many_threads() {
    judge(|| {
        let stage = after_first_poll();
        stage.hold();
        let waker = stage.waker();
        std::thread::scope(|threads| {
            (0..8).for_each(|_| drop(threads.spawn(|| waker.wake_by_ref())));
        });
        stage.run();
        stage.assert(2, 1, 1);
        assert_eq!(stage.scheduled(), 1);
    });
}

/// The only waker wakes the task in the middle of its poll. The task is polled again, although no waker is left.
#[test]
fn wake_during_run() {
    judge(|| {
        let (mut stage, director) = Stage::with_director();
        stage.spawn_directed(READY_AT_SECOND).detach();
        director.wait_until_begun();
        stage.waker().wake();
        director.go_on();
        director.wait_until_begun();
        director.go_on();
        stage.settle();
        stage.assert(2, 1, 1);
        stage.drop_waker();
    });
}

/// The same by itself, as `yield_now` does.
#[test]
fn wake_by_itself_during_run() {
    judge(|| {
        let stage = Stage::new();
        let (over, reached) = (judges::Counter::new(), judges::Counter::new());
        let (guard, count) = (over.on_drop(), reached.clone());
        let yields = async move {
            let _guard = guard;
            for _ in 0..3 {
                coreshard::yield_now().await;
            }
            count.add_one();
        };
        stage.queue.spawn(yields).unwrap().detach();
        over.wait_for(1);
        assert_eq!(reached.get(), 1, "it was dropped before its end");
    });
}
