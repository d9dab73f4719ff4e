//! Waits inside items: each ends, or is an error. The table of all waits is in `docs/workqueue/waiting.md`.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use coreshard_platform::{Host, affinity};
use coreshard_topology::{Scope, Topology};
use coreshard_workqueue::{
    Builder, Intake, JoinHandle, RefusedReason, Runtime, Work, Workqueue, WouldDeadlock, blocking,
    join,
};
use testing::{NEVER, within};

/// The most workers of a pool in these tests: with this few, waits that do not help make no progress.
const FEW: usize = 4;

fn machine(synthetic: &str, workers_per_pool: usize) -> Runtime<Host> {
    let topology = Topology::from_synthetic(synthetic).unwrap();
    let builder = Runtime::builder(topology).laid_over(affinity().unwrap());
    builder.max_workers_per_pool(workers_per_pool).build().unwrap()
}

/// One pool of two CPUs.
fn small(workers_per_pool: usize) -> Runtime<Host> {
    machine("package:1 l3:1 core:2 pu:1", workers_per_pool)
}

/// With both intakes, with few workers and with the most that a pool may have.
fn on_all_rungs(test: impl Fn(&dyn Fn() -> Builder<'static, Host>) + Send + Sync + 'static) {
    within(NEVER, move || {
        for intake in Intake::ALL {
            for workers in [1, FEW, 512] {
                let runtime: &'static _ = Box::leak(Box::new(small(workers)));
                test(&|| runtime.workqueue().scope(Scope::System).intake(intake));
            }
        }
    });
}

fn nest(queue: &Workqueue<Host>, depth: u32, width: u32, leaves: &AtomicUsize) {
    if depth == 0 {
        leaves.fetch_add(1, SeqCst);
        return;
    }
    queue.scope(|scope| {
        for _ in 0..width {
            scope.queue(|| nest(queue, depth - 1, width, leaves)).unwrap();
        }
    });
}

#[test]
fn scopes_nest_twelve_deep() {
    on_all_rungs(|builder| {
        let queue = builder().build().unwrap();
        let leaves = AtomicUsize::new(0);
        for _ in 0..20 {
            nest(&queue, 12, 1, &leaves);
        }
        nest(&queue, 12, 2, &leaves);
        nest(&queue, 6, 4, &leaves);
        assert_eq!(leaves.load(SeqCst), 20 + 4_096 + 4_096);
    });
}

#[test]
fn scopes_nest_six_hundred_deep() {
    on_all_rungs(|builder| {
        let queue = builder().build().unwrap();
        let leaves = AtomicUsize::new(0);
        nest(&queue, 600, 1, &leaves);
        assert_eq!(leaves.load(SeqCst), 1);
    });
}

/// The number of items below this one. Each waits for the next.
fn chain(queue: &Workqueue<Host>, length: usize) -> usize {
    if length == 0 {
        return 0;
    }
    let next = queue.clone();
    queue.submit(move || chain(&next, length - 1)).unwrap().join().unwrap() + 1
}

#[test]
fn a_chain_of_six_hundred_items_that_wait_ends() {
    on_all_rungs(|builder| {
        assert_eq!(chain(&builder().build().unwrap(), 600), 600);
        assert_eq!(chain(&builder().max_active(1).build().unwrap(), 600), 600);
        assert_eq!(chain(&builder().max_active_by_node(2).build().unwrap(), 600), 600);
    });
}

#[test]
fn a_chain_of_installs_between_two_queues_ends() {
    fn ping(one: &Workqueue<Host>, other: &Workqueue<Host>, length: usize) -> usize {
        if length == 0 { 0 } else { one.install(|| ping(other, one, length - 1)).unwrap() + 1 }
    }
    on_all_rungs(|builder| {
        let (one, other) = (builder().build().unwrap(), builder().build().unwrap());
        assert_eq!(ping(&one, &other, 600), 600);
    });
}

/// Items that another thread has queued, and whose handles an item waits for.
#[test]
fn an_item_may_wait_for_items_behind_it() {
    on_all_rungs(|builder| {
        let queue = builder().build().unwrap();
        let (give, given) = mpsc::channel();
        let first = queue.submit(move || {
            let handles: Vec<_> = blocking::<Host, _>(|| given.recv().unwrap());
            handles
                .into_iter()
                .map(|handle: JoinHandle<usize, Host>| handle.join().unwrap())
                .sum::<usize>()
        });
        let handles: Vec<_> = (0..1_000).map(|at| queue.submit(move || at).unwrap()).collect();
        give.send(handles).unwrap();
        assert_eq!(first.unwrap().join().unwrap(), 499_500);
    });
}

/// Items that are queued in a scope while its caller sleeps are also run.
#[test]
fn a_scope_whose_items_bring_more_ends() {
    on_all_rungs(|builder| {
        let queue = builder().build().unwrap();
        for round in 0..50 {
            let ran = AtomicUsize::new(0);
            queue
                .install(|| {
                    queue.scope(|scope| {
                        for _ in 0..4 {
                            let (ran, queue) = (&ran, &queue);
                            scope
                                .queue(move || {
                                    for _ in 0..8 {
                                        let more = move || nest(queue, 2, 2, ran);
                                        scope.queue(more).unwrap();
                                    }
                                    if round % 2 == 0 {
                                        thread::yield_now();
                                    }
                                })
                                .unwrap();
                        }
                    });
                })
                .unwrap();
            assert_eq!(ran.load(SeqCst), 4 * 8 * 4);
        }
    });
}

/// An item that waits lends its turn under the queue's limit to the item that it waits for.
#[test]
fn a_queue_full_of_items_that_wait_for_further_ones_goes_on() {
    on_all_rungs(|builder| {
        for limit in [1, 2, 3] {
            let queue = builder().max_active(limit).build().unwrap();
            let inside = Arc::new(AtomicUsize::new(0));
            let leaves = Arc::new(AtomicUsize::new(0));
            let handles: Vec<_> = (0..20)
                .map(|_| {
                    let (queue, leaves) = (queue.clone(), Arc::clone(&leaves));
                    let inside = Arc::clone(&inside);
                    let outer = queue.clone();
                    let submitted = outer.submit(move || {
                        let leaf = move || {
                            let now = inside.fetch_add(1, SeqCst) + 1;
                            thread::yield_now();
                            inside.fetch_sub(1, SeqCst);
                            now
                        };
                        nest(&queue, 2, 2, &leaves);
                        queue.submit(leaf).unwrap().join().unwrap()
                    });
                    submitted.unwrap()
                })
                .collect();
            for handle in handles {
                assert!(handle.join().unwrap() <= limit, "the limit holds for running items");
            }
            assert_eq!(leaves.load(SeqCst), 20 * 4);
            queue.drain().unwrap();
            let stats = queue.stats();
            assert_eq!((stats.active, stats.waiting, stats.in_flight()), (0, 0, 0));
        }
    });
}

#[test]
fn a_scope_inside_an_item_of_its_own_ordered_queue_is_refused() {
    on_all_rungs(|builder| {
        let queue = builder().ordered().build().unwrap();
        let inner = queue.clone();
        let ran = queue.submit(move || {
            let mut here = Vec::new();
            inner.scope(|scope| {
                let refused = scope.queue(|| here.push("called")).unwrap_err();
                assert_eq!(refused.reason(), RefusedReason::WouldDeadlock);
                assert!(refused.to_string().contains("one at a time"), "{refused}");
            });
            here.push("not called");
            here.join("")
        });
        assert_eq!(ran.unwrap().join().unwrap(), "not called");
        // From outside the queue, it is an ordinary scope.
        let sum = AtomicUsize::new(0);
        queue.scope(|scope| {
            for at in 0..10 {
                let sum = &sum;
                scope
                    .queue(move || {
                        sum.fetch_add(at, SeqCst);
                    })
                    .unwrap();
            }
        });
        assert_eq!(sum.load(SeqCst), 45);
        queue.drain().unwrap();
        assert_eq!(queue.stats().in_flight(), 0);
    });
}

#[test]
fn a_wait_for_an_item_behind_the_caller_in_an_ordered_queue_is_an_error() {
    on_all_rungs(|builder| {
        let queue = builder().name("in order").ordered().build().unwrap();
        let inner = queue.clone();
        let ran = Arc::new(AtomicUsize::new(0));
        let runs = Arc::clone(&ran);
        let outer = queue.submit(move || {
            let behind = inner.submit(move || runs.fetch_add(1, SeqCst)).unwrap();
            let error = behind.join().unwrap_err();
            let text = error.to_string();
            let deadlock = *error.into_payload().downcast::<WouldDeadlock>().unwrap();
            assert!(!deadlock.is_forked());
            (text, deadlock.to_string())
        });
        for text in <[String; 2]>::from(outer.unwrap().join().unwrap()) {
            assert!(text.contains("\"in order\"") && text.contains("waits for"), "{text}");
        }
        queue.drain().unwrap();
        assert_eq!(ran.load(SeqCst), 1, "it still runs, when its turn comes");
    });
}

/// The half of an item that another worker runs has no turn to lend.
#[test]
fn a_forked_half_that_waits_behind_its_own_item_is_an_error() {
    on_all_rungs(|builder| {
        let queue = builder().max_active(1).build().unwrap();
        let inner = queue.clone();
        let outer = queue.submit(move || {
            let wait = || inner.submit(|| 1).unwrap().join().map_err(|panic| panic.to_string());
            join::<Host, _, _>(wait, wait)
        });
        let (one, other) = outer.unwrap().join().unwrap();
        for outcome in [one, other] {
            assert!(outcome.as_ref().is_ok_and(|one| *one == 1) || outcome.is_err(), "{outcome:?}");
        }
        queue.drain().unwrap();
        assert_eq!(queue.stats().run, 3);
    });
}

/// An item that its waiter runs still counts as an item of its queue. Both halves wait for an item of the queue that they run
/// in, which has few turns.
#[test]
fn forked_halves_that_wait_for_items_of_their_own_queue_share_its_turns() {
    fn by_scope(queue: &Workqueue<Host>, depth: u32) -> u32 {
        if depth == 0 {
            return 1;
        }
        let mut second = 0;
        let scoped = || {
            queue.scope(|scope| scope.queue(|| second = by_scope(queue, depth - 1)).unwrap());
        };
        let (first, ()) = join::<Host, _, _>(|| by_scope(queue, depth - 1), scoped);
        first + second
    }
    fn by_handle(queue: &Workqueue<Host>, depth: u32) -> u32 {
        if depth == 0 {
            return 1;
        }
        let submitted = || {
            let own = queue.clone();
            queue.submit(move || by_handle(&own, depth - 1)).unwrap().join().unwrap()
        };
        let (first, second) = join::<Host, _, _>(|| by_handle(queue, depth - 1), submitted);
        first + second
    }
    on_all_rungs(|builder| {
        for limit in [2, 3] {
            let queue = builder().max_active(limit).build().unwrap();
            for _ in 0..50 {
                assert_eq!(queue.install(|| by_scope(&queue, 4)).unwrap(), 16);
                assert_eq!(queue.install(|| by_handle(&queue, 4)).unwrap(), 16);
            }
        }
    });
}

#[test]
fn an_item_that_its_waiter_runs_counts_until_it_is_over() {
    on_all_rungs(|builder| {
        let (outer, queue) = (builder().build().unwrap(), builder().build().unwrap());
        for _ in 0..50 {
            let over = Arc::new(AtomicUsize::new(0));
            let begun = Arc::new(Barrier::new(2));
            let inside = queue.clone();
            let (tells, meets) = (Arc::clone(&over), Arc::clone(&begun));
            let handle = outer.submit(move || {
                let queue = inside.clone();
                let item = inside.submit(move || {
                    let error = queue.flush().unwrap_err().to_string();
                    assert!(error.contains("inside one of its items"), "{error}");
                    assert!(queue.drain().is_err());
                    blocking::<Host, _>(|| meets.wait());
                    thread::sleep(Duration::from_millis(1));
                    tells.fetch_add(1, SeqCst);
                });
                item.unwrap().join().unwrap();
            });
            begun.wait();
            queue.drain().unwrap();
            assert_eq!(over.load(SeqCst), 1, "a drained queue has no running item");
            handle.unwrap().join().unwrap();
            let stats = queue.stats();
            assert_eq!(stats.queued, stats.run);
        }
        assert_eq!(queue.stats().run, 50, "each is counted once");
    });
}

/// The panic of an item that its waiter runs is reported as usual.
#[test]
fn a_panic_of_an_item_that_its_waiter_runs_arrives() {
    on_all_rungs(|builder| {
        let handled = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&handled);
        let queue = builder()
            .panic_handler(move |payload| {
                log.lock().unwrap().push(*payload.downcast::<&str>().unwrap());
            })
            .build()
            .unwrap();
        let inner = queue.clone();
        let message = queue.submit(move || {
            let throw = || -> () { std::panic::resume_unwind(Box::new("thrown")) };
            let error = inner.submit(throw).unwrap().join().unwrap_err();
            assert_eq!(error.message(), "thrown");
            inner.scope(|scope| scope.queue(throw).unwrap());
        });
        assert_eq!(message.unwrap().join().unwrap_err().message(), "thrown");
        assert!(handled.lock().unwrap().is_empty());
    });
}

