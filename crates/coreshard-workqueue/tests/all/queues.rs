//! The guarantees of a queue: order, limits, flush, drain, freeze, and changes while it is used.
//! One test for each.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use coreshard_platform::Host;
use coreshard_topology::{CpuId, CpuSet, NodeId, Scope, Topology, Usable};
use coreshard_workqueue::{
    Intake, PanicPolicy, Priority, RefusedReason, Runtime, Work, Workqueue, blocking,
};
use testing::{Lack, NEVER, has_membarrier, skip, wait_until};

fn real_cpus() -> CpuSet {
    Usable::host(&Topology::host().unwrap()).unwrap().cpus().clone()
}

fn runtime() -> Runtime<Host> {
    Runtime::builder(Topology::host().unwrap()).usable(real_cpus()).build().unwrap()
}

/// Two packages of two nodes of two cores: all scopes differ.
fn virtual_machine() -> Runtime<Host> {
    let machine = Topology::from_synthetic("pack:2 numa:2 l3:1 core:2 pu:2").unwrap();
    Runtime::builder(machine).laid_over(real_cpus()).build().unwrap()
}

/// Begins an item of the queue. It runs until the returned sender is dropped or used.
fn hold_back(queue: &Workqueue<Host>) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let hold = move || {
        tell.send(()).unwrap();
        let _ = blocking::<Host, _>(|| released.recv());
    };
    queue.queue(hold).unwrap();
    told.recv_timeout(NEVER).unwrap();
    release
}

fn count(counter: &Arc<AtomicUsize>) -> impl FnOnce() + Send + 'static {
    let counter = Arc::clone(counter);
    move || {
        counter.fetch_add(1, SeqCst);
    }
}

#[test]
fn an_ordered_queue_runs_one_item_at_a_time_in_order_across_pools() {
    let runtime = virtual_machine();
    for intake in Intake::ALL {
        let queue = runtime.workqueue().scope(Scope::Cpu).intake(intake).ordered().build().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let inside = Arc::new(AtomicUsize::new(0));
        for item in 0..400_u32 {
            let (order, inside) = (Arc::clone(&order), Arc::clone(&inside));
            let work = move || {
                assert_eq!(inside.fetch_add(1, SeqCst), 0);
                order.lock().unwrap().push(item);
                inside.fetch_sub(1, SeqCst);
            };
            // In all pods, in turn.
            queue.queue_on(CpuId(item % 16), work).unwrap();
        }
        queue.flush().unwrap();
        assert!(order.lock().unwrap().iter().copied().eq(0..400));
        let error = queue.change().max_active(3).apply().unwrap_err();
        assert!(error.to_string().contains("order"), "{error}");
        assert!(runtime.workqueue().ordered().max_active(2).build().is_err());
    }
}

#[test]
fn a_limit_by_node_leaves_eight_interdependent_items_to_each_node() {
    let runtime = virtual_machine();
    // The share of one node of two is half of it; but eight items that wait for one another make progress.
    let queue = runtime.workqueue().scope(Scope::Numa).max_active_by_node(8).build().unwrap();
    for node in [0, 3_u32] {
        let all_here = Arc::new(Barrier::new(8));
        let handles: Vec<_> = (0..8)
            .map(|_| {
                let all_here = Arc::clone(&all_here);
                let (tell, told) = mpsc::channel();
                let wait = move || {
                    blocking::<Host, _>(|| all_here.wait());
                    tell.send(()).unwrap();
                };
                queue.queue_on(CpuId(node * 4), wait).unwrap();
                told
            })
            .collect();
        handles.iter().for_each(|told| told.recv_timeout(NEVER).unwrap());
    }
    // Sixteen items per node are more than its share: the share is never exceeded.
    let queue = runtime.workqueue().scope(Scope::Numa).max_active_by_node(40).build().unwrap();
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..60 {
        let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
        let work = move || {
            most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
            blocking::<Host, _>(|| std::thread::sleep(Duration::from_micros(300)));
            inside.fetch_sub(1, SeqCst);
        };
        queue.queue_on(CpuId(0), work).unwrap();
    }
    queue.flush().unwrap();
    assert!(most.load(SeqCst) <= 10, "40 on four nodes: {most:?}");
}

