//! User code that runs on a worker's thread besides items: the first and last hooks, and destructors of
//! thread-local values. The worker keeps its slot meanwhile, and only the queue's end waits for them.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use coreshard_platform::Host;
use coreshard_topology::{CpuSet, Scope, Topology, Usable};
use coreshard_workqueue::{Hooks, Intake, Runtime, RuntimeBuilder, Workqueue, blocking, join};
use testing::NEVER;

fn usable() -> CpuSet {
    Usable::host(&Topology::host().unwrap()).unwrap().cpus().clone()
}

fn builder() -> RuntimeBuilder<Host> {
    Runtime::builder(Topology::host().unwrap()).usable(usable())
}

fn sum(from: u64, to: u64) -> u64 {
    if to - from <= 4 {
        return (from..to).sum();
    }
    let middle = from.midpoint(to);
    let (one, other) = join::<Host, _, _>(|| sum(from, middle), || sum(middle, to));
    one + other
}

/// Starts several workers that then exit, repeatedly, while others start.
fn come_and_go(queue: &Workqueue<Host>, rounds: usize) {
    for round in 0..rounds {
        let wait = || {
            let nap = || blocking::<Host, _>(|| std::thread::sleep(Duration::from_micros(300)));
            queue.submit(nap).unwrap()
        };
        let waits: Vec<_> = (0..4).map(|_| wait()).collect();
        assert_eq!(queue.install(|| sum(0, 2_000)).unwrap(), 1_999_000);
        waits.into_iter().for_each(|wait| wait.join().unwrap());
        std::thread::sleep(Duration::from_micros(700 + round as u64 * 37 % 900));
    }
}

#[test]
fn a_last_hook_may_fork_while_other_workers_come() {
    testing::own_process!();
    for intake in Intake::ALL {
        let stopped = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&stopped);
        let hooks = Hooks::new().on_stop(move |_| {
            for _ in 0..20 {
                assert_eq!(sum(0, 3_000), 4_498_500);
                std::thread::yield_now();
            }
            count.fetch_add(1, SeqCst);
        });
        let runtime = builder().idle_timeout(Duration::from_millis(1)).build().unwrap();
        let builder = runtime.workqueue().scope(Scope::System).intake(intake).hooks(hooks);
        let queue = builder.build().unwrap();
        come_and_go(&queue, 150);
        drop(queue);
        assert!(stopped.load(SeqCst) > 10, "workers went");
    }
}

/// A worker whose last hook takes long does not count: the other workers continue, and the queue's end waits for it.
#[test]
fn a_long_last_hook_delays_only_the_end_of_the_queue() {
    testing::own_process!();
    let one: CpuSet = usable().iter().take(1).collect();
    let runtime = builder().usable(one).idle_timeout(Duration::from_millis(1)).build().unwrap();
    let (inside, release) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (entered, left) = (Arc::clone(&inside), Arc::new(AtomicUsize::new(0)));
    let (go, count) = (Arc::clone(&release), Arc::clone(&left));
    let hooks = Hooks::new().on_stop(move |_| {
        entered.fetch_add(1, SeqCst);
        // It declares its wait, although it does not count as a running worker.
        blocking::<Host, _>(|| {
            let since = Instant::now();
            while !go.load(SeqCst) && since.elapsed() < NEVER {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        count.fetch_add(1, SeqCst);
    });
    let queue = runtime.workqueue().scope(Scope::System).hooks(hooks).build().unwrap();
    let since = Instant::now();
    while inside.load(SeqCst) < 2 {
        assert!(since.elapsed() < NEVER);
        come_and_go(&queue, 1);
    }
    assert_eq!(queue.submit(|| 4).unwrap().join().unwrap(), 4, "others run");
    release.store(true, SeqCst);
    drop(queue);
    assert_eq!(inside.load(SeqCst), left.load(SeqCst), "the end waits for the hooks");
}

/// A hook that blocks on a worker that does not count: the rescuer, before it is called and after.
#[test]
fn a_rescuers_hooks_may_block() {
    testing::own_process!();
    for _ in 0..20 {
        let nap = |_| blocking::<Host, _>(|| std::thread::sleep(Duration::from_millis(1)));
        let hooks = Hooks::new().on_start(nap).on_stop(nap);
        let runtime = builder().max_workers_per_pool(1).build().unwrap();
        let builder = runtime.workqueue().scope(Scope::System).rescuer(true).hooks(hooks);
        let queue = builder.build().unwrap();
        for _ in 0..3 {
            let (tell, told) = mpsc::channel();
            let wait = move || blocking::<Host, _>(|| told.recv_timeout(NEVER));
            let first = queue.submit(wait).unwrap();
            queue.queue(move || tell.send(7).unwrap()).unwrap();
            assert_eq!(first.join().unwrap(), Ok(7));
        }
    }
}

struct Last;

impl Drop for Last {
    fn drop(&mut self) {
        // The worker of this thread has exited: both halves are run here.
        assert_eq!(sum(0, 500), 124_750);
        blocking::<Host, _>(std::thread::yield_now);
    }
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

#[test]
fn destructors_of_thread_local_values_may_fork_after_the_worker() {
    testing::own_process!();
    let runtime = builder().idle_timeout(Duration::from_millis(1)).build().unwrap();
    let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
    for _ in 0..60 {
        let keep = |_| queue.submit(|| LAST.set(Some(Last))).unwrap();
        let kept: Vec<_> = (0..4).map(keep).collect();
        come_and_go(&queue, 2);
        kept.into_iter().for_each(|kept| kept.join().unwrap());
    }
}

#[test]
fn hooks_that_are_added_nest() {
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let tells = |word: &'static str| {
        let told = Arc::clone(&told);
        move |_pod| {
            told.lock().unwrap().push(word);
            assert!(!word.starts_with('!'), "as planned");
        }
    };
    let outer = Hooks::new().on_start(tells("a")).on_stop(tells("A"));
    let inner = Hooks::new().on_start(tells("!b")).on_stop(tells("!B"));
    let topology = Topology::from_synthetic("package:1 l3:1 core:1 pu:1").unwrap();
    let runtime = Runtime::<Host>::builder(topology).laid_over(usable()).max_workers_per_pool(1);
    let runtime = runtime.hooks(outer).add_hooks(inner).build().unwrap();
    let queue = runtime.workqueue().scope(Scope::System);
    let queue = queue.add_hooks(Hooks::new().on_start(tells("c")).on_stop(tells("C")));
    let queue = queue.build().unwrap();
    queue.submit(|| ()).unwrap().join().unwrap();
    assert_eq!(*told.lock().unwrap(), ["a", "!b", "c"], "each, even if another panics");
    drop(queue);
    assert_eq!(*told.lock().unwrap(), ["a", "!b", "c", "C", "!B", "A"]);

    // Clones of hooks count as the same hooks, as do hooks to which none were added.
    let alone = Hooks::new().on_start(tells("d"));
    assert_eq!(alone.clone().and(Hooks::new()), alone);
    assert_eq!(Hooks::new().and(alone.clone()), alone);
    assert_ne!(alone.clone().and(alone.clone()), alone);
}