/// Everything at once, with few workers: each item runs once, and none hangs.
#[test]
fn items_that_wait_for_one_another_on_all_queues_run_once() {
    within(NEVER, || {
        let runtime = machine("package:1 l3:2 core:2 pu:1", FEW);
        let build = || runtime.workqueue().scope(Scope::Cache);
        let queues: Arc<[Workqueue<Host>]> = Arc::new([
            build().build().unwrap(),
            build().build().unwrap(),
            build().intake(Intake::Locked).build().unwrap(),
        ]);
        let ran = Arc::new(AtomicUsize::new(0));
        fn grow(
            queues: &Arc<[Workqueue<Host>]>,
            which: usize,
            depth: usize,
            ran: &Arc<AtomicUsize>,
        ) {
            ran.fetch_add(1, SeqCst);
            if depth == 0 {
                return;
            }
            let queue = &queues[which];
            let mine = (Arc::clone(queues), Arc::clone(ran));
            let one = queue.submit(move || grow(&mine.0, which, depth - 1, &mine.1)).unwrap();
            queue.scope(|scope| {
                scope.queue(|| grow(queues, which, depth - 1, ran)).unwrap();
            });
            // The first two share their pools.
            if which < 2 {
                let sibling = 1 - which;
                queues[sibling].install(|| grow(queues, sibling, depth - 1, ran)).unwrap();
            }
            one.join().unwrap();
        }
        for which in 0..3 {
            ran.store(0, SeqCst);
            let mine = (Arc::clone(&queues), Arc::clone(&ran));
            queues[which].submit(move || grow(&mine.0, which, 6, &mine.1)).unwrap().join().unwrap();
            let children: usize = if which < 2 { 3 } else { 2 };
            let expected: usize = (0..=6).map(|level| children.pow(level)).sum();
            assert_eq!(ran.load(SeqCst), expected);
        }
        for queue in &*queues {
            queue.drain().unwrap();
            assert_eq!(queue.stats().in_flight(), 0);
        }
    });
}