/// One item in each pod: further items of that pod wait for their turn, items of other pods do not.
#[test]
fn a_limit_of_each_pod_is_that_pods_own() {
    let runtime = virtual_machine();
    let builder = runtime.workqueue().scope(Scope::Numa).max_active_of_each_pod(1);
    let queue = builder.build().unwrap();
    let (go_on, waits) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let hold = {
        let tell = tell.clone();
        move || {
            tell.send("held").unwrap();
            blocking::<Host, _>(|| waits.recv().unwrap());
        }
    };
    queue.queue_on(CpuId(0), hold).unwrap();
    assert_eq!(told.recv_timeout(NEVER), Ok("held"));
    let behind = {
        let tell = tell.clone();
        move || tell.send("behind").unwrap()
    };
    queue.queue_on(CpuId(0), behind).unwrap();
    for cpu in [4, 8, 12] {
        let tell = tell.clone();
        queue.queue_on(CpuId(cpu), move || tell.send("beside").unwrap()).unwrap();
        assert_eq!(told.recv_timeout(NEVER), Ok("beside"));
    }
    assert_eq!(queue.stats().waiting, 1);
    // A changed limit also applies to each pod.
    queue.change().max_active_of_each_pod(2).apply().unwrap();
    assert_eq!(told.recv_timeout(NEVER), Ok("behind"));
    go_on.send(()).unwrap();
    queue.flush().unwrap();
}

/// The item in the other pod does not need the waiter's turn.
#[test]
fn an_item_may_wait_for_one_of_another_pod_under_a_limit_of_one() {
    let runtime = runtime();
    let usable: Vec<CpuId> = runtime.usable().iter().take(2).collect();
    // With one CPU there is one pod.
    let [here, there] = usable[..] else { return };
    let builder = runtime.workqueue().scope(Scope::Cpu).strict(true).max_active_of_each_pod(1);
    let queue = builder.build().unwrap();
    let (give, given) = mpsc::channel();
    let (go_on, waits) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let maker = queue.clone();
    let make = move || {
        give.send(maker.submit(|| 7).unwrap()).unwrap();
        blocking::<Host, _>(|| waits.recv().unwrap());
    };
    queue.queue_on(there, make).unwrap();
    let wait = move || {
        let behind_the_other = given.recv().unwrap();
        let is_allowed = behind_the_other.check_join().is_ok();
        go_on.send(()).unwrap();
        tell.send((is_allowed, behind_the_other.join().unwrap())).unwrap();
    };
    queue.queue_on(here, wait).unwrap();
    assert_eq!(told.recv_timeout(NEVER), Ok((true, 7)));
}

#[test]
fn eight_interdependent_items_make_progress_under_any_limit_of_eight_or_more() {
    let runtime = runtime();
    for limit in [8, 9, 64] {
        let queue = runtime.workqueue().max_active(limit).build().unwrap();
        let all_here = Arc::new(Barrier::new(8));
        let handles: Vec<_> = (0..8)
            .map(|_| {
                let all_here = Arc::clone(&all_here);
                // Without declaring that it blocks.
                queue.submit(move || all_here.wait().is_leader()).unwrap()
            })
            .collect();
        let leaders = handles.into_iter().map(|handle| handle.join().unwrap());
        assert_eq!(leaders.filter(|is_leader| *is_leader).count(), 1);
    }
}

