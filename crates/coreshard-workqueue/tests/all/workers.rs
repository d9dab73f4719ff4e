//! The worker threads: their number, their CPUs, and when they exit.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use coreshard_platform::{Host, affinity};
use coreshard_topology::{CpuSet, PodId, Scope, Topology, Usable};
use coreshard_workqueue::{Hooks, Intake, Runtime, RuntimeBuilder, Wake, Workqueue, blocking};
use testing::{NEVER, wait_until};

fn builder() -> RuntimeBuilder<Host> {
    let topology = Topology::host().unwrap();
    let usable = Usable::host(&topology).unwrap();
    Runtime::builder(topology).usable(usable.cpus().clone())
}

fn virtual_machine(machine: &str) -> RuntimeBuilder<Host> {
    let real = Usable::host(&Topology::host().unwrap()).unwrap().cpus().clone();
    Runtime::builder(Topology::from_synthetic(machine).unwrap()).laid_over(real)
}

fn workers(queue: &Workqueue<Host>) -> usize {
    queue.stats().total().workers
}

/// Has `items` items inside one queue at once, which all block.
fn all_at_once(queue: &Workqueue<Host>, items: usize) {
    let all_here = Arc::new(Barrier::new(items));
    let wait = |_| {
        let all_here = Arc::clone(&all_here);
        queue.submit(move || blocking::<Host, _>(|| all_here.wait().is_leader())).unwrap()
    };
    let handles: Vec<_> = (0..items).map(wait).collect();
    let leaders = handles.into_iter().map(|handle| handle.join().unwrap());
    assert_eq!(leaders.filter(|is_leader| *is_leader).count(), 1);
}

#[test]
fn spare_workers_are_culled_until_one_is_left() {
    for intake in Intake::ALL {
        for wake in Wake::ALL {
            let runtime = builder().idle_timeout(Duration::from_millis(20)).build().unwrap();
            let queue =
                runtime.workqueue().scope(Scope::System).intake(intake).wake(wake).build().unwrap();
            for _ in 0..3 {
                all_at_once(&queue, 6);
                assert!(workers(&queue) >= 2, "six items were in it at once");
                wait_until("one worker is left", || workers(&queue) == 1);
                assert_eq!(queue.submit(|| 4).unwrap().join().unwrap(), 4, "and it works");
            }
        }
    }
}

#[test]
fn no_item_is_stranded_while_workers_are_culled() {
    // Items arrive just as workers exit: the cull race.
    for intake in Intake::ALL {
        for wake in Wake::ALL {
            let runtime = builder().idle_timeout(Duration::from_micros(200)).build().unwrap();
            let queue =
                runtime.workqueue().scope(Scope::System).intake(intake).wake(wake).build().unwrap();
            for round in 0..150_u64 {
                let (one, other) = (queue.submit(|| 1).unwrap(), queue.submit(|| 2).unwrap());
                assert_eq!(one.join().unwrap() + other.join().unwrap(), 3);
                std::thread::sleep(Duration::from_micros(100 + round * 7 % 200));
            }
        }
    }
}

#[test]
fn equal_queues_share_their_workers_and_others_do_not() {
    let runtime = builder().build().unwrap();
    let started = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&started);
    let hooks = Hooks::new().on_start(move |_| {
        count.fetch_add(1, SeqCst);
    });
    let build = |name: &str, strict| {
        let builder = runtime.workqueue().name(name).scope(Scope::System).hooks(hooks.clone());
        builder.strict(strict).build().unwrap()
    };
    let queues: Vec<_> = (0..50).map(|at| build(&format!("equal {at}"), false)).collect();
    for queue in &queues {
        queue.submit(|| ()).unwrap().join().unwrap();
    }
    let limit = queues[0].stats().total().worker_limit;
    wait_until("items are counted", || queues[0].stats().total().run == 50);
    assert!(workers(&queues[49]) <= limit, "one pool for all fifty");
    assert!(started.load(SeqCst) <= limit);
    assert_eq!(queues[7].stats().queued, 1, "counts of items are a queue's own");

    let stranger = build("strict", true);
    stranger.submit(|| ()).unwrap().join().unwrap();
    wait_until("its item is counted", || stranger.stats().total().run == 1);
}

