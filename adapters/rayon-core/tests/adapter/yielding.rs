//! Work that is run by a thread that yields.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;

use crate::support::{in_global_pool, next, pool};
use rayon_core::{Yield, spawn, yield_local, yield_now};

#[test]
fn yield_now_to_spawn() {
    let (say, hear) = channel();
    spawn(move || say.send(22).unwrap());
    in_global_pool(yield_now);
    assert_eq!(next(&hear), 22);
}

#[test]
fn yield_local_to_spawn() {
    let (say, hear) = channel();
    spawn(move || say.send(22).unwrap());
    in_global_pool(yield_local);
    assert_eq!(next(&hear), 22);
}

#[test]
fn on_no_pools_thread_there_is_nothing() {
    assert_eq!((yield_now(), yield_local()), (None, None));
    let pool = pool(1);
    assert_eq!((pool.yield_now(), pool.yield_local()), (None, None));
}

#[test]
fn each_yield_runs_one() {
    pool(1).install(|| {
        let (say, hear) = channel();
        for number in 0..2 {
            let say = say.clone();
            spawn(move || say.send(number).unwrap());
        }
        assert_eq!(yield_local(), Some(Yield::Executed));
        assert_eq!(hear.try_recv(), Ok(1));
        assert_eq!(yield_now(), Some(Yield::Executed));
        assert_eq!(hear.try_recv(), Ok(0));
        assert_eq!((yield_now(), yield_local()), (Some(Yield::Idle), Some(Yield::Idle)));
    });
}

/// Only `yield_now` finds work from outside.
#[test]
fn what_comes_from_outside() {
    let pool = pool(1);
    let (say, hear) = channel();
    pool.install(|| {
        std::thread::scope(|threads| {
            threads.spawn(|| pool.spawn(move || say.send(22).unwrap()));
        });
        assert_eq!(yield_local(), Some(Yield::Idle));
        assert_eq!(yield_now(), Some(Yield::Executed));
    });
    assert_eq!(hear.try_recv(), Ok(22));
}

/// Jobs that have begun wait for all others: a job that yields runs other jobs on its stack.
#[test]
fn jobs_that_wait_for_one_another_by_yields_end() {
    for threads in [1, 4] {
        let begun = AtomicUsize::new(0);
        pool(threads).scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|_| {
                    begun.fetch_add(1, SeqCst);
                    while begun.load(SeqCst) < 64 {
                        yield_now();
                    }
                });
            }
        });
    }
}