#[test]
fn a_flush_waits_for_what_was_queued_before_and_not_for_what_comes_after() {
    let runtime = runtime();
    for most in [None, Some(2)] {
        let builder = runtime.workqueue().scope(Scope::System);
        let queue = most.map_or(builder, |most| runtime.workqueue().max_active(most)).build();
        let queue = queue.unwrap();
        queue.flush().unwrap();
        let (before, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        // A producer that never stops queueing.
        let (busy, stopped) = (queue.clone(), Arc::clone(&stop));
        let busy = std::thread::spawn(move || {
            while !stopped.load(SeqCst) {
                busy.queue(std::thread::yield_now).unwrap();
                while busy.stats().in_flight() > 200 {
                    std::thread::yield_now();
                }
            }
        });
        for round in 1..=20 {
            (0..20).for_each(|_| queue.queue(count(&before)).unwrap());
            queue.flush().unwrap();
            assert_eq!(before.load(SeqCst), round * 20);
        }
        stop.store(true, SeqCst);
        busy.join().unwrap();

        // An endless chain: each item queues the next, so one is always in flight.
        stop.store(false, SeqCst);
        fn link(queue: Workqueue<Host>, stop: Arc<AtomicBool>) {
            if !stop.load(SeqCst) {
                let next = queue.clone();
                queue.queue(move || link(next, stop)).unwrap();
            }
        }
        link(queue.clone(), Arc::clone(&stop));
        for _ in 0..20 {
            queue.flush().unwrap();
        }
        assert!(queue.stats().in_flight() > 0, "the chain continues");
        stop.store(true, SeqCst);
        queue.drain().unwrap();
    }
}

#[test]
fn a_flush_from_inside_an_item_of_the_same_queue_is_an_error() {
    let runtime = runtime();
    let queue = runtime.workqueue().name("mirror").build().unwrap();
    let inner = queue.clone();
    let error = queue.submit(move || inner.flush()).unwrap().join().unwrap().unwrap_err();
    assert!(error.to_string().contains("\"mirror\" cannot be flushed"), "{error}");
    let (other, inner) = (runtime.workqueue().build().unwrap(), queue.clone());
    other.submit(move || inner.flush()).unwrap().join().unwrap().unwrap();
}

#[test]
fn a_drain_takes_items_from_the_queue_itself_alone() {
    let runtime = runtime();
    let queue = runtime.workqueue().build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let (tell, told) = mpsc::channel::<()>();
    let (own, counter) = (queue.clone(), Arc::clone(&ran));
    // An item that queues a chain of further ones on command.
    let chain = Work::new(move |work| {
        if counter.load(SeqCst) == 0 {
            let _ = blocking::<Host, _>(|| told.recv());
        }
        if counter.fetch_add(1, SeqCst) < 20 {
            work.queue(&own).unwrap();
            own.queue(count(&counter)).unwrap();
        }
    });
    chain.queue(&queue).unwrap();
    let drained = queue.clone();
    let drain = std::thread::spawn(move || drained.drain().unwrap());
    let late = Work::<Host>::new(|_| ());
    wait_until("the drain has begun", || match queue.queue(|| ()) {
        Ok(()) => false,
        Err(refused) => refused.reason() == RefusedReason::Draining,
    });
    assert!(late.queue(&queue).unwrap_err().to_string().contains("drain"));
    // A delayed item that becomes due meanwhile is neither lost nor waited for.
    late.queue_after(&queue, Duration::from_micros(1)).unwrap();
    assert!(!drain.is_finished());
    tell.send(()).unwrap();
    drain.join().unwrap();
    assert!(ran.load(SeqCst) > 20);
    queue.queue(|| ()).unwrap();
    late.flush().unwrap();
    assert!(!late.is_pending());
}

#[test]
fn a_frozen_queue_begins_nothing_and_loses_nothing() {
    let runtime = runtime();
    for builder in [
        runtime.workqueue(),
        runtime.workqueue().max_active(3),
        runtime.workqueue().ordered(),
        runtime.workqueue().max_active_by_node(3),
    ] {
        let queue = builder.build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        queue.queue(count(&ran)).unwrap();
        queue.flush().unwrap();
        queue.freeze().unwrap();
        queue.freeze().unwrap();
        let work = {
            let ran = Arc::clone(&ran);
            Work::new(move |_| {
                ran.fetch_add(1, SeqCst);
            })
        };
        (0..50).for_each(|_| queue.queue(count(&ran)).unwrap());
        work.queue(&queue).unwrap();
        std::thread::sleep(Duration::from_millis(3));
        let stats = queue.stats();
        assert_eq!((ran.load(SeqCst), stats.waiting, stats.is_frozen), (1, 51, true));
        assert_eq!(queue.stats().in_flight(), 51);
        queue.change().scope(Scope::System).apply().unwrap();
        queue.queue(count(&ran)).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(ran.load(SeqCst), 1, "a change does not thaw");
        queue.thaw().unwrap();
        queue.flush().unwrap();
        assert_eq!(ran.load(SeqCst), 53);
        assert!(!queue.stats().is_frozen);
        // Dropped while frozen: it could not be thawed any more.
        queue.freeze().unwrap();
        (0..7).for_each(|_| queue.queue(count(&ran)).unwrap());
        drop(queue);
        assert_eq!(ran.load(SeqCst), 60);
    }
}

#[test]
fn changing_a_queue_1000_times_under_full_load_loses_and_duplicates_nothing() {
    // Two nodes of two CPUs: scopes differ, and a change starts few threads.
    let machine = Topology::from_synthetic("pack:2 numa:1 l3:1 core:2 pu:1").unwrap();
    let runtime = Runtime::<Host>::builder(machine).laid_over(real_cpus()).build().unwrap();
    for (intake, changes) in [(Intake::LockFree, 1_000), (Intake::Locked, 100)] {
        let queue = runtime.workqueue().intake(intake).build().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let works: Vec<_> = (0..8)
            .map(|_| {
                let (inside, runs) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)));
                let counter = Arc::clone(&runs);
                let work = Work::new(move |_| {
                    assert!(!inside.swap(true, SeqCst), "two at once");
                    counter.fetch_add(1, SeqCst);
                    assert!(inside.swap(false, SeqCst));
                });
                (work, runs)
            })
            .collect();
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let (queue, stop, works) = (queue.clone(), Arc::clone(&stop), works.clone());
                std::thread::spawn(move || {
                    let mut ran: Vec<Arc<AtomicU8>> = Vec::new();
                    let over = Arc::new(AtomicU64::new(0));
                    let mut requeued = vec![0_u64; works.len()];
                    let mut at = 0;
                    while !stop.load(SeqCst) {
                        let once = Arc::new(AtomicU8::new(0));
                        ran.push(Arc::clone(&once));
                        let told = Arc::clone(&over);
                        let run = move || {
                            once.fetch_add(1, SeqCst);
                            told.fetch_add(1, SeqCst);
                        };
                        queue.queue(run).unwrap();
                        at = (at + 1) % works.len();
                        requeued[at] += u64::from(works[at].0.queue(&queue).unwrap());
                        // Full load, but no unbounded backlog.
                        while ran.len() as u64 - over.load(SeqCst) > 200 && !stop.load(SeqCst) {
                            std::thread::sleep(Duration::from_micros(50));
                        }
                    }
                    (ran, requeued)
                })
            })
            .collect();
        let scopes = Scope::ALL;
        for change in 0..changes {
            let apply = queue.change().scope(scopes[change % scopes.len()]);
            let apply = match change % 50 {
                7 => apply.strict(true),
                17 => apply.strict(false),
                23 => apply.shard_size(1),
                27 => apply.max_active(40),
                33 => apply.cpu_mask("0,2-3".parse::<CpuSet>().unwrap()),
                37 => apply.max_active(None),
                43 => apply.cpu_mask(None).max_active_by_node(16),
                47 => apply.max_active(None).shard_size(8),
                _ => apply,
            };
            apply.apply().unwrap();
            if change % 100 == 50 {
                queue.flush().unwrap();
            }
        }
        stop.store(true, SeqCst);
        let mut requeued = vec![0; works.len()];
        let mut items = Vec::new();
        for producer in producers {
            let (ran, own) = producer.join().unwrap();
            items.extend(ran);
            requeued.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
        queue.drain().unwrap();
        assert!(items.len() > 100, "there was load: {}", items.len());
        assert!(items.iter().all(|once| once.load(SeqCst) == 1), "each item runs once");
        for ((_, runs), requeued) in works.iter().zip(requeued) {
            assert_eq!(runs.load(SeqCst), requeued, "each queueing runs once");
        }
        assert_eq!(queue.stats().in_flight(), 0);
    }
}