/// Two items run in different pools of one worker each. Each waits for an item in the other's pool.
#[test]
fn items_of_a_queue_that_moves_wait_for_one_another_without_further_workers() {
    within(NEVER, || {
        let runtime = small(1);
        let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
        let leaves = Arc::new(AtomicUsize::new(0));
        let (mut goes, mut begun) = (Vec::new(), Vec::new());
        for nice in [Some(1), None] {
            let ((go, wait), (say, hear)) = (mpsc::channel::<()>(), mpsc::channel());
            let (inner, count) = (queue.clone(), Arc::clone(&leaves));
            let item = move || {
                say.send(()).unwrap();
                // Declared or not: the pool has no other worker.
                wait.recv().unwrap();
                inner.scope(|scope| {
                    let leaf = || {
                        count.fetch_add(1, SeqCst);
                    };
                    scope.queue(leaf).unwrap();
                    say.send(()).unwrap();
                    wait.recv().unwrap();
                });
                let leaf = inner.submit(move || count.fetch_add(1, SeqCst)).unwrap();
                leaf.join().unwrap();
                say.send(()).unwrap();
            };
            queue.queue(item).unwrap();
            hear.recv().unwrap();
            goes.push(go);
            begun.push(hear);
            queue.change().nice(nice).apply().unwrap();
        }
        // The queue is in the first one's pools: the second's item goes there. Then the first's item goes
        // to the second's pools.
        goes[1].send(()).unwrap();
        begun[1].recv().unwrap();
        queue.change().nice(Some(1)).apply().unwrap();
        goes[0].send(()).unwrap();
        begun[0].recv().unwrap();
        goes.iter().for_each(|go| go.send(()).unwrap());
        begun.iter().for_each(|over| over.recv().unwrap());
        queue.drain().unwrap();
        assert_eq!(leaves.load(SeqCst), 4);
    });
}

