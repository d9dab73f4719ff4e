//! `rayon-core/src/broadcast/test.rs`: an item for each CPU, through `queue_on`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use coreshard::{CpuId, Hooks, Scope, Workqueue};
use judges::{Counter, judge, queue, sleep_ms, thrown};

use crate::scope_order::{by_cpu, cpus};

/// Runs `work` once in each of the queue's pools, and waits; what each call threw.
fn broadcast(
    queue: &Workqueue,
    count: usize,
    work: impl Fn(CpuId) + Send + Sync + 'static,
) -> Vec<Option<String>> {
    let (tx, rx) = mpsc::channel();
    spawn_broadcast(queue, count, move |cpu| tx.send(thrown(|| work(cpu))).unwrap());
    coreshard::blocking(|| rx.iter().collect())
}

fn spawn_broadcast(queue: &Workqueue, count: usize, work: impl Fn(CpuId) + Send + Sync + 'static) {
    let work = Arc::new(work);
    for cpu in cpus(count) {
        let work = Arc::clone(&work);
        queue.queue_on(cpu, move || work(cpu)).unwrap();
    }
}

/// The pool that a worker's thread is of, by its name.
fn pool_of_this_thread() -> String {
    let thread = thread::current();
    let name = thread.name().expect("workers have names");
    name.split(':').next().unwrap().to_owned()
}

#[test]
fn spawn_broadcast_pool() {
    judge(|| {
        let (tx, rx) = mpsc::channel();
        spawn_broadcast(&by_cpu(7), 7, move |cpu| {
            tx.send((cpu.index(), pool_of_this_thread())).unwrap();
        });
        let mut seen: Vec<_> = rx.iter().collect();
        seen.sort();
        assert!(seen.iter().map(|(index, _)| *index).eq(0..7));
        let pools: BTreeSet<_> = seen.iter().map(|(_, pool)| pool).collect();
        assert_eq!(pools.len(), 7, "each CPU's item ran in its own pool: {seen:?}");
    });
}

#[test]
fn broadcast_global() {
    judge(|| {
        let runtime = coreshard::runtime().unwrap();
        let queue = runtime.workqueue().scope(Scope::Cpu).build().unwrap();
        let (tx, rx) = mpsc::channel();
        for cpu in &runtime.usable() {
            let tx = tx.clone();
            queue.queue_on(cpu, move || tx.send(cpu).unwrap()).unwrap();
        }
        drop(tx);
        let mut seen: Vec<CpuId> = rx.iter().collect();
        seen.sort();
        assert!(seen.into_iter().eq(runtime.usable().iter()));
    });
}

#[test]
fn broadcast_pool() {
    judge(|| {
        let sum = Arc::new(AtomicUsize::new(0));
        let add = Arc::clone(&sum);
        let texts = broadcast(&by_cpu(7), 7, move |cpu| {
            add.fetch_add(cpu.index(), Relaxed);
        });
        assert_eq!((texts, sum.load(Relaxed)), (vec![None; 7], 21));
    });
}

#[test]
fn spawn_broadcast_self() {
    judge(|| {
        let queue = by_cpu(7);
        let (tx, rx) = mpsc::channel();
        let inner = queue.clone();
        queue
            .queue(move || spawn_broadcast(&inner, 7, move |cpu| tx.send(cpu.index()).unwrap()))
            .unwrap();
        let mut seen: Vec<_> = rx.iter().collect();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..7));
    });
}

#[test]
fn broadcast_mutual() {
    judge(|| {
        let count = Counter::new();
        let (one, other) = (by_cpu(3), by_cpu(7));
        let (back, counter) = (one.clone(), count.clone());
        let outer = move || {
            broadcast(&other, 7, move |_| {
                let counter = counter.clone();
                broadcast(&back, 3, move |_| counter.add_one());
            });
        };
        one.install(outer).unwrap();
        assert_eq!(count.get(), 3 * 7);
    });
}

#[test]
fn spawn_broadcast_mutual() {
    judge(|| {
        let (one, other) = (by_cpu(3), by_cpu(7));
        let (tx, rx) = mpsc::channel();
        let back = one.clone();
        let outer = move || {
            spawn_broadcast(&other, 7, move |_| {
                let tx = tx.clone();
                spawn_broadcast(&back, 3, move |_| tx.send(()).unwrap());
            });
        };
        one.queue(outer).unwrap();
        assert_eq!(rx.iter().count(), 3 * 7);
    });
}