#[test]
fn changing_an_ordered_queue_keeps_its_order() {
    let runtime = virtual_machine();
    let queue = runtime.workqueue().ordered().build().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let stop = Arc::new(AtomicBool::new(false));
    let (own, log, stopped) = (queue.clone(), Arc::clone(&order), Arc::clone(&stop));
    let producer = std::thread::spawn(move || {
        let mut item = 0_u64;
        while !stopped.load(SeqCst) {
            let log = Arc::clone(&log);
            own.queue(move || log.lock().unwrap().push(item)).unwrap();
            item += 1;
        }
        item
    });
    for change in 0..200 {
        queue.change().scope(Scope::ALL[change % Scope::ALL.len()]).apply().unwrap();
    }
    stop.store(true, SeqCst);
    let items = producer.join().unwrap();
    queue.drain().unwrap();
    assert!(order.lock().unwrap().iter().copied().eq(0..items), "{items} items");
}

/// 36 shapes, each with its own pools, while other threads queue.
#[test]
fn a_queue_keeps_few_of_the_shapes_that_it_has_had() {
    let runtime = virtual_machine();
    let queue = runtime.workqueue().build().unwrap();
    let ran = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let producers = [0, 1].map(|_| {
        let (queue, ran, stop) = (queue.clone(), Arc::clone(&ran), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut queued = 0;
            while !stop.load(SeqCst) {
                let ran = Arc::clone(&ran);
                let count = move || {
                    ran.fetch_add(1, SeqCst);
                };
                queue.queue(count).unwrap();
                queued += 1;
            }
            queued
        })
    });
    let change = |at: usize| {
        let change = queue.change().scope(Scope::ALL[at % 6]).strict((at / 6).is_multiple_of(2));
        change.shard_size(1 + at / 12 % 3).apply().unwrap();
    };
    (0..108).for_each(change);
    stop.store(true, SeqCst);
    let queued: u64 = producers.into_iter().map(|producer| producer.join().unwrap()).sum();
    queue.drain().unwrap();
    assert_eq!(ran.load(SeqCst), queued);
    if !has_membarrier() {
        return skip(Lack::Membarrier, "past shapes are not freed");
    }
    // Shapes that producers may have been reading are freed with a later change.
    wait_until("past shapes are freed", || {
        (0..6).for_each(change);
        let (stats, total) = (runtime.stats(), queue.stats());
        assert_eq!((total.queued, total.run), (queued, queued));
        // The current shape and four past ones, of 16 pools at most.
        stats.pools.len() <= 5 * 16
    });
}

