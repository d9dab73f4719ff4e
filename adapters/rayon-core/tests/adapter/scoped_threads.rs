//! Threads that the program starts, and that may borrow.

use std::cell::Cell;
use std::thread;

use rayon_core::{ThreadBuilder, ThreadPool, ThreadPoolBuilder};

thread_local!(static LOCAL: Cell<Option<i32>> = const { Cell::new(None) });

/// A thread of a pool that has the value while it runs.
fn run_with(value: &i32, thread: ThreadBuilder) {
    LOCAL.set(Some(*value));
    thread.run();
    LOCAL.set(None);
}

/// The pool's threads have their own value, independent of this thread's.
fn ask(pool: &ThreadPool, expected: i32) {
    assert_eq!(pool.install(|| LOCAL.get()), Some(expected));
    LOCAL.set(Some(-1));
    assert_eq!(pool.install(|| LOCAL.get()), Some(expected));
    let all = pool.broadcast(|_| LOCAL.get());
    assert!(!all.is_empty() && all.iter().all(|&local| local == Some(expected)), "{all:?}");
}

#[test]
fn missing_scoped_tls() {
    LOCAL.set(Some(42));
    let pool = ThreadPoolBuilder::new().build().unwrap();
    assert_eq!(pool.install(|| LOCAL.get()), None);
}

#[test]
fn spawn_scoped_tls_threadpool() {
    let value = 42;
    thread::scope(|scope| {
        let pool = ThreadPoolBuilder::new()
            .spawn_handler(|thread| {
                thread::Builder::new().spawn_scoped(scope, || run_with(&value, thread))?;
                Ok(())
            })
            .build()
            .unwrap();
        ask(&pool, 42);
    });
}

#[test]
fn build_scoped_tls_threadpool() {
    let value = 42;
    let outcome = ThreadPoolBuilder::new().build_scoped(
        |thread| run_with(&value, thread),
        |pool| {
            ask(pool, 42);
            "done"
        },
    );
    assert_eq!(outcome.unwrap(), "done");
}

/// The threads have their names and stack sizes, and exit even if the closure panics.
#[test]
fn build_scoped_whose_closure_throws() {
    let names = std::sync::Mutex::new(Vec::new());
    let call = || {
        let builder = ThreadPoolBuilder::new().num_threads(2);
        let outcome: Result<(), _> = builder
            .thread_name(|index| format!("scoped {index}"))
            .stack_size(1 << 20)
            .build_scoped(
                |thread| {
                    let name = thread::current().name().map(str::to_owned);
                    thread.run();
                    names.lock().unwrap().push(name);
                },
                |_| panic!("hello"),
            );
        outcome.unwrap();
    };
    let thrown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_err();
    assert_eq!(thrown.downcast_ref(), Some(&"hello"));
    let mut names = names.into_inner().unwrap();
    names.sort_unstable();
    assert_eq!(names, [0, 1].map(|index| Some(format!("scoped {index}"))));
}
