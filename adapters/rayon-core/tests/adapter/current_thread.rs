//! Pools that include the thread that builds them.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::next;
use rayon_core::{ThreadPoolBuilder, current_thread_index};

#[test]
fn use_current_thread_basic() {
    let threads = Arc::new(Mutex::new(Vec::new()));
    let started = Arc::clone(&threads);
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .use_current_thread()
        .spawn_handler(move |thread| {
            started.lock().unwrap().push((thread.index(), thread::spawn(|| thread.run())));
            Ok(())
        })
        .build()
        .unwrap();
    assert_eq!((current_thread_index(), pool.current_thread_index()), (Some(0), Some(0)));

    let error = ThreadPoolBuilder::new().num_threads(2).use_current_thread().build().unwrap_err();
    assert_eq!(error.to_string(), "The current thread is already part of another thread pool.");
    assert!(std::error::Error::source(&error).is_none());

    // This thread waits, so the other one runs it.
    let (say, hear) = channel();
    pool.spawn(move || say.send(current_thread_index()).unwrap());
    assert_eq!(next(&hear), Some(1));

    drop(pool);
    let threads = std::mem::take(&mut *threads.lock().unwrap());
    assert_eq!(threads.len(), 1);
    for (index, thread) in threads {
        assert_eq!(index, 1);
        thread.join().unwrap();
    }
}

/// As the only member, this thread runs all work: when it waits for it, and when it yields.
#[test]
fn the_only_thread() {
    let pool = ThreadPoolBuilder::new()
        .num_threads(1)
        .use_current_thread()
        .spawn_handler(|_| panic!("no thread must be started"))
        .start_handler(|_| panic!("not on this thread"))
        .build()
        .unwrap();
    let here = thread::current().id();
    assert_eq!(pool.install(|| thread::current().id()), here);
    assert_eq!(pool.broadcast(|_| thread::current().id()), [here]);
    assert_eq!(rayon_core::join(|| 1, || 2), (1, 2));
    let (say, hear) = channel();
    rayon_core::scope(|scope| scope.spawn(|_| say.send(thread::current().id()).unwrap()));
    assert_eq!(hear.try_recv(), Ok(here));
    rayon_core::spawn(move || say.send(thread::current().id()).unwrap());
    assert!(hear.try_recv().is_err());
    assert_eq!(rayon_core::yield_now(), Some(rayon_core::Yield::Executed));
    assert_eq!(hear.try_recv(), Ok(here));
}