#[test]
fn the_workers_of_past_pools_go() {
    testing::own_process!();
    let runtime = virtual_machine();
    let queue = runtime.workqueue().scope(Scope::Cpu).build().unwrap();
    let past = queue.stats().total().workers;
    assert_eq!(past, 16);
    let alive = || {
        let named = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        // It may exit between the listing and the read.
        tasks
            .filter_map(|task| named(task.ok()?).ok())
            .filter(|name| name.starts_with("cs-cpu15"))
            .count()
    };
    // Other tests may also have such pools: this one keeps a worker busy until it is seen.
    let release = hold_back(&queue);
    queue.change().scope(Scope::System).apply().unwrap();
    queue.queue(|| ()).unwrap();
    assert_eq!(queue.stats().scope, Scope::System);
    assert_eq!(queue.stats().pools.len(), 1);
    drop(release);
    queue.drain().unwrap();
    wait_until("the workers of past pools have exited", || alive() == 0);
    // And they are started again.
    queue.change().scope(Scope::Cpu).apply().unwrap();
    assert!(alive() > 0);
    assert_eq!(queue.submit(|| 3).unwrap().join().unwrap(), 3);
}

#[test]
fn a_change_that_cannot_be_made_leaves_the_queue_as_it_was() {
    let runtime = runtime();
    let queue = runtime.workqueue().name("still").scope(Scope::Cache).build().unwrap();
    let absent: CpuSet = [CpuId(9_999)].into_iter().collect();
    for change in [
        queue.change().cpu_mask(absent).scope(Scope::System),
        queue.change().cpu_mask(CpuSet::new()).scope(Scope::System),
        queue.change().max_active(0).scope(Scope::System),
        queue.change().nice(-128).scope(Scope::System),
    ] {
        let error = change.apply().unwrap_err();
        assert!(error.to_string().contains("\"still\""), "{error}");
    }
    assert_eq!(queue.stats().scope, Scope::Cache);
    assert_eq!(queue.submit(|| 2).unwrap().join().unwrap(), 2);
}