#[test]
fn pools_go_with_their_last_queue() {
    let runtime = builder().build().unwrap();
    let stopped = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&stopped);
    let hooks = Hooks::new().on_stop(move |_| {
        count.fetch_add(1, SeqCst);
    });
    let one = runtime.workqueue().scope(Scope::System).hooks(hooks.clone()).build().unwrap();
    let other = runtime.workqueue().scope(Scope::System).hooks(hooks).build().unwrap();
    drop(one);
    assert_eq!(other.submit(|| 1).unwrap().join().unwrap(), 1);
    assert_eq!(stopped.load(SeqCst), 0);
    drop(other);
    assert!(stopped.load(SeqCst) >= 1, "the drop waits for the workers");
}

#[test]
fn a_pool_stops_with_more_workers_awake_than_may_run() {
    // With the workers that return from a wait, more than the limit are awake when the last queue is dropped.
    for intake in Intake::ALL {
        for wake in Wake::ALL {
            let runtime = builder().build().unwrap();
            for _ in 0..100 {
                let builder = runtime.workqueue().scope(Scope::Cpu).intake(intake).wake(wake);
                all_at_once(&builder.build().unwrap(), 5);
            }
        }
    }
}

#[test]
fn hooks_run_first_and_last_on_each_worker_with_its_pod() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (first, last) = (Arc::clone(&log), Arc::clone(&log));
    let name = || fs::read_to_string("/proc/thread-self/comm").unwrap();
    let hooks = Hooks::new()
        .on_start(move |pod: PodId| first.lock().unwrap().push((name(), pod, "start")))
        .on_stop(move |pod: PodId| last.lock().unwrap().push((name(), pod, "stop")));
    let runtime = virtual_machine("pack:1 numa:1 l3:3 core:2 pu:1").build().unwrap();
    let queue = runtime.workqueue().scope(Scope::Cache).hooks(hooks).build().unwrap();
    let seen = Arc::clone(&log);
    let work = move || {
        let name = name();
        seen.lock().unwrap().iter().any(|(thread, _, what)| *thread == name && *what == "start")
    };
    assert!(queue.submit(work).unwrap().join().unwrap(), "the hook ran before the item");
    drop(queue);
    let log = log.lock().unwrap();
    let of = |what| log.iter().filter(move |entry| entry.2 == what);
    let pods: BTreeSet<u32> = of("start").map(|(_, pod, _)| pod.0).collect();
    assert!(pods.into_iter().eq(0..3));
    assert_eq!(of("start").count(), of("stop").count());
}

#[test]
fn threads_are_named_after_scope_pod_and_worker() {
    let runtime = builder().build().unwrap();
    for (scope, prefix) in [
        (Scope::Cpu, "cs-cpu"),
        (Scope::Smt, "cs-smt"),
        (Scope::CacheShard, "cs-shard"),
        (Scope::Cache, "cs-llc"),
        (Scope::Numa, "cs-node"),
        (Scope::System, "cs-sys"),
    ] {
        let queue = runtime.workqueue().scope(scope).build().unwrap();
        let name = queue.submit(|| fs::read_to_string("/proc/thread-self/comm").unwrap());
        let name = name.unwrap().join().unwrap();
        let numbers = name.trim().strip_prefix(prefix).and_then(|rest| rest.split_once(':'));
        let (pod, worker) = numbers.unwrap_or_else(|| panic!("{scope}: {name}"));
        assert!(pod.parse::<u32>().is_ok() && worker.parse::<u32>().is_ok(), "{name}");
    }
}

#[test]
fn strict_workers_may_run_in_their_pod_alone_and_others_in_all() {
    let topology = Topology::host().unwrap();
    let usable = Usable::host(&topology).unwrap().cpus().clone();
    let runtime = builder().build().unwrap();
    for cpu in &usable {
        let strict = runtime.workqueue().scope(Scope::Cpu).strict(true).build().unwrap();
        let home: CpuSet = [cpu].into_iter().collect();
        assert_eq!(affinity_on(&strict, cpu), home);
        let free = runtime.workqueue().scope(Scope::Cpu).build().unwrap();
        let found = affinity_on(&free, cpu);
        // A worker that woke up outside its pod is confined to it for a moment.
        assert!(found == usable || found == home, "{found}");
        wait_until("it may run in all", || affinity_on(&free, cpu) == usable);
        let mask = home;
        let masked = runtime.workqueue().cpu_mask(mask.clone()).build().unwrap();
        assert_eq!(
            affinity_on(&masked, cpu),
            mask,
            "the mask also binds workers that may leave their pod"
        );
    }
}

