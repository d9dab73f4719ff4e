//! The guarantees of a workqueue, one test for each.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use coreshard_platform::Host;
use coreshard_topology::{CpuId, CpuSet, NodeId, Topology, Usable};
use coreshard_workqueue::{Builder, Intake, RefusedReason, Runtime, Wake, Workqueue, blocking};
use testing::NEVER;

fn runtime() -> Runtime<Host> {
    let topology = Topology::host().unwrap();
    let usable = Usable::host(&topology).unwrap();
    Runtime::builder(topology).usable(usable.cpus().clone()).build().unwrap()
}

/// The guarantees hold for all combinations of intake and wake policy.
fn on_all_rungs(test: impl for<'a> Fn(&'a Runtime<Host>, &dyn Fn() -> Builder<'a, Host>)) {
    let runtime = &runtime();
    for intake in Intake::ALL {
        for wake in Wake::ALL {
            test(runtime, &|| runtime.workqueue().intake(intake).wake(wake));
        }
    }
}

/// Holds back all later items of the queue until the sender is dropped or used.
fn hold_back(queue: &Workqueue<Host>) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel();
    queue
        .queue(move || {
            let _ = released.recv();
        })
        .unwrap();
    release
}

#[test]
fn a_refused_closure_comes_back_whole() {
    on_all_rungs(|_, builder| {
        let queue = builder().build().unwrap();
        queue.shutdown(NEVER).unwrap();
        let cargo = Arc::new(7);
        let mine = Arc::clone(&cargo);
        let refused = queue.submit(move || *mine).unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::ShutDown);
        assert_eq!(Arc::strong_count(&cargo), 2, "neither dropped nor run");
        assert_eq!(refused.into_item()(), 7);

        let mine = Arc::clone(&cargo);
        let refused = queue.queue(move || drop(mine)).unwrap_err();
        assert!(refused.to_string().contains("shut down"), "{refused}");
        refused.into_item()();
        assert_eq!(Arc::strong_count(&cargo), 1);
        assert!(queue.queue_on(CpuId(0), || ()).is_err());
        queue.scope(|scope| assert!(scope.queue(|| ()).is_err()));
    });
}

#[test]
fn a_refused_closure_is_counted_nowhere() {
    on_all_rungs(|_, builder| {
        let queue = builder().build().unwrap();
        for _ in 0..3 {
            queue.queue(|| ()).unwrap();
        }
        queue.shutdown(NEVER).unwrap();
        for _ in 0..10 {
            queue.queue(|| ()).unwrap_err();
        }
        let stats = queue.stats();
        assert_eq!((stats.queued, stats.run, stats.in_flight()), (3, 3, 0));
    });
}

#[test]
fn the_drop_of_the_last_handle_drains() {
    on_all_rungs(|_, builder| {
        let queue = builder().build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..200 {
            let ran = Arc::clone(&ran);
            queue
                .queue(move || {
                    std::thread::yield_now();
                    ran.fetch_add(1, SeqCst);
                })
                .unwrap();
        }
        let other = queue.clone();
        drop(queue);
        drop(other);
        assert_eq!(ran.load(SeqCst), 200);
        assert_eq!(Arc::strong_count(&ran), 1, "the items were dropped");
    });
}

#[test]
fn the_last_handle_may_be_dropped_inside_an_item_of_the_queue() {
    on_all_rungs(|_, builder| {
        let queue = builder().build().unwrap();
        let (tell, told) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let inner = queue.clone();
        let tell_late = tell.clone();
        queue
            .queue(move || {
                gone.recv().unwrap();
                inner.queue(move || tell_late.send("the item behind").unwrap()).unwrap();
                drop(inner);
                tell.send("the item itself").unwrap();
            })
            .unwrap();
        drop_elsewhere(queue, &go);
        let mut heard = [told.recv_timeout(NEVER).unwrap(), told.recv_timeout(NEVER).unwrap()];
        heard.sort_unstable();
        assert_eq!(heard, ["the item behind", "the item itself"]);
    });
}

/// Drops a handle that is not the last, and then lets the item that has the last one continue.
fn drop_elsewhere(queue: Workqueue<Host>, go: &mpsc::Sender<()>) {
    drop(queue);
    go.send(()).unwrap();
}