#[test]
fn high_priority_items_do_not_wait_behind_normal_ones() {
    let runtime = runtime();
    let normal = runtime.workqueue().scope(Scope::System).build().unwrap();
    // Nice values above that of the process need no privilege.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let own = stat.rsplit(')').next().unwrap().split_whitespace().nth(16).unwrap();
    let nice = (own.parse::<i8>().unwrap() + 3).min(19);
    let builder = runtime.workqueue().scope(Scope::System).priority(Priority::High).nice(nice);
    let high = builder.build().unwrap();
    // Every worker of the normal queue runs an item that only the high-priority item ends.
    let cpus = real_cpus().len();
    let release = Arc::new(AtomicBool::new(false));
    for _ in 0..cpus * 4 {
        let released = Arc::clone(&release);
        let spin = move || {
            while !released.load(SeqCst) {
                std::hint::spin_loop();
            }
        };
        normal.queue(spin).unwrap();
    }
    let released = Arc::clone(&release);
    high.submit(move || released.store(true, SeqCst)).unwrap().join().unwrap();
    normal.drain().unwrap();
}

#[test]
fn a_queue_closes_after_a_panic_if_it_is_asked_to() {
    let runtime = runtime();
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&seen);
    let queue = runtime
        .workqueue()
        .panic_policy(PanicPolicy::CloseQueue)
        .panic_handler(move |_| {
            counter.fetch_add(1, SeqCst);
        })
        .build()
        .unwrap();
    // A panic that a handle reports does not close the queue.
    let panic = || -> () { resume_unwind(Box::new("told")) };
    assert!(queue.submit(panic).unwrap().join().is_err());
    let ran = Arc::new(AtomicUsize::new(0));
    let release = hold_back(&queue);
    (0..5).for_each(|_| queue.queue(count(&ran)).unwrap());
    queue.queue(|| resume_unwind(Box::new("deliberate"))).unwrap();
    drop(release);
    wait_until("it is closed", || match queue.queue(|| ()) {
        Ok(()) => false,
        Err(refused) => refused.reason() == RefusedReason::Panicked,
    });
    queue.drain().unwrap();
    assert_eq!((ran.load(SeqCst), seen.load(SeqCst)), (5, 1), "the accepted items have run");
}

#[test]
fn a_queue_on_a_node_that_is_not_its_own_is_refused_after_a_change_too() {
    let runtime = virtual_machine();
    let queue = runtime.workqueue().build().unwrap();
    queue.queue_on(CpuId(15), || ()).unwrap();
    queue.change().cpu_mask("0-3".parse::<CpuSet>().unwrap()).apply().unwrap();
    let refused = queue.queue_on(CpuId(15), || ()).unwrap_err();
    assert_eq!(refused.reason(), RefusedReason::NoSuchCpu(CpuId(15)));
    assert!(queue.queue_on_node(NodeId(77), || ()).is_err());
    queue.queue_on(CpuId(2), || ()).unwrap();
    queue.drain().unwrap();
}

#[test]
fn a_quota_that_is_no_number_above_zero_is_refused() {
    let build = |cpus| Runtime::<Host>::builder(Topology::host().unwrap()).cpu_quota(cpus).build();
    for wrong in [f64::NAN, -1.0, 0.0, f64::NEG_INFINITY] {
        let error = build(wrong).unwrap_err().to_string();
        assert!(error.contains("CPU quota is") && error.contains("above 0"), "{error}");
    }
    assert_eq!(build(0.5).unwrap().cpu_quota(), Some(0.5));
}
