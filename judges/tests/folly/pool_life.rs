//! `ThreadPoolExecutorTest.cpp`: workers that come and go, handles, failures to start a worker.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;

use coreshard::Workqueue;
use judges::{Counter, block_on, judge, machine, meet, ms, pool, runtime, sleep_ms, wait_until};

/// `KeepAlive`: a waiting task has a handle that keeps the queue.
#[test]
fn keep_alive() {
    judge(|| {
        let queue = pool(4);
        let keep = queue.clone();
        let sleep = coreshard::runtime().unwrap().sleep(ms(20)).unwrap();
        let task = queue.spawn(async move {
            sleep.await;
            keep.spawn(async { 42 }).unwrap().await
        });
        drop(queue);
        assert_eq!(block_on(task.unwrap()), 42);
    });
}

/// `WeakRef`: after the last handle is dropped, the remaining reference rejects items with a message.
#[test]
fn weak_ref() {
    judge(|| {
        let queue = pool(1);
        let again = queue.clone();
        queue.shutdown(ms(30_000)).unwrap();
        drop(queue);
        assert!(again.queue(|| ()).is_err());
        assert!(again.spawn(async {}).is_err());
        assert!(again.submit(|| ()).is_err());
        assert!(again.install(|| ()).is_err());
        assert!(again.for_each_range(0..3, |_| ()).is_err());
    });
}

/// `WeakRefTestSequential`: a queue that is made, used and let go of, over and over.
#[test]
fn weak_ref_test_sequential() {
    judge(|| {
        let runtime = runtime(2);
        for number in 0..200 {
            let queue = runtime.workqueue().build().unwrap();
            assert_eq!(queue.submit(move || number).unwrap().join().unwrap(), number);
        }
        assert_eq!(runtime.stats().queues.len(), 0);
    });
}

/// `RegistersToExecutorList`.
#[test]
fn registers_to_executor_list() {
    judge(|| {
        let runtime = runtime(1);
        let names =
            || runtime.stats().queues.into_iter().map(|queue| queue.name).collect::<Vec<_>>();
        assert!(names().is_empty());
        let first = runtime.workqueue().name("first").build().unwrap();
        let second = runtime.workqueue().name("second").build().unwrap();
        assert_eq!(names(), ["first", "second"]);
        drop(first);
        assert_eq!(names(), ["second"]);
        drop(second);
        assert!(names().is_empty());
    });
}

/// `DynamicThreadsTest`: workers come when items wait for one another, and go when there is nothing to do.
#[test]
fn dynamic_threads_test() {
    judge(|| {
        let runtime = machine(1).idle_timeout(ms(10)).build().unwrap();
        let queue = runtime.workqueue().build().unwrap();
        assert_eq!(queue.stats().total().workers, 1);
        let (all, fewest) = (Barrier::new(8), AtomicUsize::new(usize::MAX));
        queue.scope(|scope| {
            for _ in 0..8 {
                let count = || {
                    meet(&all);
                    fewest.fetch_min(queue.stats().total().workers, SeqCst);
                    meet(&all);
                };
                scope.queue(count).unwrap();
            }
        });
        assert!(fewest.into_inner() >= 8, "eight items were inside at once");
        wait_until(|| queue.stats().total().workers == 1);
    });
}

/// `DynamicThreadAddRemoveRace`: items that come just as workers go.
#[test]
fn dynamic_thread_add_remove_race() {
    judge(|| {
        let runtime = machine(2).idle_timeout(ms(1)).build().unwrap();
        let queue = runtime.workqueue().build().unwrap();
        let run = Counter::new();
        for number in 0..500 {
            let run = run.clone();
            queue.queue(move || run.add_one()).unwrap();
            if number % 5 == 0 {
                sleep_ms(1);
            }
        }
        queue.flush().unwrap();
        assert_eq!(run.get(), 500);
    });
}

/// `AddPerf`: many items at once from many threads.
#[test]
fn add_perf() {
    judge(|| {
        let queue = pool(4);
        let run = Counter::new();
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..10_000 {
                        let run = run.clone();
                        queue.queue(move || run.add_one()).unwrap();
                    }
                });
            }
        });
        queue.flush().unwrap();
        assert_eq!(run.get(), 40_000);
    });
}

/// `GetThreadIdCollector`: the workers' names, all different.
#[test]
fn get_thread_id_collector() {
    judge(|| {
        let queue = pool(5);
        let (names, all) = (Mutex::new(BTreeSet::new()), Barrier::new(5));
        queue.scope(|scope| {
            for _ in 0..5 {
                let tell = || {
                    names.lock().unwrap().insert(thread::current().name().unwrap().to_owned());
                    meet(&all);
                };
                scope.queue(tell).unwrap();
            }
        });
        assert_eq!(names.into_inner().unwrap().len(), 5);
    });
}