#[test]
fn a_panic_reaches_its_handle_and_the_worker_goes_on() {
    on_all_rungs(|_, builder| {
        let handled = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&handled);
        let handler = move |payload: Box<dyn std::any::Any + Send>| {
            log.lock().unwrap().push(*payload.downcast::<u32>().unwrap());
            resume_unwind(Box::new("and the handler panics too"));
        };
        let queue = builder().panic_handler(handler).build().unwrap();
        let workers = |queue: &Workqueue<Host>| queue.stats().total().workers;
        let before = workers(&queue);

        let throw = || -> () { resume_unwind(Box::new("from a handle")) };
        let panic = queue.submit(throw).unwrap().join().unwrap_err();
        assert_eq!(panic.message(), "from a handle");
        assert_eq!(*panic.into_payload().downcast::<&str>().unwrap(), "from a handle");
        assert!(handled.lock().unwrap().is_empty(), "the handle has reported it");

        for number in 0..10_u32 {
            queue.queue(move || resume_unwind(Box::new(number))).unwrap();
        }
        queue.drain().unwrap();
        let mut numbers = handled.lock().unwrap().clone();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..10));
        assert_eq!(queue.submit(|| 5).unwrap().join().unwrap(), 5);
        assert!(workers(&queue) >= before, "no worker died");
    });
}

#[test]
fn a_scope_lends_data_and_ends_after_its_items() {
    on_all_rungs(|_, builder| {
        let queue = builder().build().unwrap();
        let mut parts = vec![0_u64; 64];
        let sum = queue.scope(|scope| {
            for (at, part) in parts.iter_mut().enumerate() {
                scope.queue(move || *part = at as u64).unwrap();
            }
            99
        });
        assert_eq!(sum, 99);
        assert!(parts.iter().copied().eq(0..64));

        // Items may queue more, in the same scope.
        let ran = AtomicUsize::new(0);
        queue.scope(|scope| {
            let ran = &ran;
            scope
                .queue(move || {
                    for _ in 0..10 {
                        scope
                            .queue(move || {
                                ran.fetch_add(1, SeqCst);
                            })
                            .unwrap();
                    }
                })
                .unwrap();
        });
        assert_eq!(ran.load(SeqCst), 10);
    });
}

#[test]
fn a_panic_leaves_a_scope_after_all_its_items() {
    on_all_rungs(|_, builder| {
        let queue = builder().build().unwrap();
        for body_panics in [false, true] {
            let ran = AtomicUsize::new(0);
            let thrown = catch_unwind(AssertUnwindSafe(|| {
                queue.scope(|scope| {
                    for item in 0..20 {
                        let ran = &ran;
                        scope
                            .queue(move || {
                                ran.fetch_add(1, SeqCst);
                                if item == 3 {
                                    resume_unwind(Box::new("an item"));
                                }
                            })
                            .unwrap();
                    }
                    if body_panics {
                        resume_unwind(Box::new("the body"));
                    }
                });
            }));
            assert_eq!(ran.load(SeqCst), 20, "all had finished when the scope was left");
            let message = *thrown.unwrap_err().downcast::<&str>().unwrap();
            assert_eq!(message, if body_panics { "the body" } else { "an item" });
        }
    });
}

#[test]
fn a_drain_inside_an_item_of_the_queue_is_an_error() {
    on_all_rungs(|_, builder| {
        let queue = builder().name("mirror").build().unwrap();
        let inner = queue.clone();
        let error = queue.submit(move || inner.drain()).unwrap().join().unwrap().unwrap_err();
        assert!(error.to_string().contains("\"mirror\""), "{error}");

        // An item of another queue may wait for it, even if both share their pools.
        let other = builder().name("other").build().unwrap();
        let inner = queue.clone();
        queue.queue(std::thread::yield_now).unwrap();
        other.submit(move || inner.drain()).unwrap().join().unwrap().unwrap();
    });
}

