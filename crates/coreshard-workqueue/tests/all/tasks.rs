//! The guarantees of futures on a workqueue, one test for each.

use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use coreshard_platform::Host;
use coreshard_topology::{CpuSet, Scope, Topology};
use coreshard_workqueue::{RefusedReason, Runtime, Workqueue, yield_now};
use futures_lite::future::block_on;
use testing::{NEVER, spin_until};

fn runtime() -> Runtime<Host> {
    let topology = Topology::from_synthetic("package:1 l3:1 core:4 pu:1").unwrap();
    let real: CpuSet = coreshard_platform::affinity().unwrap();
    Runtime::builder(topology).laid_over(real).build().unwrap()
}

fn queue() -> Workqueue<Host> {
    runtime().workqueue().scope(Scope::Cpu).build().unwrap()
}

/// A gate that a future waits at until it is opened.
#[derive(Default)]
struct Gate {
    state: Mutex<(bool, Vec<Waker>)>,
}

impl Gate {
    async fn pass(&self) {
        poll_fn(|context| {
            let mut state = self.state.lock().unwrap();
            if state.0 {
                return Poll::Ready(());
            }
            state.1.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn is_waited_at(&self) -> bool {
        !self.state.lock().unwrap().1.is_empty()
    }

    fn open(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 = true;
        let waiting = std::mem::take(&mut state.1);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[test]
fn a_task_gives_its_result_to_whoever_awaits_it() {
    let queue = queue();
    let inner = queue.clone();
    let task = queue.spawn(async move {
        let tasks: Vec<_> = (0..100_u64).map(|at| inner.spawn(ready(at)).unwrap()).collect();
        let mut sum = 0;
        for task in tasks {
            sum += task.await;
        }
        sum
    });
    assert_eq!(block_on(task.unwrap()), 4_950);
}

#[test]
fn a_task_is_polled_in_its_own_pod_whoever_wakes_it() {
    let queue = runtime().workqueue().scope(Scope::Cpu).strict(true).build().unwrap();
    let gate = Arc::new(Gate::default());
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let gate = Arc::clone(&gate);
            let place = || thread::current().name().unwrap().to_owned();
            let pod = move || place().split(':').next().unwrap().to_owned();
            queue
                .spawn(async move {
                    let before = pod();
                    gate.pass().await;
                    (before, pod())
                })
                .unwrap()
        })
        .collect();
    thread::sleep(Duration::from_millis(5));
    gate.open();
    for task in tasks {
        let (before, after) = block_on(task);
        assert_eq!(before, after);
        assert!(before.starts_with("cs-cpu"), "{before}");
    }
}

#[test]
fn what_a_task_throws_comes_out_where_it_is_awaited() {
    let queue = queue();
    let task = queue.spawn(async { panic!("in the task") }).unwrap();
    let payload = catch_unwind(AssertUnwindSafe(|| block_on::<()>(task))).unwrap_err();
    assert_eq!(*payload.downcast::<&str>().unwrap(), "in the task");
}

#[test]
fn what_a_detached_task_throws_goes_to_the_panic_handler() {
    let (told, tells) = mpsc::channel();
    let handler = move |payload: Box<dyn std::any::Any + Send>| {
        told.send(*payload.downcast::<&str>().unwrap()).unwrap();
    };
    let queue = runtime().workqueue().panic_handler(handler).build().unwrap();
    let gate = Arc::new(Gate::default());
    let waits = Arc::clone(&gate);
    let task = queue.spawn(async move {
        waits.pass().await;
        panic!("nobody awaits")
    });
    let task: coreshard_workqueue::Task<()> = task.unwrap();
    task.detach();
    gate.open();
    assert_eq!(tells.recv_timeout(NEVER).unwrap(), "nobody awaits");
}

#[test]
fn a_task_that_is_dropped_is_cancelled_and_its_future_dropped() {
    let queue = queue();
    let cargo = Arc::new(());
    for cancel in [false, true] {
        let gate = Arc::new(Gate::default());
        let (held, waits) = (Arc::clone(&cargo), Arc::clone(&gate));
        let task = queue.spawn(async move {
            waits.pass().await;
            drop(held);
        });
        let task = task.unwrap();
        spin_until(|| gate.is_waited_at());
        if cancel {
            assert_eq!(block_on(task.cancel()), None);
        } else {
            drop(task);
        }
        spin_until(|| Arc::strong_count(&cargo) == 1);
        gate.open();
    }
    let task = queue.spawn(ready(7)).unwrap();
    spin_until(|| task.is_finished());
    assert_eq!(block_on(task.cancel()), Some(7), "it had ended");
}

#[test]
fn a_future_that_is_refused_comes_back_whole() {
    let queue = queue();
    queue.shutdown(NEVER).unwrap();
    let refused = queue.spawn(ready(String::from("cargo"))).unwrap_err();
    assert_eq!(refused.reason(), RefusedReason::ShutDown);
    assert_eq!(block_on(refused.into_item()), "cargo");
}

#[test]
fn a_queue_that_goes_waits_for_no_sleeping_task_and_drops_it_when_it_is_woken() {
    let cargo = Arc::new(());
    let gate = Arc::new(Gate::default());
    let queue = queue();
    let (held, waits) = (Arc::clone(&cargo), Arc::clone(&gate));
    let task = queue.spawn(async move {
        waits.pass().await;
        drop(held);
    });
    let task = task.unwrap();
    queue.spawn(pending::<()>()).unwrap().detach();
    spin_until(|| gate.is_waited_at());
    queue.drain().unwrap();
    drop(queue);
    assert_eq!(Arc::strong_count(&cargo), 2);
    gate.open();
    // On a background thread: the waking thread may hold a lock that the destructor takes.
    spin_until(|| Arc::strong_count(&cargo) == 1);
    spin_until(|| task.is_finished());
    let thrown = catch_unwind(AssertUnwindSafe(|| block_on(task))).unwrap_err();
    let message = thrown.downcast::<String>().map(|text| *text);
    let message = message.unwrap_or_else(|thrown| (*thrown.downcast::<&str>().unwrap()).to_owned());
    assert!(message.contains("shut down before the task had ended"), "{message}");
}

#[test]
fn a_task_that_yields_lets_others_go_first() {
    let topology = Topology::from_synthetic("package:1 l3:1 core:1 pu:1").unwrap();
    let real: CpuSet = coreshard_platform::affinity().unwrap();
    let runtime = Runtime::<Host>::builder(topology).laid_over(real).build().unwrap();
    let queue = runtime.workqueue().build().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let (inner, log) = (queue.clone(), Arc::clone(&order));
    let task = queue.spawn(async move {
        let tasks: Vec<_> = (0..3)
            .map(|task| {
                let log = Arc::clone(&log);
                let run = async move {
                    for round in 0..3 {
                        log.lock().unwrap().push((round, task));
                        yield_now().await;
                    }
                };
                inner.spawn(run).unwrap()
            })
            .collect();
        for task in tasks {
            task.await;
        }
    });
    block_on(task.unwrap());
    let seen = std::mem::take(&mut *order.lock().unwrap());
    assert!(seen.is_sorted(), "one worker takes them in turn: {seen:?}");
    assert_eq!(seen.len(), 9);
}

#[test]
fn every_task_ends_once_under_wakes_yields_and_cancels() {
    let tasks = if cfg!(debug_assertions) { 2_000 } else { 200_000 };
    let queue = queue();
    let (ended, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let spawn = |at: usize, gate: &Arc<Gate>| {
        let (gate, ended) = (Arc::clone(gate), Arc::clone(&ended));
        let held = Dropped(Arc::clone(&dropped));
        let run = async move {
            if at.is_multiple_of(3) {
                yield_now().await;
            }
            gate.pass().await;
            drop(held);
            ended.fetch_add(1, SeqCst);
        };
        queue.spawn(run).unwrap()
    };
    let cancelled: usize = thread::scope(|threads| {
        let spawners: Vec<_> = (0..4)
            .map(|_| {
                threads.spawn(|| {
                    let mut cancelled = 0;
                    for round in 0..tasks / 40 {
                        let gate = Arc::new(Gate::default());
                        let tasks: Vec<_> = (0..10).map(|at| spawn(at, &gate)).collect();
                        gate.open();
                        for (at, task) in tasks.into_iter().enumerate() {
                            if (at + round).is_multiple_of(4) {
                                cancelled += usize::from(block_on(task.cancel()).is_none());
                            } else {
                                block_on(task);
                            }
                        }
                    }
                    cancelled
                })
            })
            .collect();
        spawners.into_iter().map(|spawner| spawner.join().unwrap()).sum()
    });
    queue.drain().unwrap();
    let all = 4 * (tasks / 40) * 10;
    // A task that is cancelled during its last poll has completed, but gives no result.
    let ended = ended.load(SeqCst);
    assert!(ended <= all && ended + cancelled >= all, "{ended} ended, {cancelled} gave no result");
    assert_eq!(dropped.load(SeqCst), all);
}

#[test]
fn a_sleep_ends_after_its_time_and_leaves_the_timers_when_it_is_dropped() {
    let runtime = runtime();
    let queue = runtime.workqueue().build().unwrap();
    let naps: Vec<_> = (0..20)
        .map(|ms| {
            let asked = Duration::from_millis(20 - ms);
            let begun = std::time::Instant::now();
            let sleep = runtime.sleep(asked).unwrap();
            let nap = async move {
                sleep.await;
                (asked, begun.elapsed())
            };
            queue.spawn(nap).unwrap()
        })
        .collect();
    for nap in naps {
        let (asked, slept) = block_on(nap);
        assert!(slept >= asked, "{slept:?} instead of {asked:?}");
    }
    let task = queue.spawn(runtime.sleep(NEVER).unwrap()).unwrap();
    spin_until(|| runtime.delayed_items() == 1);
    drop(task);
    spin_until(|| runtime.delayed_items() == 0);
    let error = runtime.sleep(Duration::MAX).unwrap_err();
    assert!(error.to_string().contains("clock"), "{error}");
}
