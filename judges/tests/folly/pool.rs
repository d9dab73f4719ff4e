//! `ThreadPoolExecutorTest.cpp`: pools and their tasks.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use coreshard::{Hooks, Intake, Priority, Sampling, Scope};
use judges::{
    Counter, block_on, default_queue, judge, ms, pool, queue, runtime, sleep_ms, text_of,
    wait_until,
};

/// `Basic`: made and let go of.
#[test]
fn basic() {
    judge(|| drop(pool(10)));
}

/// `Join`.
#[test]
fn join() {
    judge(|| {
        let (queue, completed) = (pool(10), Counter::new());
        for _ in 0..1_000 {
            let completed = completed.clone();
            queue.queue(move || completed.add_one()).unwrap();
        }
        queue.shutdown(testing::NEVER).unwrap();
        assert_eq!(completed.get(), 1_000);
    });
}

/// `Stop`: there it throws away what has not begun. Here nothing that was accepted is thrown away; a
/// shutdown that does not wait goes on by itself.
#[test]
fn stop() {
    judge(|| {
        let (queue, completed) = (pool(1), Counter::new());
        for _ in 0..100 {
            let completed = completed.clone();
            let item = move || {
                sleep_ms(1);
                completed.add_one();
            };
            queue.queue(item).unwrap();
        }
        let left = queue.shutdown(Duration::ZERO).unwrap_err().in_flight();
        assert!((1..=100).contains(&left));
        completed.wait_for(100);
        queue.shutdown(testing::NEVER).unwrap();
    });
}

/// `Destroy`: the drop waits for all of it.
#[test]
fn destroy() {
    judge(|| {
        let (queue, completed) = (pool(1), Counter::new());
        for _ in 0..100 {
            let completed = completed.clone();
            queue.queue(move || completed.add_one()).unwrap();
        }
        drop(queue);
        assert_eq!(completed.get(), 100);
    });
}

/// `Resize`: as many workers as CPUs may be used.
#[test]
fn resize() {
    judge(|| {
        let runtime = runtime(10);
        let queue = runtime.workqueue().scope(Scope::Cpu).build().unwrap();
        let all = runtime.usable();
        for count in [10, 5, 8, 1, 10] {
            runtime.set_usable(all.iter().take(count).collect()).unwrap();
            assert_eq!(queue.stats().total().worker_limit, count);
            assert_eq!(queue.install(|| count).unwrap(), count);
        }
    });
}

/// `ResizeUnderLoad`, `ResizeThreadWhileExecuting`.
#[test]
fn resize_under_load() {
    judge(|| {
        let (runtime, completed) = (runtime(10), Counter::new());
        let queue = runtime.workqueue().build().unwrap();
        let all = runtime.usable();
        for number in 0..1_000 {
            let completed = completed.clone();
            queue.queue(move || completed.add_one()).unwrap();
            if number % 250 == 100 {
                runtime.set_usable(all.iter().take(1 + number % 7).collect()).unwrap();
            }
        }
        queue.shutdown(testing::NEVER).unwrap();
        assert_eq!(completed.get(), 1_000);
    });
}

/// `CPUPoolStats`: one that runs, one that waits.
#[test]
fn cpu_pool_stats() {
    judge(|| {
        let queue = queue(1, |builder| builder.max_active(1));
        let before = queue.stats();
        assert_eq!((before.queued, before.run, before.in_flight(), before.waiting), (0, 0, 0, 0));
        let (begin, begun) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let first = move || {
            begin.send(()).unwrap();
            let _ = wait.recv();
        };
        queue.queue(first).unwrap();
        queue.queue(|| ()).unwrap();
        begun.recv().unwrap();
        let during = queue.stats();
        assert_eq!((during.queued, during.run, during.active, during.waiting), (2, 0, 1, 1));
        drop(go);
        queue.flush().unwrap();
        wait_until(|| queue.stats().run == 2);
        assert_eq!(queue.stats().in_flight(), 0);
    });
}

/// `TaskStats`, `TaskObserver`: how long each waited and ran.
#[test]
fn task_stats() {
    judge(|| {
        let queue = queue(1, |builder| builder.times(Sampling::EVERY_ITEM));
        (0..2).for_each(|_| queue.queue(|| sleep_ms(5)).unwrap());
        queue.flush().unwrap();
        wait_until(|| queue.stats().run == 2);
        let times = queue.stats().times.expect("they were asked for");
        assert_eq!((times.run.samples(), times.delay.samples()), (2, 2));
        assert!(times.run.max() >= ms(5) && times.run.mean() >= ms(4));
    });
}