#[test]
fn what_an_item_wrote_is_seen_after_a_drain() {
    on_all_rungs(|_, builder| {
        let queue = builder().build().unwrap();
        let words: Arc<Vec<AtomicU32>> = Arc::new((0..500).map(|_| AtomicU32::new(0)).collect());
        for round in 1..=4 {
            for at in 0..words.len() {
                let words = Arc::clone(&words);
                let write = move || words[at].store(round, std::sync::atomic::Ordering::Relaxed);
                queue.queue(write).unwrap();
            }
            queue.drain().unwrap();
            let relaxed = std::sync::atomic::Ordering::Relaxed;
            assert!(words.iter().all(|word| word.load(relaxed) == round));
        }
    });
}

#[test]
fn max_active_is_never_exceeded_and_keeps_the_order() {
    on_all_rungs(|_, builder| {
        for most in [1, 3] {
            let queue = builder().max_active(most).build().unwrap();
            let (active, highest) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let order = Arc::new(Mutex::new(Vec::new()));
            for item in 0..60 {
                let (active, highest) = (Arc::clone(&active), Arc::clone(&highest));
                let order = Arc::clone(&order);
                queue
                    .queue(move || {
                        highest.fetch_max(active.fetch_add(1, SeqCst) + 1, SeqCst);
                        order.lock().unwrap().push(item);
                        // Other items get the chance to run beside this one.
                        blocking::<Host, _>(|| std::thread::sleep(Duration::from_micros(100)));
                        active.fetch_sub(1, SeqCst);
                    })
                    .unwrap();
            }
            queue.drain().unwrap();
            assert!(highest.load(SeqCst) <= most, "{} ran at once", highest.load(SeqCst));
            let order = order.lock().unwrap();
            assert_eq!(order.len(), 60);
            if most == 1 {
                assert!(order.is_sorted(), "{order:?}");
            }
        }
    });
}

#[test]
fn items_that_wait_for_one_another_all_get_a_worker() {
    on_all_rungs(|_, builder| {
        // Repeated with new workers: one may block while the next is being started.
        for _ in 0..20 {
            let queue = builder().build().unwrap();
            let all_here = Arc::new(Barrier::new(8));
            let handles: Vec<_> = (0..8)
                .map(|_| {
                    let all_here = Arc::clone(&all_here);
                    queue
                        .submit(move || blocking::<Host, _>(|| all_here.wait().is_leader()))
                        .unwrap()
                })
                .collect();
            let leaders = handles.into_iter().map(|handle| handle.join().unwrap());
            assert_eq!(leaders.filter(|is_leader| *is_leader).count(), 1);
        }
    });
}

#[test]
fn an_item_may_wait_for_items_it_submits() {
    fn sum(queue: Workqueue<Host>, from: u64, to: u64) -> u64 {
        if to - from <= 4 {
            return (from..to).sum();
        }
        let middle = from + (to - from) / 2;
        let inner = queue.clone();
        let left = queue.submit(move || sum(inner, from, middle)).unwrap();
        let right = sum(queue, middle, to);
        left.join().unwrap() + right
    }
    on_all_rungs(|_, builder| {
        let queue = builder().build().unwrap();
        let inner = queue.clone();
        let total = queue.submit(move || sum(inner, 0, 200)).unwrap().join().unwrap();
        assert_eq!(total, 199 * 200 / 2);
    });
}

#[test]
fn a_shutdown_that_takes_too_long_loses_nothing() {
    on_all_rungs(|_, builder| {
        let queue = builder().build().unwrap();
        let release = hold_back(&queue);
        let error = queue.shutdown(Duration::from_millis(5)).unwrap_err();
        assert_eq!(error.in_flight(), 1);
        assert!(error.to_string().starts_with("1 "), "{error}");
        assert!(queue.queue(|| ()).is_err(), "it is closed anyway");
        drop(release);
        queue.shutdown(NEVER).unwrap();
    });
}

