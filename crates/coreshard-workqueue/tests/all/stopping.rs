//! Worker threads exit with the last handle of the last queue that they serve, all at once.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use coreshard_platform::{Host, affinity};
use coreshard_topology::{Scope, Topology};
use coreshard_workqueue::{Hooks, Runtime, Workqueue, blocking};
use futures_lite::future::block_on;
use testing::{NEVER, wait_until, within};

fn machine(synthetic: &str) -> Runtime<Host> {
    let topology = Topology::from_synthetic(synthetic).unwrap();
    Runtime::builder(topology).laid_over(affinity().unwrap()).build().unwrap()
}

/// Counts workers that have started and not yet exited.
fn counted(runtime: &Runtime<Host>, scope: Scope) -> (Workqueue<Host>, Arc<AtomicUsize>) {
    let there = Arc::new(AtomicUsize::new(0));
    let (come, go) = (Arc::clone(&there), Arc::clone(&there));
    let hooks = Hooks::new()
        .on_start(move |_| {
            come.fetch_add(1, SeqCst);
        })
        .on_stop(move |_| {
            go.fetch_sub(1, SeqCst);
        });
    (runtime.workqueue().scope(scope).hooks(hooks).build().unwrap(), there)
}

#[test]
fn a_waker_of_an_ended_task_keeps_no_worker() {
    let runtime = machine("package:1 l3:2 core:2 pu:1");
    let (queue, there) = counted(&runtime, Scope::Cache);
    let kept: Arc<Mutex<Option<Waker>>> = Arc::default();
    let keeps = Arc::clone(&kept);
    let mut polled = false;
    let task = queue
        .spawn(poll_fn(move |context| {
            *keeps.lock().unwrap() = Some(context.waker().clone());
            if std::mem::replace(&mut polled, true) {
                return Poll::Ready(5);
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }))
        .unwrap();
    assert_eq!(block_on(task), 5);
    drop(queue);
    assert_eq!(there.load(SeqCst), 0, "the workers exit with the queue's last handle");
    let waker = kept.lock().unwrap().take().unwrap();
    waker.wake_by_ref();
    drop(waker);
}

#[test]
fn the_handle_of_an_ended_task_keeps_no_worker_but_its_result() {
    let runtime = machine("package:1 l3:2 core:2 pu:1");
    let (queue, there) = counted(&runtime, Scope::Cache);
    let task = queue.spawn(async { "kept" }).unwrap();
    let started = Instant::now();
    while !task.is_finished() {
        assert!(started.elapsed() < NEVER, "the future ends");
        thread::yield_now();
    }
    drop(queue);
    assert_eq!(there.load(SeqCst), 0);
    assert_eq!(block_on(task), "kept");
}

/// The task will never be polled again: when it is woken, it is dropped.
#[test]
fn a_task_that_waits_keeps_no_worker_of_a_queue_that_is_gone() {
    let runtime = machine("package:1 l3:2 core:2 pu:1");
    let (queue, there) = counted(&runtime, Scope::Cache);
    let kept: Arc<Mutex<Option<Waker>>> = Arc::default();
    let keeps = Arc::clone(&kept);
    let cargo = Arc::new(());
    let mine = Arc::clone(&cargo);
    let task = queue
        .spawn(poll_fn(move |context| {
            let _ = &mine;
            *keeps.lock().unwrap() = Some(context.waker().clone());
            Poll::<()>::Pending
        }))
        .unwrap();
    task.detach();
    queue.drain().unwrap();
    drop(queue);
    assert_eq!(there.load(SeqCst), 0);
    // The runtime continues while the queue's memory still exists.
    assert!(runtime.stats().pools.iter().all(|pool| pool.workers == 0));
    runtime.set_usable(runtime.usable()).unwrap();
    let waker = kept.lock().unwrap().take().unwrap();
    waker.wake();
    // On a background thread: the waking thread may hold a lock that the destructor takes.
    let started = Instant::now();
    while Arc::strong_count(&cargo) > 1 {
        assert!(started.elapsed() < NEVER, "woken, it is dropped");
        std::thread::yield_now();
    }
}

/// The CPUs change while the memory of a dropped queue still exists.
#[test]
fn a_queue_that_is_gone_does_not_follow_the_cpus() {
    let runtime = machine("package:1 l3:2 core:2 pu:1");
    let (queue, there) = counted(&runtime, Scope::Cache);
    let task = queue.spawn(async { 1 }).unwrap();
    queue.drain().unwrap();
    drop(queue);
    let some = runtime.usable().iter().take(2).collect();
    runtime.set_usable(some).unwrap();
    assert_eq!(there.load(SeqCst), 0);
    assert_eq!(block_on(task), 1);
}

#[test]
fn an_item_that_drops_the_last_handle_leaves_no_worker() {
    let runtime = machine("package:1 l3:2 core:2 pu:1");
    let (queue, there) = counted(&runtime, Scope::Cache);
    let inner = queue.clone();
    let (go, gone) = mpsc::channel::<()>();
    queue
        .queue(move || {
            gone.recv().unwrap();
            drop(inner);
        })
        .unwrap();
    let task = queue.spawn(async { 1 }).unwrap();
    drop(queue);
    go.send(()).unwrap();
    let started = Instant::now();
    while there.load(SeqCst) > 0 {
        assert!(started.elapsed() < NEVER, "the workers exit");
        thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(block_on(task), 1);
}

/// All workers of a set are told to exit before any is waited for: their hooks may need one another.
#[test]
fn pools_stop_together() {
    within(NEVER, || {
        const POOLS: usize = 16;
        let runtime = machine("package:1 l3:1 core:16 pu:1");
        let met = Arc::new((Mutex::new(0), Condvar::new()));
        let meet = Arc::clone(&met);
        let hooks = Hooks::new().on_stop(move |_| {
            let (count, more) = &*meet;
            let mut count = count.lock().unwrap();
            *count += 1;
            more.notify_all();
            while *count < POOLS {
                count = more.wait(count).unwrap();
            }
        });
        let queue = runtime.workqueue().scope(Scope::Cpu).hooks(hooks).build().unwrap();
        assert_eq!(queue.stats().pools.len(), POOLS);
        drop(queue);
        assert!(*met.0.lock().unwrap() >= POOLS);
    });
}

/// Keeps hooks running until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<(usize, usize)>, Condvar)>);

impl Gate {
    /// Waits inside until the gate is opened.
    fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state.0 += 1;
        changed.notify_all();
        let shut = |state: &mut (usize, usize)| state.1 == 0;
        let (_state, timeout) = changed.wait_timeout_while(state, NEVER, shut).unwrap();
        assert!(!timeout.timed_out(), "the gate is opened");
    }

    fn inside(&self) -> usize {
        self.0.0.lock().unwrap().0
    }

    fn open(&self) {
        self.0.0.lock().unwrap().1 = 1;
        self.0.1.notify_all();
    }
}

/// A hook may run forever: a change of a queue does not wait for workers that it no longer needs.
#[test]
fn a_change_waits_for_no_hook() {
    within(2 * NEVER, || {
        for at_start in [false, true] {
            let runtime = machine("package:1 l3:2 core:2 pu:1");
            let (gate, over) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
            let (begins, ends) = (gate.clone(), gate.clone());
            let count = Arc::clone(&over);
            let hooks = Hooks::new();
            let hooks = if at_start {
                hooks.on_start(move |_| begins.pass())
            } else {
                let first = AtomicUsize::new(0);
                hooks.on_stop(move |_| {
                    // The hooks of the first change take longest: the queue's end also waits for them.
                    let late = if first.fetch_add(1, SeqCst) < 2 { 100 } else { 0 };
                    ends.pass();
                    thread::sleep(Duration::from_millis(late));
                    count.fetch_add(1, SeqCst);
                })
            };
            let queue = runtime.workqueue().scope(Scope::Cache).hooks(hooks).build().unwrap();
            for scope in [Scope::System, Scope::Cache, Scope::System, Scope::Cpu] {
                queue.change().scope(scope).apply().unwrap();
                assert_eq!(queue.stats().scope, scope);
                if !at_start {
                    assert_eq!(queue.submit(|| 3).unwrap().join().unwrap(), 3);
                }
            }
            wait_until("they are inside", || gate.inside() >= 3);
            assert_eq!(over.load(SeqCst), 0, "no worker has exited");
            gate.open();
            drop(queue);
            let (inside, over) = (gate.inside(), over.load(SeqCst));
            assert!(
                at_start || inside == over,
                "{inside} began to exit, and {over} were waited for"
            );
        }
    });
}

/// A queue whose hook never ends does not keep other queues from following, and a second call has the same effect.
#[test]
fn other_cpus_reach_every_queue() {
    within(2 * NEVER, || {
        let runtime = machine("package:1 l3:2 core:2 pu:1");
        let gate = Gate::default();
        let ends = gate.clone();
        let hooks = Hooks::new().on_stop(move |_| ends.pass());
        let builder = || runtime.workqueue().scope(Scope::Cpu);
        let queues = [builder().hooks(hooks).build().unwrap(), builder().build().unwrap()];
        let (all, one) = (runtime.usable(), runtime.usable().iter().take(1).collect());
        for cpus in [&one, &one, &all, &one] {
            runtime.set_usable(cpus.clone()).unwrap();
            for queue in &queues {
                assert_eq!(queue.stats().pools.len(), cpus.len());
                assert_eq!(queue.submit(|| 5).unwrap().join().unwrap(), 5);
            }
        }
        gate.open();
    });
}

/// The diagnostic handler may never return: workers of past pools exit nevertheless.
#[test]
fn a_stuck_handler_keeps_no_worker_of_the_past() {
    within(2 * NEVER, || {
        let (told, opens) = (Gate::default(), Gate::default());
        let (handler, item) = (told.clone(), opens.clone());
        let topology = Topology::from_synthetic("package:1 l3:1 core:2 pu:1").unwrap();
        let builder = Runtime::builder(topology).laid_over(affinity().unwrap());
        let builder = builder.stall_after(Duration::from_millis(10));
        let runtime = builder.on_diagnostic(move |_| handler.pass()).max_workers_per_pool(2);
        let runtime = runtime.build().unwrap();
        let (queue, there) = counted(&runtime, Scope::System);
        let waits: Vec<_> = (0..3)
            .map(|_| {
                let item = item.clone();
                queue.submit(move || blocking::<Host, _>(|| item.pass())).unwrap()
            })
            .collect();
        wait_until("the stall is reported", || told.inside() > 0);
        queue.change().scope(Scope::Cpu).apply().unwrap();
        wait_until("the new workers have started", || there.load(SeqCst) >= 4);
        opens.open();
        waits.into_iter().for_each(|wait| wait.join().unwrap());
        wait_until("the old workers exit", || there.load(SeqCst) <= 2);
        told.open();
    });
}
