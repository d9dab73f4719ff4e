//! Scopes: handles with results, all panics, items that are given the scope.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use coreshard_platform::{Host, affinity};
use coreshard_topology::{Scope, Topology};
use coreshard_workqueue::{Intake, RefusedReason, Runtime, WorkScope, Workqueue, current};
use testing::{NEVER, within};

fn on_all_rungs(test: impl Fn(Workqueue<Host>) + Send + Sync + 'static) {
    within(NEVER, move || {
        for intake in Intake::ALL {
            for (workers, limit) in [(1, None), (4, None), (512, None), (4, Some(1)), (4, Some(2))]
            {
                let topology = Topology::from_synthetic("package:1 l3:1 core:2 pu:1").unwrap();
                let builder = Runtime::builder(topology).laid_over(affinity().unwrap());
                let runtime = builder.max_workers_per_pool(workers).build().unwrap();
                let builder = runtime.workqueue().scope(Scope::System).intake(intake);
                let builder =
                    limit.into_iter().fold(builder, |builder, limit| builder.max_active(limit));
                test(builder.panic_handler(|_| panic!("the scope reports it")).build().unwrap());
            }
        }
    });
}

/// Counts its live instances, and borrows.
struct Counted<'count>(&'count AtomicUsize, usize);

impl<'count> Counted<'count> {
    fn new(count: &'count AtomicUsize, number: usize) -> Self {
        count.fetch_add(1, SeqCst);
        Self(count, number)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[test]
fn results_come_to_their_handles_or_are_dropped_before_the_scope_ends() {
    on_all_rungs(|queue| {
        for _ in 0..40 {
            let count = AtomicUsize::new(0);
            let sum: usize = queue.scope(|scope| {
                let handles: Vec<_> = (0..8)
                    .map(|at| {
                        let count = &count;
                        scope.submit(move || Counted::new(count, at)).unwrap()
                    })
                    .collect();
                let mut sum = 0;
                for (at, handle) in handles.into_iter().enumerate() {
                    match at % 4 {
                        0 | 1 => sum += handle.join().unwrap().1,
                        2 => drop(handle),
                        _ => {
                            // Not joined; it may be dropped after it has finished, or before.
                            while at == 3 && !handle.is_finished() {
                                std::thread::yield_now();
                            }
                        }
                    }
                }
                sum
            });
            assert_eq!(sum, 1 + 4 + 5);
            assert_eq!(count.into_inner(), 0, "all are dropped");
        }
    });
}

#[test]
fn items_join_items_of_their_scope() {
    fn sum(queue: &Workqueue<Host>, numbers: &[u64]) -> u64 {
        if numbers.len() < 4 {
            return numbers.iter().sum();
        }
        let (left, right) = numbers.split_at(numbers.len() / 2);
        queue.scope(|scope| {
            let left = scope.submit(|| sum(queue, left)).unwrap();
            let right = scope.submit(|| sum(queue, right)).unwrap();
            left.join().unwrap() + right.join().unwrap()
        })
    }
    on_all_rungs(|queue| {
        let numbers: Vec<u64> = (0..500).collect();
        assert_eq!(sum(&queue, &numbers), 124_750);
        let own = queue.clone();
        let inside = queue.submit(move || sum(&own, &numbers)).unwrap();
        assert_eq!(inside.join().unwrap(), 124_750);
    });
}

#[test]
fn a_panic_goes_to_its_handle_or_else_to_the_scope() {
    on_all_rungs(|queue| {
        queue.scope(|scope| {
            let handle = scope.submit(|| panic!("told")).unwrap();
            assert_eq!(handle.join().unwrap_err().message(), "told");
        });
        for waits in [true, false] {
            let outcome = queue.try_scope(|scope| {
                let handle = scope.submit(|| panic!("left")).unwrap();
                while waits && !handle.is_finished() {
                    std::thread::yield_now();
                }
            });
            let panics = outcome.unwrap_err();
            assert!(panics.body().is_none());
            assert_eq!(panics.items()[0].message(), "left");
        }
    });
}

#[test]
fn all_that_was_thrown_is_told() {
    on_all_rungs(|queue| {
        let over = AtomicUsize::new(0);
        let outcome = queue.try_scope(|scope| {
            for at in 0..10 {
                let over = &over;
                scope
                    .queue(move || {
                        over.fetch_add(1, SeqCst);
                        assert!(at % 2 == 0, "{at}");
                    })
                    .unwrap();
            }
            panic!("the body");
        });
        let panics = outcome.unwrap_err();
        assert_eq!(over.load(SeqCst), 10);
        assert_eq!(panics.body().unwrap().message(), "the body");
        let mut told: Vec<_> =
            panics.items().iter().map(|panic| panic.message().to_owned()).collect();
        told.sort();
        assert_eq!(told, ["1", "3", "5", "7", "9"]);
        assert!(panics.to_string().contains("6 panics"));
        assert_eq!(panics.into_panics().count(), 6);
        assert_eq!(queue.try_scope(|_| 3).unwrap(), 3);
    });
}

#[test]
fn items_are_given_their_scope() {
    fn spread<'scope>(
        scope: &'scope WorkScope<'scope, '_, Host>,
        depth: u32,
        leaves: &'scope AtomicUsize,
    ) {
        if depth == 0 {
            leaves.fetch_add(1, SeqCst);
            return;
        }
        for _ in 0..2 {
            scope.queue_with(move |scope| spread(scope, depth - 1, leaves)).unwrap();
        }
    }
    on_all_rungs(|queue| {
        let leaves = AtomicUsize::new(0);
        queue.scope(|scope| spread(scope, 8, &leaves));
        assert_eq!(leaves.into_inner(), 256);
    });
}

#[test]
fn a_handle_may_be_joined_by_another_item() {
    on_all_rungs(|queue| {
        for _ in 0..50 {
            let seen = Arc::new(Mutex::new(Vec::new()));
            queue.scope(|scope| {
                let first = scope.submit(|| 20).unwrap();
                let seen = Arc::clone(&seen);
                scope.queue(move || seen.lock().unwrap().push(first.join().unwrap() + 1)).unwrap();
            });
            assert_eq!(*seen.lock().unwrap(), [21]);
        }
    });
}

#[test]
fn each_pod_is_seen_to_once_by_its_own_workers() {
    within(NEVER, || {
        let topology = Topology::from_synthetic("package:1 l3:2 core:2 pu:1").unwrap();
        let runtime =
            Runtime::<Host>::builder(topology).laid_over(affinity().unwrap()).build().unwrap();
        let queue = runtime.workqueue().scope(Scope::Cache).build().unwrap();
        let here = |pod| {
            assert_eq!(current::<Host>().expect("a worker").pod(), pod);
            pod.0
        };
        for _ in 0..100 {
            assert_eq!(queue.on_each_pod(here).unwrap(), [0, 1]);
            // Also inside an item: the caller handles its own pod.
            let own = queue.clone();
            let inside = queue.submit(move || own.on_each_pod(here).unwrap());
            assert_eq!(inside.unwrap().join().unwrap(), [0, 1]);
        }
        let ordered = runtime.workqueue().ordered().build().unwrap();
        let own = ordered.clone();
        let reason = move || own.on_each_pod(|_| ()).unwrap_err().reason();
        let inside = ordered.submit(reason).unwrap();
        assert_eq!(inside.join().unwrap(), RefusedReason::WouldDeadlock);
        assert!(!ordered.on_each_pod(|_| ()).unwrap().is_empty());
        queue.shutdown(NEVER).unwrap();
        assert_eq!(queue.on_each_pod(|_| ()).unwrap_err().reason(), RefusedReason::ShutDown);
    });
}

#[test]
fn a_future_waits_for_a_scope_without_blocking() {
    within(NEVER, || {
        let topology = Topology::from_synthetic("package:1 l3:1 core:2 pu:1").unwrap();
        let runtime =
            Runtime::<Host>::builder(topology).laid_over(affinity().unwrap()).build().unwrap();
        let queue = runtime.workqueue().build().unwrap();
        let words = vec!["to".to_owned(), "be".to_owned()];
        let scope = queue.scope_async(words, |scope, words: &mut Vec<String>| {
            for word in words.iter_mut() {
                scope.queue(|| word.make_ascii_uppercase()).unwrap();
            }
            7
        });
        let (words, seven) = futures_lite::future::block_on(scope.unwrap());
        assert_eq!((words.join(" ").as_str(), seven), ("TO BE", 7));

        let thrown =
            queue.scope_async((), |scope, _: &mut ()| scope.queue(|| panic!("told")).unwrap());
        let task = std::panic::AssertUnwindSafe(thrown.unwrap());
        let outcome = std::panic::catch_unwind(|| futures_lite::future::block_on(task.0));
        assert_eq!(*outcome.map(|_| ()).unwrap_err().downcast::<&str>().unwrap(), "told");

        queue.shutdown(NEVER).unwrap();
        let refused = queue.scope_async(3, |_, three: &mut i32| *three).unwrap_err();
        assert_eq!(refused.into_item().0, 3);
    });
}

/// The results come from the pods at the end, each once, and no error names CPUs that the caller did not name.
#[test]
fn each_pod_is_called_in_its_own_place_while_pods_change() {
    let topology = Topology::from_synthetic("package:1 l3:2 core:2 pu:1").unwrap();
    let runtime =
        Runtime::<Host>::builder(topology).laid_over(affinity().unwrap()).build().unwrap();
    let queue = runtime.workqueue().scope(Scope::Cpu).build().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let _ends = Ends(&is_over);
        threads.spawn(|| {
            let scopes = [Scope::Cache, Scope::Cpu, Scope::System];
            for turn in 0.. {
                if is_over.load(SeqCst) {
                    break;
                }
                match turn % 2 {
                    0 => drop(runtime.set_usable(["0-1", "0-3"][turn / 2 % 2].parse().unwrap())),
                    _ => drop(queue.change().scope(scopes[turn / 2 % 3]).apply()),
                }
            }
        });
        for _ in 0..3_000 {
            let pools = queue.on_each_pod(|pod| {
                let here = current::<Host>().expect("a worker");
                assert_eq!(here.pod(), pod);
                here.pool()
            });
            let pools = pools.unwrap();
            let different: std::collections::BTreeSet<_> = pools.iter().collect();
            assert_eq!(different.len(), pools.len(), "{pools:?}");
        }
    });
}

/// Records its end, with or without a panic.
struct Ends<'over>(&'over AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
