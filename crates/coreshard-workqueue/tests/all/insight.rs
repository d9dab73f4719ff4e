//! Statistics of queues and pools.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use coreshard_platform::{Host, Platform};
use coreshard_topology::{CpuId, CpuSet, Scope, Topology};
use coreshard_workqueue::{Runtime, Sampling, Work, Workqueue, blocking};

fn real() -> CpuSet {
    coreshard_platform::affinity().expect("this thread's CPUs")
}

/// Four CPUs that share a cache, independent of this machine.
fn runtime() -> Runtime<Host> {
    let topology = Topology::from_synthetic("package:1 l3:1 core:4 pu:1").expect("a description");
    Runtime::builder(topology).laid_over(real()).build().expect("a runtime")
}

/// Uses this thread's CPU until it has used `time` of it.
fn burn(time: Duration) {
    let used = || Host::cpu_time_of(Host::this_thread()).expect("Linux counts it");
    let begun = used();
    while used() - begun < time {
        std::hint::spin_loop();
    }
}

fn queue(runtime: &Runtime<Host>, name: &str) -> Workqueue<Host> {
    runtime.workqueue().name(name).scope(Scope::Cache).build().expect("a queue")
}

#[test]
fn cpu_time_is_charged_to_the_queue_that_used_it() {
    let runtime = runtime();
    let (busy, quiet) = (queue(&runtime, "busy"), queue(&runtime, "quiet"));
    let burnt = Duration::from_millis(30);
    busy.queue(move || burn(burnt)).expect("open");
    busy.drain().expect("not inside an item");
    let (busy, quiet) = (busy.stats(), quiet.stats());
    assert!(busy.tally.cpu_time >= burnt, "{:?}", busy.tally);
    assert_eq!(quiet.tally.cpu_time, Duration::ZERO);
    assert!(busy.total().cpu_time >= busy.tally.cpu_time, "the pool has all of it");
}

/// Two queues take turns on one worker: the one that is sampled last must not be charged for everything.
#[test]
fn queues_that_share_a_pool_share_its_cpu_time_by_what_they_use() {
    // Visits are weighed by wall-clock time, which continues while other threads have the CPU: on a
    // busy machine, a short visit may look long sometimes, but not each time.
    let seen: Vec<_> = (0..8).map(|_| much_and_little()).collect();
    let is_fair = |&(much, little): &(Duration, Duration)| much > little * 2;
    assert!(seen.iter().any(is_fair), "{seen:?}");
    assert!(seen.iter().all(|(much, _)| !much.is_zero()), "{seen:?}");
}

fn much_and_little() -> (Duration, Duration) {
    let runtime = runtime();
    let (much, little) = (queue(&runtime, "much"), queue(&runtime, "little"));
    // The monitor reads the thread's CPU time, which does not depend on the wall clock.
    for _ in 0..100 {
        much.submit(|| burn(Duration::from_micros(400))).expect("open").join().expect("no panic");
        little.submit(|| burn(Duration::from_micros(20))).expect("open").join().expect("no panic");
    }
    (much.stats().tally.cpu_time, little.stats().tally.cpu_time)
}

#[test]
fn the_cpu_time_of_workers_that_are_gone_is_kept() {
    let topology = Topology::from_synthetic("package:1 l3:1 core:4 pu:1").expect("a description");
    let runtime: Runtime<Host> = Runtime::builder(topology)
        .laid_over(real())
        .idle_timeout(Duration::from_millis(1))
        .build()
        .expect("a runtime");
    let queue = queue(&runtime, "burst");
    let burnt = Duration::from_millis(5);
    for _ in 0..8 {
        queue.queue(move || blocking::<Host, _>(|| burn(burnt))).expect("open");
    }
    queue.drain().expect("not inside an item");
    let had = queue.stats().total();
    // All but one exit, at some time.
    while queue.stats().total().workers > 1 {
        std::thread::yield_now();
    }
    let has = queue.stats();
    assert!(has.total().cpu_time >= had.cpu_time);
    assert!(has.tally.cpu_time >= burnt * 8, "{:?}", has.tally);
}

#[test]
fn a_worker_that_blocks_hands_over_and_that_is_counted() {
    let runtime = runtime();
    let (waits, works) = (queue(&runtime, "waits"), queue(&runtime, "works"));
    for _ in 0..3 {
        let inner = works.clone();
        let item = waits.submit(move || {
            blocking::<Host, _>(|| inner.submit(|| ()).expect("open").join().expect("no panic"));
        });
        item.expect("open").join().expect("no panic");
    }
    assert_eq!(waits.stats().tally.hand_overs, 3);
    assert_eq!(works.stats().tally.hand_overs, 0);
    assert_eq!(waits.stats().total().hand_overs, 3);
}

#[test]
fn nothing_is_measured_unless_asked_for() {
    let runtime = runtime();
    let queue = queue(&runtime, "plain");
    queue.submit(|| ()).expect("open").join().expect("no panic");
    assert!(queue.stats().times.is_none());
}