/// `GetUsedCpuTime`: who spins is charged, who sleeps is not.
#[test]
fn get_used_cpu_time() {
    judge(|| {
        let queue = pool(2);
        queue.queue(|| sleep_ms(20)).unwrap();
        queue.flush().unwrap();
        let slept = queue.stats().total().cpu_time;
        let spin = || {
            (0..20_000_000_u64).for_each(|number| {
                std::hint::black_box(number);
            });
        };
        queue.queue(spin).unwrap();
        queue.flush().unwrap();
        wait_until(|| queue.stats().total().cpu_time > slept);
    });
}

/// `FuturePool`: results of all kinds, and a failure.
#[test]
fn future_pool() {
    judge(|| {
        let queue = pool(2);
        assert_eq!(queue.submit(|| 42).unwrap().join().unwrap(), 42);
        assert_eq!(block_on(queue.spawn(async { 100 }).unwrap()), 100);
        queue.submit(|| ()).unwrap().join().unwrap();
        let oops = queue.submit(|| panic!("oops")).unwrap().join().map(|(): ()| ()).unwrap_err();
        assert_eq!(oops.message(), "oops");
        let (tx, rx) = judges::unbounded();
        let later = queue.spawn(async move { rx.recv().await.unwrap() }).unwrap();
        std::thread::spawn(move || {
            sleep_ms(5);
            tx.send_now(42);
        });
        assert_eq!(block_on(later), 42);
    });
}

/// `PriorityPreemptionTest`: a later task of high priority does not wait for an earlier task of low priority. In Folly
/// both are in one pool; here each has its own pool, and neither waits.
#[test]
fn priority_preemption_test() {
    judge(|| {
        let runtime = runtime(1);
        let low = runtime.workqueue().nice(19).build().unwrap();
        let high = runtime.workqueue().priority(Priority::High).nice(0).build().unwrap();
        low.freeze().unwrap();
        let completed = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..50 {
            let completed = Arc::clone(&completed);
            low.queue(move || completed.lock().unwrap().push("low")).unwrap();
        }
        for _ in 0..50 {
            let completed = Arc::clone(&completed);
            high.queue(move || completed.lock().unwrap().push("high")).unwrap();
        }
        high.flush().unwrap();
        low.thaw().unwrap();
        low.flush().unwrap();
        let completed = completed.lock().unwrap();
        assert!(completed[..50].iter().all(|name| *name == "high") && completed.len() == 100);
    });
}

/// `AddWithPriority`: every nice value that is allowed is taken, and one that is not is an error.
#[test]
fn add_with_priority() {
    judge(|| {
        let (runtime, completed) = (runtime(1), Counter::new());
        for nice in [0, 1, 10, 19] {
            let queue = runtime.workqueue().nice(nice).build().unwrap();
            let completed = completed.clone();
            queue.queue(move || completed.add_one()).unwrap();
        }
        assert_eq!(completed.get(), 4);
        assert!(runtime.workqueue().nice(100).build().unwrap_err().to_string().contains("100"));
    });
}

/// `BlockingQueue`: a line of one, whose producers wait for room. Items wait without a limit here; who
/// wants one waits for the flush of the one before.
#[test]
fn blocking_queue() {
    judge(|| {
        let (queue, completed) = (pool(1), Counter::new());
        for _ in 0..5 {
            let completed = completed.clone();
            let item = move || {
                sleep_ms(1);
                completed.add_one();
            };
            queue.queue(item).unwrap();
            queue.flush().unwrap();
        }
        assert_eq!(completed.get(), 5);
    });
}

fn nice_of_this_thread() -> i32 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    after_name.split_whitespace().nth(16).unwrap().parse().unwrap()
}

/// `NoThreadPriorityInheritance`: workers that are started later have the nice value of the process, not of the thread
/// that queued the item.
#[test]
fn no_thread_priority_inheritance() {
    judge(|| {
        let queue = pool(4);
        let before = nice_of_this_thread();
        let task = std::fs::read_link("/proc/thread-self").unwrap();
        let thread = task.file_name().unwrap().to_owned();
        let renice =
            std::process::Command::new("renice").args(["-n", "19", "-p"]).arg(thread).output();
        if !renice.is_ok_and(|output| output.status.success()) {
            return;
        }
        assert_eq!(nice_of_this_thread(), 19);
        let all = std::sync::Barrier::new(16);
        queue.scope(|scope| {
            for _ in 0..16 {
                let look = || {
                    assert_eq!(nice_of_this_thread(), before);
                    judges::meet(&all);
                };
                scope.queue(look).unwrap();
            }
        });
    });
}

/// The same of a queue that a niced thread makes.
#[test]
fn no_thread_priority_inheritance_at_the_start() {
    judge(|| {
        let before = nice_of_this_thread();
        let task = std::fs::read_link("/proc/thread-self").unwrap();
        let thread = task.file_name().unwrap().to_owned();
        let renice =
            std::process::Command::new("renice").args(["-n", "19", "-p"]).arg(thread).output();
        if renice.is_ok_and(|output| output.status.success()) {
            assert_eq!(pool(2).install(nice_of_this_thread).unwrap(), before);
        }
    });
}

