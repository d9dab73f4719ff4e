//! Concurrency management: who gets a worker while others sleep, hog a CPU, or cannot be had.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use coreshard::{Diagnostic, Priority, Work};
use judges::{Counter, judge, machine, meet, ms, pool, queue, runtime, sleep_ms, wait_until};

/// "As long as there are runnable work items, at least one worker runs": one that says that it sleeps is
/// replaced.
#[test]
fn a_worker_that_sleeps_is_replaced() {
    judge(|| {
        let queue = pool(1);
        let all = Arc::new(Barrier::new(20));
        for _ in 0..20 {
            let all = Arc::clone(&all);
            queue.queue(move || meet(&all)).unwrap();
        }
        queue.flush().unwrap();
    });
}

/// And so is one that does not say it.
#[test]
fn a_worker_that_sleeps_without_saying_so_is_replaced() {
    judge(|| {
        let queue = pool(1);
        let all = Arc::new(Barrier::new(5));
        for _ in 0..5 {
            let all = Arc::clone(&all);
            let wait = move || {
                all.wait();
            };
            queue.queue(wait).unwrap();
        }
        queue.flush().unwrap();
    });
}

/// If no item sleeps, the number of running workers is the number of CPUs, not the number of items.
#[test]
fn workers_that_run_are_as_many_as_cpus() {
    judge(|| {
        let queue = pool(2);
        for _ in 0..200 {
            queue.queue(|| drop(std::hint::black_box(vec![0_u8; 1 << 12]))).unwrap();
        }
        queue.flush().unwrap();
        let stats = queue.stats().total();
        assert!(stats.workers <= 2 + stats.presumed_blocked as usize, "{stats:?}");
    });
}

/// `WQ_CPU_INTENSIVE`: "runnable CPU intensive work items don't prevent other work items in the same
/// worker-pool from starting execution". Here that is measured, not said.
#[test]
fn a_cpu_hog_does_not_keep_others_from_starting() {
    judge(|| {
        let (tx, rx) = mpsc::channel();
        let tell = move |trouble: &Diagnostic| {
            if let Diagnostic::CpuHog(hog) = trouble {
                let _ = tx.send(hog.function);
            }
        };
        let runtime =
            machine(1).cpu_intensive_threshold(ms(5)).on_diagnostic(tell).build().unwrap();
        let queue = runtime.workqueue().build().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let spin = move || while !stopped.load(SeqCst) {};
        queue.queue(spin).unwrap();
        let free = move || stop.store(true, SeqCst);
        queue.queue(free).unwrap();
        queue.flush().unwrap();
        assert!(rx.recv().unwrap().contains("a_cpu_hog_does_not_keep_others"));
    });
}

/// `WQ_HIGHPRI`: "highpri work items are queued to the highpri worker-pool"; they do not wait behind
/// normal ones. Without the privilege, making such a queue is an error that says so.
#[test]
fn highpri_items_do_not_wait_behind_normal_ones() {
    judge(|| {
        let runtime = runtime(1);
        let normal = runtime.workqueue().build().unwrap();
        let high = match runtime.workqueue().priority(Priority::High).build() {
            Ok(high) => high,
            Err(error) => {
                assert!(error.to_string().contains("nice"), "{error}");
                runtime.workqueue().priority(Priority::High).nice(0).build().unwrap()
            }
        };
        let (tx, rx) = mpsc::channel();
        let wait = move || rx.recv().unwrap();
        normal.queue(wait).unwrap();
        high.queue(move || tx.send(()).unwrap()).unwrap();
        normal.flush().unwrap();
    });
}

/// `WQ_MEM_RECLAIM`: "guaranteed to have at least one execution context regardless of memory pressure". If no worker
/// can be started, the reserve runs the queue's items.
#[test]
fn a_rescuer_gets_a_queue_on() {
    judge(|| {
        let runtime = machine(1).max_workers(2).build().unwrap();
        let hog = runtime.workqueue().build().unwrap();
        let queue = runtime.workqueue().rescuer(true).build().unwrap();
        let (tx, rx) = mpsc::channel();
        let first = move || {
            let _ = coreshard::blocking(|| rx.recv());
        };
        queue.queue(first).unwrap();
        // The first item waits for the second, and the only worker there may be is inside it.
        queue.queue(move || tx.send(()).unwrap()).unwrap();
        queue.flush().unwrap();
        hog.flush().unwrap();
    });
}