/// As above, with time for the pools to fall asleep in between.
#[test]
fn spawn_broadcast_mutual_sleepy() {
    judge(|| {
        let (one, other) = (by_cpu(3), by_cpu(7));
        let (tx, rx) = mpsc::channel();
        let back = one.clone();
        let outer = move || {
            sleep_ms(100);
            spawn_broadcast(&other, 7, move |_| {
                let tx = tx.clone();
                sleep_ms(100);
                spawn_broadcast(&back, 3, move |_| {
                    sleep_ms(10);
                    tx.send(()).unwrap();
                });
            });
        };
        one.queue(outer).unwrap();
        assert_eq!(rx.iter().count(), 3 * 7);
    });
}

#[test]
fn broadcast_panic_one() {
    judge(|| {
        let count = Counter::new();
        let counter = count.clone();
        let texts = broadcast(&by_cpu(7), 7, move |cpu| {
            counter.add_one();
            assert!(cpu.index() != 3, "Hello, world!");
        });
        assert_eq!((count.get(), texts.iter().flatten().count()), (7, 1));
    });
}

/// Returns the numbers of runs and of calls of the queue's panic handler, for items without a waiter.
fn told_of_panics(fails: fn(CpuId) -> bool) -> (usize, usize) {
    let (tx, rx) = mpsc::channel();
    let (panic_tx, panic_rx) = mpsc::channel();
    let handler = move |payload| panic_tx.send(payload).unwrap();
    let queue = queue(7, |builder| builder.scope(Scope::Cpu).panic_handler(handler));
    spawn_broadcast(&queue, 7, move |cpu| {
        tx.send(()).unwrap();
        assert!(!fails(cpu), "Hello, world!");
    });
    drop(queue);
    (rx.iter().count(), panic_rx.iter().count())
}

/// The handler goes with the queue: else the receiver's count would never end.
#[test]
fn spawn_broadcast_panic_one() {
    judge(|| assert_eq!(told_of_panics(|cpu| cpu.index() == 3), (7, 1)));
}

#[test]
fn spawn_broadcast_panic_many() {
    judge(|| assert_eq!(told_of_panics(|cpu| cpu.index() % 2 == 0), (7, 4)));
}

#[test]
fn broadcast_panic_many() {
    judge(|| {
        let count = Counter::new();
        let counter = count.clone();
        let texts = broadcast(&by_cpu(7), 7, move |cpu| {
            counter.add_one();
            assert!(cpu.index() % 2 != 0, "Hello, world!");
        });
        assert_eq!((count.get(), texts.iter().flatten().count()), (7, 4));
    });
}

/// Items that sleep for a few microseconds more on each CPU, so that workers go to sleep at all times.
#[test]
fn broadcast_sleep_race() {
    judge(|| {
        let queue = by_cpu(7);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(300) {
            spawn_broadcast(&queue, 7, |cpu| {
                thread::sleep(Duration::from_micros(cpu.index() as u64));
            });
            queue.flush().unwrap();
        }
    });
}

/// A flush ends when every earlier item has finished, in all pools.
#[test]
fn broadcast_after_spawn_broadcast() {
    judge(|| {
        let queue = by_cpu(7);
        let (tx, rx) = mpsc::channel();
        spawn_broadcast(&queue, 7, move |cpu| tx.send(cpu.index()).unwrap());
        queue.flush().unwrap();
        let mut seen: Vec<_> = rx.try_iter().collect();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..7));
    });
}

#[test]
fn broadcast_after_spawn() {
    judge(|| {
        let queue = by_cpu(3);
        let (tx, rx) = mpsc::channel();
        let inner = queue.clone();
        queue.install(move || inner.queue(move || tx.send(22).unwrap()).unwrap()).unwrap();
        queue.flush().unwrap();
        assert_eq!(rx.try_recv(), Ok(22));
    });
}

/// Every pool has a separate worker from the start.
#[test]
fn broadcast_reaches_every_started_thread() {
    judge(|| {
        let (tx, rx) = mpsc::channel();
        let hooks = Hooks::new().on_start(move |pod| tx.send(pod).unwrap());
        let queue = queue(5, |builder| builder.scope(Scope::Cpu).hooks(hooks));
        drop(queue);
        let pods: BTreeSet<_> = rx.try_iter().collect();
        assert_eq!(pods.len(), 5);
    });
}