/// A scope and a join wait for items that were queued while their queue was frozen. No other worker exists when it is thawed.
#[test]
fn what_was_queued_while_its_queue_was_frozen_is_helped_with_after_the_thaw() {
    within(NEVER, || {
        let runtime = small(1);
        for in_scope in [false, true] {
            let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
            let (go, wait) = mpsc::channel::<()>();
            let (say, hear) = mpsc::channel();
            let inner = queue.clone();
            let item = move || {
                say.send(0).unwrap();
                wait.recv().unwrap();
                let leaf = || say.send(2).unwrap();
                if in_scope {
                    inner.scope(|scope| {
                        scope.queue(leaf).unwrap();
                        say.send(1).unwrap();
                    });
                } else {
                    let told = say.clone();
                    let handle = inner.submit(move || told.send(2).unwrap()).unwrap();
                    say.send(1).unwrap();
                    handle.join().unwrap();
                }
                say.send(3).unwrap();
            };
            queue.queue(item).unwrap();
            assert_eq!(hear.recv(), Ok(0));
            queue.freeze().unwrap();
            go.send(()).unwrap();
            assert_eq!(hear.recv(), Ok(1));
            let early = hear.recv_timeout(Duration::from_millis(30));
            assert_eq!(early, Err(mpsc::RecvTimeoutError::Timeout), "begun while it was frozen");
            queue.thaw().unwrap();
            assert_eq!((hear.recv(), hear.recv()), (Ok(2), Ok(3)));
        }
    });
}

