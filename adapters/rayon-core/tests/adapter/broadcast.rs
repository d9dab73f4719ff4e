//! Broadcasts to the threads of a pool.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::support::{all, all_sorted, in_global_pool, next, pool, text, until_asleep};
use rayon_core::{ThreadPool, ThreadPoolBuilder, broadcast, current_num_threads, spawn_broadcast};

#[test]
fn broadcast_global() {
    let indexes = broadcast(|thread| thread.index());
    assert!(indexes.into_iter().eq(0..current_num_threads()));
}

#[test]
fn spawn_broadcast_global() {
    let (say, hear) = channel();
    spawn_broadcast(move |thread| say.send(thread.index()).unwrap());
    assert!(all_sorted(hear).into_iter().eq(0..current_num_threads()));
}

#[test]
fn broadcast_pool() {
    let told = pool(7).broadcast(|thread| (thread.index(), thread.num_threads()));
    assert!(told.into_iter().eq((0..7).map(|index| (index, 7))));
}

/// Each index belongs to its thread.
#[test]
fn the_index_is_the_threads() {
    let pool = pool(7);
    let indexes = pool.broadcast(|thread| {
        assert_eq!(rayon_core::current_thread_index(), Some(thread.index()));
        (thread.index(), thread::current().id())
    });
    assert_eq!(indexes, pool.broadcast(|thread| (thread.index(), thread::current().id())));
}

#[test]
fn spawn_broadcast_pool() {
    let (say, hear) = channel();
    let pool = pool(7);
    pool.spawn_broadcast(move |thread| say.send(thread.index()).unwrap());
    assert!(all_sorted(hear).into_iter().eq(0..7));
}

#[test]
fn broadcast_self() {
    let indexes = pool(7).install(|| broadcast(|thread| thread.index()));
    assert!(indexes.into_iter().eq(0..7));
}

#[test]
fn spawn_broadcast_self() {
    let (say, hear) = channel();
    let pool = pool(7);
    pool.spawn(|| spawn_broadcast(move |thread| say.send(thread.index()).unwrap()));
    assert!(all_sorted(hear).into_iter().eq(0..7));
}

/// Broadcasts from one pool to another, and from each of its threads back. Each begins with `pause`.
fn mutual(pause: fn()) -> usize {
    let count = AtomicUsize::new(0);
    let (few, many) = (pool(3), pool(7));
    few.install(|| {
        pause();
        many.broadcast(|_| {
            pause();
            few.broadcast(|_| {
                count.fetch_add(1, Relaxed);
            });
        });
    });
    count.into_inner()
}

#[test]
fn broadcast_mutual() {
    assert_eq!(mutual(|| ()), 3 * 7);
}

#[test]
fn broadcast_mutual_sleepy() {
    assert_eq!(mutual(until_asleep), 3 * 7);
}

/// As [`mutual`], without waiting.
fn spawned_mutual(pause: fn()) -> usize {
    let (say, hear) = channel();
    let (few, many) = (Arc::new(pool(3)), pool(7));
    let back = Arc::clone(&few);
    few.spawn(move || {
        pause();
        many.spawn_broadcast(move |_| {
            pause();
            let say = say.clone();
            back.spawn_broadcast(move |_| say.send(()).unwrap());
        });
    });
    all(hear).len()
}

#[test]
fn spawn_broadcast_mutual() {
    assert_eq!(spawned_mutual(|| ()), 3 * 7);
}

#[test]
fn spawn_broadcast_mutual_sleepy() {
    assert_eq!(spawned_mutual(until_asleep), 3 * 7);
}

/// Panics on each thread that `throws` is true for. Returns how many were called, and one of the messages.
fn panics(throws: fn(usize) -> bool) -> (usize, String) {
    let count = AtomicUsize::new(0);
    let pool = pool(7);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        pool.broadcast(|thread| {
            count.fetch_add(1, Relaxed);
            assert!(!throws(thread.index()), "thrown");
        })
    }));
    (count.into_inner(), text(&*outcome.unwrap_err()))
}

#[test]
fn broadcast_panic_one() {
    assert_eq!(panics(|index| index == 3), (7, "thrown".to_owned()));
}

#[test]
fn broadcast_panic_many() {
    assert_eq!(panics(|index| index.is_multiple_of(2)), (7, "thrown".to_owned()));
}

/// As [`panics`], without waiting. Returns how many were called, and how many panics the handler was given.
fn spawned_panics(throws: fn(usize) -> bool) -> (usize, usize) {
    let (say, hear) = channel();
    let (say_panic, hear_panic) = channel();
    let pool: ThreadPool = ThreadPoolBuilder::new()
        .num_threads(7)
        .panic_handler(move |thrown| say_panic.send(thrown).unwrap())
        .build()
        .unwrap();
    pool.spawn_broadcast(move |thread| {
        say.send(()).unwrap();
        assert!(!throws(thread.index()), "thrown");
    });
    drop(pool);
    (all(hear).len(), all(hear_panic).len())
}

#[test]
fn spawn_broadcast_panic_one() {
    assert_eq!(spawned_panics(|index| index == 3), (7, 1));
}

#[test]
fn spawn_broadcast_panic_many() {
    assert_eq!(spawned_panics(|index| index.is_multiple_of(2)), (7, 4));
}

/// Repeatedly while some threads are about to sleep, each after a different time.
#[test]
fn broadcast_sleep_race() {
    let pool = pool(7);
    for _ in 0..2_000 {
        let slept = pool.broadcast(|thread| {
            thread::sleep(Duration::from_micros(thread.index() as u64));
        });
        assert_eq!(slept.len(), 7);
    }
}

#[test]
fn broadcast_after_spawn_broadcast() {
    let (say, hear) = channel();
    spawn_broadcast(move |thread| say.send(thread.index()).unwrap());
    // Broadcasts run in order on each thread, so the first has finished.
    broadcast(|_| ());
    let mut indexes: Vec<_> = hear.try_iter().collect();
    indexes.sort_unstable();
    assert!(indexes.into_iter().eq(0..current_num_threads()));
}

/// Jobs on a thread's own list run before a broadcast.
#[test]
fn broadcast_after_spawn() {
    let pool = pool(1);
    let (say, hear) = channel();
    pool.install(|| rayon_core::spawn(move || say.send(22).unwrap()));
    pool.broadcast(|_| ());
    assert_eq!(hear.try_recv(), Ok(22));
}

/// As above in the global pool. Another thread of it may have taken the job: then the job has at least begun.
#[test]
fn broadcast_after_spawn_global() {
    let (say, hear) = channel();
    in_global_pool(|| rayon_core::spawn(move || say.send(22).unwrap()));
    broadcast(|_| ());
    assert_eq!(next(&hear), 22);
}

#[test]
fn results_are_dropped_once() {
    let count = Arc::new(());
    let clones = pool(5).broadcast(|_| Arc::clone(&count));
    assert_eq!(clones.len(), 5);
    assert_eq!(Arc::strong_count(&count), 6);
    drop(clones);
    assert_eq!(Arc::strong_count(&count), 1);
}
