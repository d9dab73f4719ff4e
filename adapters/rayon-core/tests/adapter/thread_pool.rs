//! Pools: their threads, their hooks, their end, and calls from one into another.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread;

use crate::support::{pool, text, thrown, until_asleep};
use rayon_core::{ThreadPoolBuilder, current_num_threads, current_thread_index, join};
use testing::wait_until;

#[test]
fn worker_thread_index() {
    let pool = pool(22);
    assert_eq!(pool.current_num_threads(), 22);
    assert_eq!(pool.current_thread_index(), None);
    let index = pool.install(|| pool.current_thread_index().unwrap());
    assert!(index < 22);
}

/// Functions without a pool argument use the pool of this thread.
#[test]
fn inside_and_outside() {
    assert_eq!(current_thread_index(), None);
    assert_eq!(rayon_core::current_thread_has_pending_tasks(), None);
    let (one, other) = (pool(3), pool(5));
    let inside = one.install(|| {
        assert_eq!(one.current_thread_index(), current_thread_index());
        assert_eq!(other.current_thread_index(), None);
        assert_eq!(other.current_thread_has_pending_tasks(), None);
        assert_eq!((other.yield_now(), other.yield_local()), (None, None));
        (current_num_threads(), other.install(current_num_threads))
    });
    assert_eq!(inside, (3, 5));
}

#[test]
fn pending_tasks_are_those_of_this_thread() {
    let pool = pool(1);
    pool.install(|| {
        assert_eq!(rayon_core::current_thread_has_pending_tasks(), Some(false));
        rayon_core::spawn(|| ());
        assert_eq!(rayon_core::current_thread_has_pending_tasks(), Some(true));
        assert_eq!(pool.current_thread_has_pending_tasks(), Some(true));
        assert_eq!(pool.yield_local(), Some(rayon_core::Yield::Executed));
        assert_eq!(pool.current_thread_has_pending_tasks(), Some(false));
    });
}

/// A hook that returns when this many threads are in it and the test is at the barrier, and the number of its calls.
fn meeting(
    threads: usize,
) -> (impl Fn(usize) + Send + Sync + Clone + 'static, Arc<Barrier>, Arc<AtomicUsize>) {
    let barrier = Arc::new(Barrier::new(threads + 1));
    let count = Arc::new(AtomicUsize::new(0));
    let (meets, counts) = (Arc::clone(&barrier), Arc::clone(&count));
    let hook = move |_| {
        counts.fetch_add(1, SeqCst);
        meets.wait();
    };
    (hook, barrier, count)
}

#[test]
fn start_callback_called() {
    let (hook, barrier, count) = meeting(16);
    let pool = ThreadPoolBuilder::new().num_threads(16).start_handler(hook).build().unwrap();
    barrier.wait();
    assert_eq!((count.load(SeqCst), pool.current_num_threads()), (16, 16));
}

#[test]
fn exit_callback_called() {
    let (hook, barrier, count) = meeting(16);
    drop(ThreadPoolBuilder::new().num_threads(16).exit_handler(hook).build().unwrap());
    barrier.wait();
    assert_eq!(count.load(SeqCst), 16);
}

/// Inside the hooks a thread already, or still, belongs to the pool, and the hooks get the threads' indices.
#[test]
fn hooks_are_on_the_pools_threads() {
    let (say, hear) = channel();
    let hook = move |index| say.send((index, current_thread_index())).unwrap();
    let builder = ThreadPoolBuilder::new().num_threads(3);
    drop(builder.start_handler(hook.clone()).exit_handler(hook).build().unwrap());
    let expected = [0, 0, 1, 1, 2, 2].map(|index| (index, Some(index)));
    assert_eq!(crate::support::all_sorted(hear), expected);
}

#[test]
fn handler_panics_handled_correctly() {
    const THREADS: usize = 16;
    // As it starts, and as it ends.
    let (handler, barrier, count) = meeting(THREADS);
    let handler = move |_| handler(0);
    let pool = ThreadPoolBuilder::new()
        .num_threads(THREADS)
        .start_handler(|_| panic!("as it starts"))
        .exit_handler(|_| panic!("as it ends"))
        .panic_handler(handler)
        .build()
        .unwrap();
    barrier.wait();
    drop(pool);
    barrier.wait();
    assert_eq!(count.load(SeqCst), 2 * THREADS);
}

#[test]
fn check_config_build() {
    assert_eq!(pool(22).current_num_threads(), 22);
}

#[test]
#[allow(deprecated, reason = "part of the interface")]
fn configuration() {
    let pool = rayon_core::Configuration::new()
        .thread_name(|index| format!("thread {index}"))
        .num_threads(5)
        .panic_handler(|_| ())
        .stack_size(4_000_000)
        .breadth_first()
        .start_handler(|_| ())
        .exit_handler(|_| ())
        .build()
        .unwrap();
    assert_eq!(pool.current_num_threads(), 5);
}

#[test]
fn default_pool() {
    assert!(ThreadPoolBuilder::default().build().unwrap().current_num_threads() > 0);
}

#[test]
#[allow(deprecated, reason = "part of the interface")]
fn check_thread_pool_new() {
    let configuration = rayon_core::Configuration::new().num_threads(22);
    let pool = rayon_core::ThreadPool::new(configuration).unwrap();
    assert_eq!(pool.current_num_threads(), 22);
}

