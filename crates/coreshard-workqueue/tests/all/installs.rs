//! `install` and the loops that use it: a plain call inside an item of the same queue, and an item of that
//! queue anywhere else, with all guarantees of an item.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use coreshard_platform::{Host, affinity};
use coreshard_topology::{Scope, Topology};
use coreshard_workqueue::{Builder, Intake, RefusedReason, Runtime, Workqueue, blocking, join};
use testing::{NEVER, within};

/// Two queues that share their pool.
fn siblings(test: impl Fn(&Workqueue<Host>, Builder<'_, Host>) + Send + 'static) {
    within(NEVER, move || {
        for intake in Intake::ALL {
            let topology = Topology::from_synthetic("package:1 l3:1 core:4 pu:1").unwrap();
            let builder = Runtime::builder(topology).laid_over(affinity().unwrap());
            let runtime = builder.build().unwrap();
            let builder = || runtime.workqueue().scope(Scope::System).intake(intake);
            test(&builder().name("caller").build().unwrap(), builder().name("callee"));
        }
    });
}

/// Installs on `callee` in each possible way, from an item of `caller`.
fn in_each_way(
    caller: &Workqueue<Host>,
    callee: &Workqueue<Host>,
    check: impl Fn() + Send + Sync + 'static,
) {
    let callee = callee.clone();
    let calls = move || {
        callee.install(&check).unwrap();
        callee.for_each_mut(&mut [1, 2, 3], |_| check()).unwrap();
        callee.for_each_range(0..3, |_| check()).unwrap();
    };
    caller.submit(calls).unwrap().join().unwrap();
}

#[test]
fn beside_an_item_of_an_ordered_queue_nothing_runs() {
    siblings(|caller, builder| {
        let callee = builder.ordered().build().unwrap();
        let inside = Arc::new(AtomicBool::new(false));
        let mine = Arc::clone(&inside);
        let (begun, begins) = mpsc::channel();
        callee
            .queue(move || {
                mine.store(true, SeqCst);
                begun.send(()).unwrap();
                blocking::<Host, _>(|| thread::sleep(Duration::from_millis(20)));
                mine.store(false, SeqCst);
            })
            .unwrap();
        begins.recv().unwrap();
        in_each_way(caller, &callee, move || assert!(!inside.load(SeqCst), "one at a time"));
    });
}

#[test]
fn a_limit_holds() {
    siblings(|caller, builder| {
        let callee = builder.max_active(1).build().unwrap();
        let inside = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..8)
            .map(|_| {
                let (callee, inside) = (callee.clone(), Arc::clone(&inside));
                let item = move || {
                    let work = || {
                        assert_eq!(inside.fetch_add(1, SeqCst), 0, "one at a time");
                        thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                    };
                    (0..20).for_each(|_| callee.install(work).unwrap());
                };
                caller.submit(item).unwrap()
            })
            .collect();
        handles.into_iter().for_each(|handle| handle.join().unwrap());
        assert_eq!(callee.stats().queued, 160, "each was an item");
    });
}

#[test]
fn on_a_frozen_queue_nothing_begins() {
    siblings(|caller, builder| {
        let callee = builder.build().unwrap();
        callee.freeze().unwrap();
        let thawed = Arc::new(AtomicBool::new(false));
        let (seen, inner) = (Arc::clone(&thawed), callee.clone());
        let handle = caller.submit(move || inner.install(|| seen.load(SeqCst)).unwrap()).unwrap();
        thread::sleep(Duration::from_millis(10));
        thawed.store(true, SeqCst);
        callee.thaw().unwrap();
        assert!(handle.join().unwrap(), "it ran before the queue was thawed");
    });
}

#[test]
fn a_queue_that_is_shut_down_hands_it_back() {
    siblings(|caller, builder| {
        let callee = builder.build().unwrap();
        callee.shutdown(NEVER).unwrap();
        let call = move || {
            let refused = callee.install(|| 1).unwrap_err();
            assert_eq!(refused.reason(), RefusedReason::ShutDown);
            assert!(callee.for_each_mut(&mut [1], |_| ()).is_err());
            assert!(callee.for_each_range(0..9, |_| ()).is_err());
        };
        caller.submit(call).unwrap().join().unwrap();
    });
}

/// Inside an item of the same queue it is a call, regardless of the queue's limit and state.
#[test]
fn inside_an_item_of_the_queue_it_is_a_call() {
    siblings(|_, builder| {
        let queue = builder.ordered().build().unwrap();
        let inner = queue.clone();
        let item = move || {
            let here = thread::current().id();
            inner.freeze().unwrap();
            let there = inner.install(|| thread::current().id()).unwrap();
            let count = AtomicUsize::new(0);
            inner.for_each_mut(&mut [1, 2, 3], |_| _ = count.fetch_add(1, SeqCst)).unwrap();
            inner.thaw().unwrap();
            (here == there, count.into_inner())
        };
        assert_eq!(queue.submit(item).unwrap().join().unwrap(), (true, 3));
        assert_eq!(queue.stats().queued, 1);
    });
}

/// An item in another queue's pools that runs as a part of an item of this queue is not on a worker of
/// this queue. So its install becomes an item there, or an error if that could never end.
#[test]
fn from_elsewhere_inside_an_item_of_the_queue_it_is_an_item_or_an_error() {
    siblings(|elsewhere, _| {
        let topology = Topology::from_synthetic("package:1 l3:1 core:4 pu:1").unwrap();
        let builder = Runtime::<Host>::builder(topology).laid_over(affinity().unwrap());
        let runtime = builder.build().unwrap();
        for ordered in [false, true] {
            let builder = runtime.workqueue().scope(Scope::System);
            let queue = if ordered { builder.ordered() } else { builder }.build().unwrap();
            let (inner, elsewhere) = (queue.clone(), elsewhere.clone());
            let item = move || {
                let call = || {
                    let there = thread::current().id();
                    inner.install(|| thread::current().id() == there).map_err(|it| it.reason())
                };
                elsewhere.install(call).map_err(|it| it.reason()).unwrap()
            };
            let outcome = queue.submit(item).unwrap().join().unwrap();
            if ordered {
                assert_eq!(outcome, Err(RefusedReason::WouldDeadlock));
            } else {
                assert_eq!(outcome, Ok(false), "it went to a worker of the queue");
            }
        }
    });
}

/// A forked half that another worker of the same pools runs is a part of its item.
#[test]
fn in_a_forked_half_it_is_a_call() {
    siblings(|_, builder| {
        let queue = builder.max_active(1).build().unwrap();
        let inner = queue.clone();
        let item = move || {
            let half = || {
                let here = thread::current().id();
                inner.install(|| thread::current().id() == here).unwrap()
            };
            join::<Host, _, _>(half, half)
        };
        assert_eq!(queue.submit(item).unwrap().join().unwrap(), (true, true));
    });
}