/// `PriorityThreadFactoryTest.ThreadPriority`.
#[test]
fn thread_priority() {
    judge(|| {
        let wanted = (nice_of_this_thread() + 1).min(19);
        let queue = queue(1, |builder| builder.nice(wanted as i8));
        assert_eq!(queue.install(nice_of_this_thread).unwrap(), wanted);
    });
}

/// `InitThreadFactoryTest`: first the initializer, then tasks, at last the finalizer, on the same thread.
#[test]
fn initializer_and_finalizer_called() {
    judge(|| {
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = |what: &'static str| {
            let told = Arc::clone(&told);
            move || told.lock().unwrap().push((what, std::thread::current().id()))
        };
        let (first, last) = (tell("initializer"), tell("finalizer"));
        let hooks = Hooks::new().on_start(move |_| first()).on_stop(move |_| last());
        let queue = queue(1, |builder| builder.hooks(hooks));
        queue.queue(tell("task")).unwrap();
        drop(queue);
        wait_until(|| told.lock().unwrap().len() == 3);
        let told = told.lock().unwrap();
        assert!(told.iter().map(|(what, _)| *what).eq(["initializer", "task", "finalizer"]));
        assert!(told.iter().all(|(_, thread)| *thread == told[0].1), "{told:?}");
    });
}

/// `LifoSemMPMCQueueBugD3527722`: writers that end in another order than they began in.
#[test]
fn queue_bug_d3527722() {
    judge(|| {
        for intake in Intake::ALL {
            let queue = queue(2, |builder| builder.intake(intake));
            let run = AtomicUsize::new(0);
            std::thread::scope(|threads| {
                for producer in 0..4_u64 {
                    let (queue, run) = (&queue, &run);
                    threads.spawn(move || {
                        for number in 0..200_u64 {
                            if number % (producer + 2) == 0 {
                                std::thread::yield_now();
                            }
                            queue.scope(|scope| {
                                let add = || {
                                    run.fetch_add(1, SeqCst);
                                };
                                scope.queue(add).unwrap();
                            });
                        }
                    });
                }
            });
            assert_eq!(run.into_inner(), 800);
        }
    });
}

/// `RemoveThread`: a continuation of a task whose worker was taken away runs on another one.
#[test]
fn remove_thread() {
    judge(|| {
        let runtime = runtime(2);
        let queue = runtime.workqueue().scope(Scope::Cpu).build().unwrap();
        let (inner, all) = (queue.clone(), runtime.usable());
        let chain = async move {
            coreshard::blocking(|| sleep_ms(20));
            coreshard::yield_now().await;
            inner.spawn(async { 77 }).unwrap().await
        };
        let task = queue.spawn(chain).unwrap();
        runtime.set_usable(all.iter().take(1).collect()).unwrap();
        assert_eq!(block_on(task), 77);
    });
}

/// `RequestContext`: what an item captured is dropped on its worker, after its run.
#[test]
fn captured_values_go_on_the_worker() {
    struct Where(mpsc::Sender<Option<String>>);
    impl Drop for Where {
        fn drop(&mut self) {
            self.0.send(std::thread::current().name().map(str::to_owned)).unwrap();
        }
    }
    judge(|| {
        let (tx, rx) = mpsc::channel();
        let guard = Where(tx);
        let keep = move || {
            let _guard = &guard;
        };
        default_queue().queue(keep).unwrap();
        let name = rx.recv().unwrap().unwrap();
        assert!(name.starts_with("cs-"), "{name}");
    });
}

/// `UsesNameFromNamedThreadFactory`.
#[test]
fn uses_names() {
    judge(|| {
        let name = || std::thread::current().name().unwrap().to_owned();
        assert_eq!(pool(1).install(name).unwrap(), "cs-sys0:0");
    });
}

/// An exception in a task (`MeteredExecutorTest.ExceptionHandling`): the others run.
#[test]
fn exception_handling() {
    judge(|| {
        let (tx, rx) = mpsc::channel();
        let handler = move |payload: Box<dyn std::any::Any + Send>| {
            tx.send(text_of(payload.as_ref())).unwrap();
        };
        let queue = queue(1, |builder| builder.panic_handler(handler));
        let run = Counter::new();
        for _ in 0..10 {
            queue.queue(|| panic!("dummy")).unwrap();
            let run = run.clone();
            queue.queue(move || run.add_one()).unwrap();
        }
        drop(queue);
        assert_eq!(run.get(), 10);
        assert_eq!(rx.iter().collect::<Vec<_>>(), ["dummy"; 10]);
    });
}