#[test]
fn cpus_and_nodes_that_a_queue_does_not_serve_are_refused_and_named() {
    let machine = Topology::from_synthetic("pack:2 numa:1 l3:1 core:2 pu:1").unwrap();
    let real = Usable::host(&Topology::host().unwrap()).unwrap().cpus().clone();
    let runtime = Runtime::<Host>::builder(machine).laid_over(real).build().unwrap();
    let mask: CpuSet = "0-1".parse().unwrap();
    let queue = runtime.workqueue().cpu_mask(mask).build().unwrap();
    let cargo = Arc::new(AtomicUsize::new(0));
    let mine = Arc::clone(&cargo);
    let work = move || _ = mine.fetch_add(1, SeqCst);
    let refused = queue.queue_on(CpuId(2), work).unwrap_err();
    assert_eq!(refused.reason(), RefusedReason::NoSuchCpu(CpuId(2)));
    refused.into_item()();
    assert_eq!(cargo.load(SeqCst), 1);
    let refused = queue.queue_on(CpuId(99), || ()).unwrap_err();
    assert!(refused.to_string().contains("99"), "{refused}");
    queue.queue_on(CpuId(1), || ()).unwrap();
    queue.drain().unwrap();
}

#[test]
fn an_item_runs_on_the_node_it_was_queued_on() {
    let topology = Topology::host().unwrap();
    let usable = Usable::host(&topology).unwrap().cpus().clone();
    let nodes: Vec<NodeId> = topology.node_ids().to_vec();
    let absent = NodeId(nodes.iter().map(|node| node.0).max().unwrap_or(0) + 1);
    let runtime = runtime();
    let queue = runtime.workqueue().strict(true).build().unwrap();
    let refused = queue.queue_on_node(absent, || ()).unwrap_err();
    assert_eq!(refused.reason(), RefusedReason::NoSuchNode(absent));
    assert!(refused.to_string().contains(&absent.to_string()), "{refused}");
    for node in nodes {
        let cpus = &topology.cpus_of_node(node) & &usable;
        if cpus.is_empty() {
            continue;
        }
        let (tell, told) = mpsc::channel();
        let work = move || tell.send(coreshard_platform::affinity().unwrap()).unwrap();
        queue.queue_on_node(node, work).unwrap();
        assert!(told.recv_timeout(NEVER).unwrap().is_subset(&cpus));
    }
}

#[test]
fn what_cannot_be_built_says_why() {
    let runtime = runtime();
    let error = |builder: Builder<'_, Host>| builder.name("odd").build().unwrap_err().to_string();
    let zero = error(runtime.workqueue().max_active(0));
    assert!(zero.contains("\"odd\"") && zero.contains("max_active is 0"), "{zero}");
    let empty = error(runtime.workqueue().cpu_mask(CpuSet::new()));
    assert!(empty.contains("\"odd\"") && empty.contains("empty"), "{empty}");
    let absent = error(runtime.workqueue().cpu_mask("8000-8001".parse().unwrap()));
    assert!(absent.contains("8000-8001"), "{absent}");
    let nice = error(runtime.workqueue().nice(120));
    assert!(nice.contains("120") && nice.contains("-20 to 19"), "{nice}");
    // Not -20, which root could get.
    let nice = error(runtime.workqueue().nice(-128));
    assert!(nice.contains("-128: expected -20 to 19"), "{nice}");
    let no_cores = error(runtime.workqueue().shard_size(0));
    assert!(no_cores.contains("shard size is 0; at least 1"), "{no_cores}");

    let queue = runtime.workqueue().build().unwrap();
    assert!(queue.change().shard_size(0).apply().is_err());
    assert!(queue.change().nice(100).apply().is_err());
    assert_eq!(queue.submit(|| 1).unwrap().join().unwrap(), 1, "it is unchanged");

    runtime.shutdown(NEVER).unwrap();
    let closed = error(runtime.workqueue());
    assert!(closed.contains("shut down"), "{closed}");
    assert!(queue.queue(|| ()).is_err(), "its queues are closed with it");
}

/// The error is reported when the runtime is built, not later with the first queue.
#[test]
fn a_runtime_that_may_have_no_worker_is_not_built() {
    let builder = || Runtime::<Host>::builder(Topology::host().unwrap());
    for (which, builder) in [
        ("workers", builder().workers(0)),
        ("max_workers", builder().max_workers(0)),
        ("max_workers_per_pool", builder().max_workers_per_pool(0)),
    ] {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains(&format!("{which} is 0; at least 1 is needed")), "{error}");
    }
}