/// A reusable item queues itself on another queue: its next run there waits for this one, so this one can
/// wait neither for all items there, nor for a later one.
#[test]
fn a_wait_for_a_queue_that_waits_for_the_callers_own_item_is_an_error() {
    within(NEVER, || {
        let runtime = small(FEW);
        let here = runtime.workqueue().scope(Scope::System).build().unwrap();
        for ordered in [false, true] {
            let builder = runtime.workqueue().scope(Scope::System);
            let there = if ordered { builder.ordered() } else { builder }.build().unwrap();
            let (say, hear) = mpsc::channel();
            let mut first = Some(there);
            let work = Work::new(move |work: &Work<Host>| {
                // The second run is the one that is waited for.
                let Some(there) = first.take() else { return say.send(Ok(())).unwrap() };
                assert!(work.queue(&there).unwrap());
                assert!(there.flush().is_err() && there.drain().is_err());
                if ordered {
                    let joined = there.submit(|| ()).unwrap().join().unwrap_err();
                    assert!(joined.into_payload().is::<WouldDeadlock>());
                    let refused = there.install(|| ()).unwrap_err();
                    assert_eq!(refused.reason(), RefusedReason::WouldDeadlock);
                    there.scope(|scope| assert!(scope.queue(|| ()).is_err()));
                } else {
                    there.submit(|| ()).unwrap().join().unwrap();
                }
                // Another thread waits for its end.
                drop(there);
                say.send(Err(())).unwrap();
            });
            assert!(work.queue(&here).unwrap());
            assert_eq!((hear.recv(), hear.recv()), (Ok(Err(())), Ok(Ok(()))));
            work.flush().unwrap();
        }
    });
}

/// An item that has its own handle.
#[test]
fn a_wait_for_the_callers_own_item_is_an_error() {
    within(NEVER, || {
        let runtime = machine("package:1 l3:1 core:2 pu:1", FEW);
        let queue = runtime.workqueue().build().unwrap();
        let (give, given) = mpsc::channel::<JoinHandle<bool, Host>>();
        let own = queue.submit(move || {
            let own = given.recv().unwrap();
            let Ok(told) = own.join_timeout(NEVER) else { return false };
            told.unwrap_err().into_payload().is::<WouldDeadlock>()
        });
        give.send(own.unwrap()).unwrap();
        let (give, given) = mpsc::channel::<JoinHandle<(), Host>>();
        let (tell, told) = mpsc::channel();
        let own = queue.submit(move || {
            let error = given.recv().unwrap().join().unwrap_err();
            tell.send(error.into_payload().is::<WouldDeadlock>()).unwrap();
        });
        give.send(own.unwrap()).unwrap();
        assert!(told.recv_timeout(NEVER).unwrap());
        queue.drain().unwrap();
    });
}