#[test]
fn every_item_is_measured_where_that_is_asked_for() {
    let runtime = runtime();
    let measured = |limit: Option<usize>| {
        let builder = runtime.workqueue().scope(Scope::Cache).times(Sampling::EVERY_ITEM);
        let builder = match limit {
            Some(items) => builder.max_active(items),
            None => builder,
        };
        builder.panic_handler(|_| ()).build().expect("a queue")
    };
    for queue in [measured(None), measured(Some(1))] {
        let slept = Duration::from_millis(2);
        queue.queue(move || std::thread::sleep(slept)).expect("open");
        queue.queue(|| std::panic::resume_unwind(Box::new("a panic"))).expect("open");
        let work = Work::new(|_| ());
        work.queue(&queue).expect("open");
        work.flush().expect("not inside it");
        queue.submit(|| ()).expect("open").join().expect("no panic");
        let borrowed = AtomicU32::new(0);
        queue.scope(|scope| {
            scope.queue(|| _ = borrowed.fetch_add(1, SeqCst)).expect("open");
        });
        assert_eq!(queue.install(|| 7).expect("open"), 7);
        let task = queue.spawn(async { 5 }).expect("open");
        assert_eq!(futures_lite::future::block_on(task), 5);
        queue.drain().expect("not inside an item");
        let stats = queue.stats();
        let times = stats.times.as_ref().expect("asked for");
        assert_eq!(times.sampling, Sampling::EVERY_ITEM);
        assert_eq!(stats.run, 7);
        assert_eq!((times.delay.samples(), times.run.samples()), (7, 7), "{stats:?}");
        // Times are kept with a precision of one per cent.
        assert!(times.run.max() >= slept.mul_f64(0.99), "{times:?}");
        assert!(times.run.quantile(0.5) <= times.run.max());
        assert_eq!(times.run.recorded_ns().len(), 7);
    }
}

#[test]
fn the_delay_holds_the_wait_for_the_turn() {
    let runtime = runtime();
    let queue = runtime
        .workqueue()
        .scope(Scope::Cache)
        .max_active(1)
        .times(Sampling::EVERY_ITEM)
        .build()
        .expect("a queue");
    let slept = Duration::from_millis(2);
    let (both_are_queued, wait) = mpsc::channel();
    queue
        .queue(move || {
            wait.recv().expect("it is told");
            std::thread::sleep(slept);
        })
        .expect("open");
    queue.queue(|| ()).expect("open");
    both_are_queued.send(()).expect("it waits");
    queue.drain().expect("not inside an item");
    let times = queue.stats().times.expect("asked for");
    assert_eq!(times.delay.samples(), 2);
    assert!(times.delay.max() >= slept.mul_f64(0.99), "{times:?}");
}

#[test]
fn a_sample_stands_for_as_many_items_as_it_says() {
    const ITEMS: u64 = 64 * 1024;
    let runtime = runtime();
    let sampling = Sampling::one_in(64);
    let builder = runtime.workqueue().scope(Scope::System).times(sampling);
    let queue = builder.build().expect("a queue");
    for _ in 0..ITEMS {
        queue.queue_on(CpuId(1), || ()).expect("open");
    }
    queue.drain().expect("not inside an item");
    let times = queue.stats().times.expect("asked for");
    assert!(times.run.samples().abs_diff(ITEMS / 64) <= 8, "{times:?}");
}

#[test]
fn a_runtime_asks_for_all_its_queues() {
    let topology = Topology::from_synthetic("package:1 l3:1 core:2 pu:1").expect("a description");
    let builder = Runtime::<Host>::builder(topology).laid_over(real());
    let runtime = builder.times(Sampling::EVERY_ITEM).build().expect("a runtime");
    let queue = queue(&runtime, "any");
    queue.submit(|| ()).expect("open").join().expect("no panic");
    queue.drain().expect("not inside an item");
    assert_eq!(queue.stats().times.expect("asked for").run.samples(), 1);
}

#[test]
fn a_runtime_tells_of_each_pool_once() {
    let runtime = runtime();
    let one = queue(&runtime, "one");
    let two = queue(&runtime, "two");
    let other = runtime.workqueue().name("other").scope(Scope::Cpu).build().expect("a queue");
    let stats = runtime.stats();
    let names: Vec<_> = stats.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["one", "two", "other"]);
    assert_eq!(stats.pools.len(), 1 + 4);
    let ids = |queue: &Workqueue<Host>| -> Vec<_> {
        queue.stats().pools.iter().map(|pool| pool.id).collect()
    };
    assert_eq!(ids(&one), ids(&two), "equal attributes, the same pools");
    let mut all: Vec<_> = stats.pools.iter().map(|pool| pool.id).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 5, "no id twice");
    assert_eq!(stats.pools.iter().filter(|pool| pool.scope == Scope::Cpu).count(), 4);
    drop(other);
    assert_eq!(runtime.stats().pools.len(), 1, "pools go with their last queue");
}

/// A measured item drops its captures, whether it ran to its end or not.
#[test]
fn a_measured_item_keeps_nothing() {
    let runtime = runtime();
    let builder = runtime.workqueue().times(Sampling::EVERY_ITEM).spans(true);
    let queue = builder.panic_handler(|_| ()).build().expect("a queue");
    let held = Arc::new(());
    for panics in [false, true] {
        let held = Arc::clone(&held);
        let item = move || {
            let _held = held;
            if panics {
                std::panic::resume_unwind(Box::new("a panic"));
            }
        };
        queue.queue(item).expect("open");
    }
    queue.drain().expect("not inside an item");
    assert_eq!(Arc::strong_count(&held), 1);
}
