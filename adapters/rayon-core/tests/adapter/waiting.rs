//! A thread that waits for a part of its work runs any work of its pool. A program may rely on that if one of its tasks waits for
//! another, for example with a channel.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Barrier, Mutex};

use crate::support::{next, pool};
use rayon_core::{join, scope, spawn};

/// A channel whose ends any thread may have.
fn pair() -> (Sender<i32>, Mutex<Receiver<i32>>) {
    let (say, hear) = channel();
    (say, Mutex::new(hear))
}

/// The only thread of a pool waits for a task of another pool, which waits for that thread to run another task.
#[test]
fn for_another_pool() {
    let (one, other) = (pool(1), pool(1));
    let (say, hear) = pair();
    let heard = one.install(|| {
        other.install(|| {
            one.spawn(move || say.send(22).unwrap());
            next(&hear.lock().unwrap())
        })
    });
    assert_eq!(heard, 22);
}

/// The second half runs on another thread, and waits for a task that only the first half's thread is free to run.
#[test]
fn for_the_second_half_of_a_join() {
    let barrier = Barrier::new(2);
    let (say, hear) = pair();
    let second = || {
        barrier.wait();
        spawn(move || say.send(22).unwrap());
        next(&hear.lock().unwrap())
    };
    let heard = pool(2).install(|| {
        let wait = || {
            barrier.wait();
        };
        join(wait, second).1
    });
    assert_eq!(heard, 22);
}

/// As above, for the end of a scope.
#[test]
fn for_the_end_of_a_scope() {
    let barrier = Barrier::new(2);
    let (say, hear) = pair();
    let mut heard = 0;
    pool(2).install(|| {
        scope(|scope| {
            scope.spawn(|_| {
                barrier.wait();
                spawn(move || say.send(22).unwrap());
                heard = next(&hear.lock().unwrap());
            });
            barrier.wait();
        });
    });
    assert_eq!(heard, 22);
}

/// Work that arrived from outside meanwhile is also run.
#[test]
fn for_the_end_of_a_scope_while_work_comes_from_outside() {
    let pool = pool(2);
    let barrier = Barrier::new(2);
    let (say, hear) = pair();
    let mut heard = 0;
    pool.in_place_scope(|outer| {
        outer.spawn(|_| {
            scope(|scope| {
                scope.spawn(|_| {
                    barrier.wait();
                    std::thread::scope(|threads| {
                        threads.spawn(|| pool.spawn(move || say.send(22).unwrap()));
                    });
                    heard = next(&hear.lock().unwrap());
                });
                barrier.wait();
            });
        });
    });
    assert_eq!(heard, 22);
}