/// As above, in code that the item waits for: a half of it, an item of its scope, a closure that it has installed on another
/// queue, or an item that it runs while it waits for that.
#[test]
fn a_wait_for_an_item_that_waits_for_the_caller_is_an_error() {
    within(NEVER, || {
        let runtime = machine("package:1 l3:2 core:2 pu:1", FEW);
        let queue = runtime.workqueue().name("own").build().unwrap();
        let other = runtime.workqueue().name("other").scope(Scope::System).build().unwrap();
        let pause = || std::thread::sleep(Duration::from_millis(2));
        for turn in 0..25 {
            let (give, given) = mpsc::channel::<JoinHandle<(), Host>>();
            let (tell, told) = mpsc::channel();
            let (queue_here, other) = (queue.clone(), other.clone());
            let item = queue.submit(move || {
                let given = Mutex::new(given);
                let asks = || {
                    let own = given.lock().unwrap().recv().unwrap();
                    let error = own.join().unwrap_err().into_payload();
                    tell.send(error.downcast::<WouldDeadlock>().unwrap().to_string()).unwrap();
                };
                match turn % 5 {
                    0 => _ = join::<Host, _, _>(pause, asks),
                    1 => _ = join::<Host, _, _>(asks, pause),
                    2 => queue_here.scope(|scope| scope.queue(asks).unwrap()),
                    3 => other.install(asks).unwrap(),
                    _ => {
                        let outer = || join::<Host, _, _>(pause, asks);
                        join::<Host, _, _>(pause, outer);
                    }
                }
            });
            give.send(item.unwrap()).unwrap();
            let error = told.recv_timeout(NEVER).unwrap();
            assert!(error.starts_with("an item of workqueue \"own\" waits for itself"), "{error}");
        }
        queue.drain().unwrap();
        // The outer item runs the inner one while it waits for it, and the inner one waits for the outer.
        let (give, given) = mpsc::channel::<JoinHandle<(), Host>>();
        let (tell, told) = mpsc::channel();
        let frozen = runtime.workqueue().name("one").max_active(1).build().unwrap();
        let queue_here = frozen.clone();
        let outer = frozen.submit(move || {
            let inner = queue_here.submit(move || {
                let error = given.recv().unwrap().join().unwrap_err().into_payload();
                tell.send(error.is::<WouldDeadlock>()).unwrap();
            });
            // Without this, it would not begin before this one has finished.
            let _ = inner.unwrap().join();
        });
        give.send(outer.unwrap()).unwrap();
        drop(frozen);
        assert!(told.recv_timeout(NEVER).unwrap());
    });
}

/// Fails if a waiter that looks for an item checks only queues without a limit for a freeze.
#[test]
fn a_freeze_holds_for_items_of_a_limited_queue_that_their_waiters_could_run() {
    within(NEVER, || {
        for limit in [2, 4] {
            let runtime = small(FEW);
            let queue = runtime.workqueue().max_active(limit).build().unwrap();
            let here = queue.clone();
            let (begins, begun) = mpsc::channel();
            let (waits, is_waiting) = mpsc::channel();
            let outer = queue
                .submit(move || {
                    here.freeze().unwrap();
                    let inner = here.submit(move || begins.send(()).unwrap()).unwrap();
                    waits.send(()).unwrap();
                    inner.join().unwrap();
                })
                .unwrap();
            is_waiting.recv().unwrap();
            let early = begun.recv_timeout(Duration::from_millis(50));
            assert_eq!(early, Err(mpsc::RecvTimeoutError::Timeout), "it began while frozen");
            queue.thaw().unwrap();
            outer.join().unwrap();
            assert_eq!(begun.recv(), Ok(()));
        }
    });
}

/// Fails if a waiter runs an item that a worker would set aside. The pool has no other worker.
#[test]
fn what_a_queue_that_is_shut_down_at_once_has_not_begun_does_not_begin_in_a_join() {
    within(NEVER, || {
        let runtime = small(1);
        let queue = runtime.workqueue().build().unwrap();
        let here = queue.clone();
        let (submits, submitted) = mpsc::channel();
        let (stops, stopped) = mpsc::channel();
        let outer = queue
            .submit(move || {
                let inner = here.submit(|| panic!("it has begun")).unwrap();
                submits.send(()).unwrap();
                stopped.recv().unwrap();
                inner.join().unwrap_err().is_dropped()
            })
            .unwrap();
        submitted.recv().unwrap();
        drop(queue.shutdown_now(Duration::ZERO));
        stops.send(()).unwrap();
        assert!(outer.join().unwrap(), "the join reports that it was dropped");
    });
}