/// `VirtualExecutor`: two queues over one pool; the end of the one waits for its own items alone.
#[test]
fn virtual_executor() {
    judge(|| {
        let runtime = runtime(2);
        let (first, second) =
            (runtime.workqueue().build().unwrap(), runtime.workqueue().build().unwrap());
        assert_eq!(first.stats().pools[0].id, second.stats().pools[0].id);
        let (tx, rx) = mpsc::channel::<()>();
        let hold = move || {
            let _ = coreshard::blocking(|| rx.recv());
        };
        first.queue(hold).unwrap();
        let run = Counter::new();
        for _ in 0..100 {
            let run = run.clone();
            second.queue(move || run.add_one()).unwrap();
        }
        drop(second);
        assert_eq!(run.get(), 100);
        drop(tx);
    });
}

/// `CurrentThreadExecutor`: the queue's rejections distinguish calls inside an item from calls outside.
#[test]
fn current_thread_executor() {
    judge(|| {
        let (queue, other) = (pool(1), pool(1));
        assert!(queue.flush().is_ok());
        let inside = queue.clone();
        assert!(queue.install(move || inside.flush().is_err()).unwrap());
        let outside = queue.clone();
        assert!(other.install(move || outside.flush().is_ok()).unwrap());
    });
}

/// `ProcessedTasksCountStartsAtZero`, `ProcessedTasksIncrementsAfterCompletion`.
#[test]
fn processed_tasks_count() {
    judge(|| {
        let queue = pool(1);
        assert_eq!(queue.stats().run, 0);
        for number in 1..=20 {
            queue.submit(|| ()).unwrap().join().unwrap();
            queue.flush().unwrap();
            wait_until(|| queue.stats().run == number);
        }
        assert_eq!(queue.stats().queued, 20);
    });
}

/// Runs items that wait for one another in a runtime with at most `workers` workers.
fn run_with(workers: usize, items: usize) -> (Workqueue, Counter) {
    let runtime = machine(1).max_workers(workers).build().unwrap();
    let queue = runtime.workqueue().build().unwrap();
    let run = Counter::new();
    for _ in 0..items {
        let run = run.clone();
        let item = move || {
            coreshard::blocking(|| sleep_ms(1));
            run.add_one();
        };
        queue.queue(item).unwrap();
    }
    (queue, run)
}

/// `AddImplToleratesThreadCreationFailure`: no further worker can be had, and all items run.
#[test]
fn tolerates_thread_creation_failure() {
    judge(|| {
        let (queue, run) = run_with(1, 50);
        queue.flush().unwrap();
        assert_eq!(run.get(), 50);
        assert_eq!(queue.stats().total().workers, 1);
        assert!(queue.stats().total().refused_workers > 0);
    });
}

/// `AddImplNoThreadsAndCreationFails`: a queue that cannot have its first worker is not made.
#[test]
fn no_threads_and_creation_fails() {
    judge(|| {
        let runtime = machine(1).max_workers(1).build().unwrap();
        let _has_it = runtime.workqueue().build().unwrap();
        let error = runtime.workqueue().nice(5).build().unwrap_err();
        assert!(!error.to_string().is_empty());
    });
}

/// `SetNumThreadsNoOpOnFailure`: a change whose workers cannot be had leaves the queue as it was.
#[test]
fn set_num_threads_no_op_on_failure() {
    judge(|| {
        let runtime = machine(2).max_workers(1).build().unwrap();
        let queue = runtime.workqueue().scope(coreshard::Scope::System).build().unwrap();
        assert!(queue.change().scope(coreshard::Scope::Cpu).apply().is_err());
        assert_eq!(queue.stats().scope, coreshard::Scope::System);
        assert_eq!(queue.submit(|| 3).unwrap().join().unwrap(), 3);
    });
}

/// `ThreadCollectorBlocksThreadExitTest`: the drop of a queue waits for an item that waits for others.
#[test]
fn drop_waits_for_what_waits() {
    judge(|| {
        let queue = pool(1);
        let (tx, rx) = mpsc::channel::<()>();
        let over = Counter::new();
        let ends = over.clone();
        let item = move || {
            let _ = coreshard::blocking(|| rx.recv());
            ends.add_one();
        };
        queue.queue(item).unwrap();
        let dropper = thread::spawn(move || drop(queue));
        sleep_ms(5);
        assert!(!dropper.is_finished());
        drop(tx);
        dropper.join().unwrap();
        assert_eq!(over.get(), 1);
    });
}

/// `GlobalExecutorTest.GlobalImmutableCPUExecutor`: all code shares the process's runtime.
#[test]
fn global_executor() {
    judge(|| {
        let counts: Vec<_> = (0..4)
            .map(|number| {
                thread::spawn(move || {
                    let queue = coreshard::workqueue().unwrap().build().unwrap();
                    queue.submit(move || number).unwrap().join().unwrap()
                })
            })
            .collect();
        assert_eq!(counts.into_iter().map(|thread| thread.join().unwrap()).sum::<i32>(), 6);
    });
}

/// `ConcurrentShutdown`: from several threads at once.
#[test]
fn concurrent_shutdown() {
    judge(|| {
        let queue = Arc::new(pool(2));
        let run = Counter::new();
        for _ in 0..100 {
            let run = run.clone();
            queue.queue(move || run.add_one()).unwrap();
        }
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| queue.shutdown(ms(30_000)).unwrap());
            }
        });
        assert_eq!(run.get(), 100);
    });
}