/// Chains that wait: reclaim that needs several items of the queue, one after the other.
#[test]
fn a_rescuer_gets_a_long_queue_on() {
    judge(|| {
        let runtime = machine(1).max_workers(1).build().unwrap();
        let queue = runtime.workqueue().rescuer(true).build().unwrap();
        let (tx, rx) = mpsc::channel();
        let first = move || {
            let _ = coreshard::blocking(|| rx.recv());
        };
        queue.queue(first).unwrap();
        let run = Counter::new();
        for _ in 0..100 {
            let count = run.clone();
            queue.queue(move || count.add_one()).unwrap();
        }
        queue.queue(move || tx.send(()).unwrap()).unwrap();
        queue.flush().unwrap();
        assert_eq!(run.get(), 100);
    });
}

/// Idle workers go after a time, and come back when they are needed.
#[test]
fn idle_workers_are_culled_and_come_back() {
    judge(|| {
        let runtime = machine(4).idle_timeout(ms(5)).build().unwrap();
        let queue = runtime.workqueue().build().unwrap();
        for _ in 0..3 {
            let all = Barrier::new(8);
            queue.scope(|scope| (0..8).for_each(|_| scope.queue(|| meet(&all)).unwrap()));
            wait_until(|| queue.stats().total().workers == 1);
        }
    });
}

/// The watchdog reports a pool that has items and starts none, with the running items.
#[test]
fn a_stall_is_told_of() {
    judge(|| {
        let (tx, rx) = mpsc::channel();
        let tell = move |trouble: &Diagnostic| {
            if let Diagnostic::Stall(stall) = trouble {
                let _ = tx.send(stall.to_string());
            }
        };
        let builder = machine(1).max_workers_per_pool(1).stall_after(ms(30)).on_diagnostic(tell);
        let queue = builder.build().unwrap().workqueue().build().unwrap();
        let (go, wait) = mpsc::channel::<()>();
        let hold = move || {
            let _ = wait.recv();
        };
        queue.queue(hold).unwrap();
        queue.queue(|| ()).unwrap();
        let report = rx.recv().unwrap();
        drop(go);
        queue.flush().unwrap();
        assert!(report.contains("a_stall_is_told_of"), "{report}");
    });
}

/// `lib/test_workqueue`: threads that queue an item each and wait for it, over and over, on every scope.
#[test]
fn test_workqueue() {
    judge(|| {
        let runtime = runtime(4);
        for scope in [coreshard::Scope::Cpu, coreshard::Scope::Cache, coreshard::Scope::System] {
            let queue = runtime.workqueue().scope(scope).build().unwrap();
            let done = AtomicUsize::new(0);
            thread::scope(|threads| {
                for _ in 0..4 {
                    threads.spawn(|| {
                        let (work, runs) = crate::work::counting();
                        for round in 1..=500 {
                            assert!(work.queue(&queue).unwrap());
                            work.flush().unwrap();
                            assert_eq!(runs.get(), round);
                            done.fetch_add(1, SeqCst);
                        }
                    });
                }
            });
            assert_eq!(done.into_inner(), 2_000);
        }
    });
}

/// An item waits for another item in the same pool, which is queued behind many.
#[test]
fn an_item_waits_for_one_behind_it() {
    judge(|| {
        let queue = pool(1);
        let inner = queue.clone();
        let wait = move || {
            let work = Work::new(|_| sleep_ms(1));
            (0..50).for_each(|_| inner.queue(|| ()).unwrap());
            work.queue(&inner).unwrap();
            work.flush().unwrap()
        };
        assert!(queue.submit(wait).unwrap().join().unwrap());
    });
}

/// Nested waits as deep as a filesystem on a device on a filesystem goes.
#[test]
fn items_wait_for_items_sixty_deep() {
    fn nested(queue: &coreshard::Workqueue, depth: usize) -> usize {
        if depth == 0 {
            return 0;
        }
        let inner = queue.clone();
        1 + queue.submit(move || nested(&inner, depth - 1)).unwrap().join().unwrap()
    }
    judge(|| assert_eq!(nested(&queue(1, |builder| builder), 60), 60));
}

/// As above, deeper than a pool may have workers.
#[test]
fn items_wait_for_items_six_hundred_deep() {
    fn nested(queue: &coreshard::Workqueue, depth: usize) -> usize {
        if depth == 0 {
            return 0;
        }
        let inner = queue.clone();
        1 + queue.submit(move || nested(&inner, depth - 1)).unwrap().join().unwrap()
    }
    judge(|| assert_eq!(nested(&pool(1), 600), 600));
}