/// The affinity that an item finds, when it is queued on `cpu`.
fn affinity_on(queue: &Workqueue<Host>, cpu: coreshard_topology::CpuId) -> CpuSet {
    let (tell, told) = std::sync::mpsc::channel();
    queue.queue_on(cpu, move || tell.send(affinity().unwrap()).unwrap()).unwrap();
    told.recv_timeout(NEVER).unwrap()
}

#[test]
fn workers_have_the_nice_value_and_the_stack_that_were_asked_for() {
    let runtime = builder().build().unwrap();
    let queue = runtime.workqueue().nice(19).stack_bytes(24 << 20).build().unwrap();
    let found = queue.submit(|| {
        // Deeper than the 2 MiB that a thread has by default.
        let deep = std::hint::black_box([1_u8; 6 << 20]);
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let after_name = stat.rsplit(')').next().unwrap();
        let nice = after_name.split_whitespace().nth(16).unwrap().parse::<i32>().unwrap();
        (nice, deep[deep.len() - 1])
    });
    assert_eq!(found.unwrap().join().unwrap(), (19, 1));
}

#[test]
fn a_quota_limits_how_many_workers_run_at_once() {
    let machine = "pack:1 numa:1 l3:1 core:8 pu:1";
    for (quota, limit) in [(0.5, 1), (1.0, 1), (1.5, 2), (3.0, 3), (64.0, 8)] {
        let runtime = virtual_machine(machine).cpu_quota(quota).build().unwrap();
        let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
        assert_eq!(queue.stats().total().worker_limit, limit, "quota {quota}");
        let (active, highest) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..40 {
            let (active, highest) = (Arc::clone(&active), Arc::clone(&highest));
            queue
                .queue(move || {
                    highest.fetch_max(active.fetch_add(1, SeqCst) + 1, SeqCst);
                    // An undeclared sleep: other items would run beside it if the quota allowed it.
                    std::thread::sleep(Duration::from_micros(300));
                    active.fetch_sub(1, SeqCst);
                })
                .unwrap();
        }
        queue.drain().unwrap();
        let highest = highest.load(SeqCst);
        assert!((1..=limit).contains(&highest), "quota {quota}: {highest} ran at once");
    }
}

#[test]
fn every_pod_of_a_quota_keeps_at_least_one_worker() {
    let runtime = virtual_machine("pack:1 numa:1 l3:4 core:2 pu:1").cpu_quota(0.5).build().unwrap();
    let queue = runtime.workqueue().scope(Scope::Cache).build().unwrap();
    let stats = queue.stats();
    assert_eq!(stats.pools.len(), 4);
    assert!(stats.pools.iter().all(|pool| pool.worker_limit == 1));
}

#[test]
fn workers_are_made_on_demand_up_to_the_pods_cpus() {
    let runtime = virtual_machine("pack:1 numa:1 l3:1 core:4 pu:1").build().unwrap();
    for intake in Intake::ALL {
        let queue = runtime.workqueue().scope(Scope::System).intake(intake).build().unwrap();
        assert_eq!(workers(&queue), 1, "one to begin with");
        let (release, released) = (Arc::new(Barrier::new(5)), Arc::new(Barrier::new(5)));
        for _ in 0..4 {
            let (release, released) = (Arc::clone(&release), Arc::clone(&released));
            // They do not declare their waits, so there are as many workers as the pod has CPUs.
            let work = move || {
                release.wait();
                released.wait();
            };
            queue.queue(work).unwrap();
        }
        release.wait();
        let made = workers(&queue);
        released.wait();
        // One more for each that was presumed blocked while another was on its way to the last item.
        let most = || 4 + queue.stats().total().presumed_blocked as usize;
        assert!((4..=most()).contains(&made), "{made} workers, {} may be", most());
        for _ in 0..100 {
            queue.queue(std::thread::yield_now).unwrap();
        }
        queue.drain().unwrap();
        assert!(workers(&queue) <= most(), "and not more");
    }
}