/// A thread that belonged to a pool can join others when `run` returns.
#[test]
fn cleared_current_thread() {
    let mut threads = Vec::new();
    let pool = ThreadPoolBuilder::new()
        .num_threads(5)
        .spawn_handler(|thread| {
            threads.push(thread::spawn(move || {
                thread.run();
                current_thread_index()
            }));
            Ok(())
        })
        .build()
        .unwrap();
    assert!(pool.install(current_thread_index).is_some());
    drop(pool);
    assert_eq!(threads.len(), 5);
    for thread in threads {
        assert_eq!(thread.join().unwrap(), None);
    }
}

#[test]
fn panic_propagate() {
    let pool = ThreadPoolBuilder::new().build().unwrap();
    assert_eq!(thrown(|| pool.install(|| panic!("hello"))), "hello");
}

/// A builder whose threads are counted when they start and when they exit.
fn counted(threads: usize) -> (ThreadPoolBuilder, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (started, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let hook = |count: &Arc<AtomicUsize>| {
        let count = Arc::clone(count);
        move |_| {
            count.fetch_add(1, SeqCst);
        }
    };
    let builder = ThreadPoolBuilder::new().num_threads(threads);
    (builder.start_handler(hook(&started)).exit_handler(hook(&ended)), started, ended)
}

/// The count after the pool has ended.
fn last_count(count: Arc<AtomicUsize>) -> usize {
    wait_until("the pool has ended", || Arc::strong_count(&count) == 1);
    count.load(SeqCst)
}

#[test]
fn workers_stop() {
    fn join_a_lot(depth: usize) {
        if depth > 0 {
            join(|| join_a_lot(depth - 1), || join_a_lot(depth - 1));
        }
    }
    let (builder, _, ended) = counted(22);
    let pool = builder.build().unwrap();
    pool.install(|| join_a_lot(16));
    drop(pool);
    assert_eq!(last_count(ended), 22);
}

#[test]
fn sleeper_stop() {
    let (builder, _, ended) = counted(22);
    let pool = builder.build().unwrap();
    until_asleep();
    drop(pool);
    assert_eq!(last_count(ended), 22);
}

#[test]
fn failed_thread_stack() {
    let (builder, started, ended) = counted(10);
    let error = builder.stack_size(isize::MAX as usize).build().unwrap_err();
    assert!(std::error::Error::source(&error).is_some(), "{error}");
    let started = last_count(started);
    assert!(started <= 1);
    assert_eq!(last_count(ended), started);
}

#[test]
fn panic_thread_name() {
    let (builder, started, ended) = counted(10);
    let builder = builder.thread_name(|index| {
        assert!(index < 5, "no name");
        format!("panic_thread_name {index}")
    });
    let outcome = catch_unwind(AssertUnwindSafe(|| builder.build()));
    assert_eq!(text(&*outcome.unwrap_err()), "no name");
    // Each thread is started before the next one's name is requested.
    assert_eq!((last_count(started), last_count(ended)), (5, 5));
}

/// As above, if the program fails to start a thread.
#[test]
fn failed_spawn_handler() {
    let (builder, started, ended) = counted(10);
    let error = builder
        .spawn_handler(|thread| {
            if thread.index() == 5 {
                return Err(std::io::Error::other("no thread"));
            }
            thread::spawn(|| thread.run());
            Ok(())
        })
        .build()
        .unwrap_err();
    assert_eq!(error.to_string(), "no thread");
    assert_eq!((last_count(started), last_count(ended)), (5, 5));
}

#[test]
fn names_and_stack_sizes_are_told() {
    let told = std::cell::RefCell::new(Vec::new());
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .thread_name(|index| format!("told {index}"))
        .stack_size(1 << 20)
        .spawn_handler(|thread| {
            let name = thread.name().map(str::to_owned);
            told.borrow_mut().push((thread.index(), name, thread.stack_size()));
            thread::spawn(|| thread.run());
            Ok(())
        })
        .build()
        .unwrap();
    drop(pool);
    let expected = [0, 1].map(|index| (index, Some(format!("told {index}")), Some(1 << 20)));
    assert_eq!(told.into_inner(), expected);
}

#[test]
fn threads_have_their_names() {
    let builder = ThreadPoolBuilder::new().num_threads(3).thread_name(|index| format!("n{index}"));
    let names = builder.build().unwrap().broadcast(|_| thread::current().name().map(str::to_owned));
    assert_eq!(names, [0, 1, 2].map(|index| Some(format!("n{index}"))));
}

#[test]
fn self_install() {
    let pool = pool(1);
    assert!(pool.install(|| pool.install(|| true)));
}

/// Calls from a pool of one thread to another pool, and back while the first pool's thread waits.
fn there_and_back(pause: fn()) -> bool {
    let (one, other) = (pool(1), pool(1));
    one.install(|| {
        other.install(|| {
            pause();
            one.install(|| {
                pause();
                true
            })
        })
    })
}

#[test]
fn mutual_install() {
    assert!(there_and_back(|| ()));
}

#[test]
fn mutual_install_sleepy() {
    assert!(there_and_back(until_asleep));
}

#[test]
fn mutual_scopes() {
    let (one, other) = (pool(1), pool(1));
    let count = AtomicUsize::new(0);
    one.scope(|_| {
        other.scope(|_| {
            one.scope(|scope| {
                scope.spawn(|_| {
                    count.fetch_add(1, SeqCst);
                });
            });
        });
    });
    assert_eq!(count.into_inner(), 1);
}

#[test]
fn the_most_threads() {
    // On 32 bits it is 255, as published.
    assert!(rayon_core::max_num_threads() >= 255);
}
