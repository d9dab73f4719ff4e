//! A queue with a capacity: producers that wait, are rejected or are let in, without losing an item.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use coreshard_platform::{Host, affinity};
use coreshard_topology::{CpuId, Scope, Topology};
use coreshard_workqueue::{Intake, RefusedReason, Runtime, Work, Workqueue, current};
use testing::{NEVER, wait_until, within};

fn machine(workers_per_pool: usize) -> Runtime<Host> {
    let topology = Topology::from_synthetic("package:1 l3:1 core:2 pu:1").unwrap();
    let builder = Runtime::builder(topology).laid_over(affinity().unwrap());
    builder.max_workers_per_pool(workers_per_pool).build().unwrap()
}

/// With both intakes, and with few workers and many.
fn on_all_rungs(capacity: usize, test: impl Fn(Workqueue<Host>) + Send + Sync + 'static) {
    within(NEVER, move || {
        for intake in Intake::ALL {
            for workers in [2, 512] {
                let runtime = machine(workers);
                let builder = runtime.workqueue().scope(Scope::System).intake(intake);
                test(builder.capacity(capacity).build().unwrap());
            }
        }
    });
}

fn waiting_producers(queue: &Workqueue<Host>, count: u64) {
    wait_until("producers wait", || queue.stats().waiting_producers == count);
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_full_queue_hands_items_back() {
    on_all_rungs(2, |queue| {
        queue.freeze().unwrap();
        let run = Arc::new(AtomicUsize::new(0));
        let item = |number: usize| {
            let run = Arc::clone(&run);
            move || _ = run.fetch_add(number, SeqCst)
        };
        queue.try_queue(item(1)).unwrap();
        let sum = queue.try_submit(|| 7).unwrap();
        let refused = queue.try_queue(item(100)).unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::Full);
        assert_eq!(queue.try_submit(|| 8).unwrap_err().reason(), RefusedReason::Full);
        assert_eq!(queue.try_spawn(async {}).unwrap_err().reason(), RefusedReason::Full);
        let stats = queue.stats();
        assert_eq!((stats.capacity, stats.capacity_used, stats.refused), (Some(2), 2, 3));
        refused.into_item()();
        queue.thaw().unwrap();
        assert_eq!(sum.join().unwrap(), 7);
        queue.drain().unwrap();
        assert_eq!(run.load(SeqCst), 101);
        assert_eq!(queue.stats().capacity_used, 0);
        queue.try_queue(item(1)).unwrap();
    });
}

#[test]
fn never_more_wait_than_may() {
    const CAPACITY: usize = 8;
    on_all_rungs(CAPACITY, |queue| {
        let begun = Arc::new(AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let begun = Arc::clone(&begun);
                        queue.queue(move || _ = begun.fetch_add(1, SeqCst)).unwrap();
                        assert!(queue.stats().capacity_used <= CAPACITY as u64);
                    }
                });
            }
        });
        queue.drain().unwrap();
        assert_eq!(begun.load(SeqCst), 8_000);
        assert_eq!((queue.stats().capacity_used, queue.stats().waiting_producers), (0, 0));
    });
}

#[test]
fn producers_are_let_in_in_the_order_in_which_they_came() {
    on_all_rungs(1, |queue| {
        queue.freeze().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let item = |number: u64| {
            let order = Arc::clone(&order);
            move || order.lock().unwrap().push(number)
        };
        queue.queue(item(0)).unwrap();
        let queue = &queue;
        thread::scope(|scope| {
            for number in 1..6 {
                let item = item(number);
                scope.spawn(move || queue.queue(item).unwrap());
                waiting_producers(queue, number);
            }
            assert_eq!(queue.try_queue(|| ()).unwrap_err().reason(), RefusedReason::Full);
            queue.change().max_active(1).apply().unwrap();
            queue.thaw().unwrap();
        });
        queue.drain().unwrap();
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
    });
}

#[test]
fn a_future_that_is_dropped_while_it_waits_queues_nothing() {
    on_all_rungs(1, |queue| {
        queue.freeze().unwrap();
        queue.queue(|| ()).unwrap();
        let run = Arc::new(AtomicUsize::new(0));
        let item = || {
            let run = Arc::clone(&run);
            move || _ = run.fetch_add(1, SeqCst)
        };
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let context = &mut Context::from_waker(&waker);
        let mut waits: Vec<_> = (0..3).map(|_| queue.queue_async(item())).collect();
        for future in &mut waits {
            assert!(Pin::new(&mut *future).poll(context).is_pending());
            assert!(Pin::new(future).poll(context).is_pending());
        }
        waiting_producers(&queue, 3);
        drop(waits.remove(0));
        let closure = waits.remove(0).into_item().expect("it was not queued");
        waiting_producers(&queue, 1);
        assert_eq!(Arc::strong_count(&run), 3, "one closure was dropped");
        queue.thaw().unwrap();
        wait_until("the last is woken", || wakes.0.load(SeqCst) == 1);
        // The permit is on its way to it: if the future is dropped now, the next waiter gets it.
        assert_eq!(queue.try_queue(item()).unwrap_err().reason(), RefusedReason::Full);
        drop(waits);
        queue.try_queue(closure).unwrap();
        queue.drain().unwrap();
        assert_eq!(run.load(SeqCst), 1);
        assert_eq!(queue.stats().capacity_used, 0);
    });
}

#[test]
fn futures_wait_for_room_and_are_woken() {
    on_all_rungs(2, |queue| {
        let reader = machine(512).workqueue().build().unwrap();
        let run = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (queue, run) = (queue.clone(), Arc::clone(&run));
                let task = reader.spawn(async move {
                    for _ in 0..200 {
                        let run = Arc::clone(&run);
                        queue.queue_async(move || _ = run.fetch_add(1, SeqCst)).await.unwrap();
                    }
                });
                task.unwrap()
            })
            .collect();
        for task in tasks {
            wait_until("a task finishes", || task.is_finished());
        }
        queue.drain().unwrap();
        assert_eq!(run.load(SeqCst), 1_600);
        assert_eq!((queue.stats().capacity_used, queue.stats().waiting_producers), (0, 0));
    });
}

#[test]
fn shutdown_and_drain_hand_items_back_to_those_that_wait() {
    on_all_rungs(1, |queue| {
        let (open, opened) = mpsc::channel::<()>();
        queue.freeze().unwrap();
        queue.queue(move || _ = opened.recv()).unwrap();
        let queue = &queue;
        let mut context = Context::from_waker(Waker::noop());
        thread::scope(|scope| {
            let mut future = pin!(queue.queue_async(|| ()));
            assert!(future.as_mut().poll(&mut context).is_pending());
            let waits = scope.spawn(|| queue.queue(|| ()).unwrap_err().reason());
            waiting_producers(queue, 2);
            let drains = scope.spawn(|| queue.drain());
            assert_eq!(waits.join().unwrap(), RefusedReason::Draining);
            let Poll::Ready(Err(refused)) = future.poll(&mut context) else { panic!("it waits") };
            assert_eq!(refused.reason(), RefusedReason::Draining);
            queue.thaw().unwrap();
            drop(open);
            drains.join().unwrap().unwrap();

            queue.freeze().unwrap();
            queue.queue(|| ()).unwrap();
            let waits = scope.spawn(|| queue.queue(|| ()).unwrap_err().reason());
            waiting_producers(queue, 1);
            assert!(queue.shutdown(Duration::from_millis(1)).is_err());
            assert_eq!(waits.join().unwrap(), RefusedReason::ShutDown);
            assert_eq!(queue.try_queue(|| ()).unwrap_err().reason(), RefusedReason::ShutDown);
        });
    });
}

/// An item that fills its own queue: it gives its place away, and gets an error if no worker would take that.
#[test]
fn a_producer_inside_an_item_of_the_queue_never_waits_for_itself() {
    within(NEVER, || {
        for (workers, ordered) in [(1, false), (2, false), (512, false), (512, true)] {
            let runtime = machine(workers);
            let builder = runtime.workqueue().scope(Scope::System).capacity(2);
            let builder = if ordered { builder.ordered() } else { builder };
            let queue = builder.build().unwrap();
            let run = Arc::new(AtomicUsize::new(0));
            let (own, count) = (queue.clone(), Arc::clone(&run));
            let producer = queue.submit(move || {
                let mut called = 0;
                for _ in 0..1_000 {
                    let count = Arc::clone(&count);
                    if let Err(refused) = own.queue(move || _ = count.fetch_add(1, SeqCst)) {
                        assert_eq!(refused.reason(), RefusedReason::WouldDeadlock);
                        refused.into_item()();
                        called += 1;
                    }
                }
                called
            });
            let called = producer.unwrap().join().unwrap();
            queue.drain().unwrap();
            assert_eq!(run.load(SeqCst), 1_000);
            if workers == 1 || ordered {
                assert_eq!(called, 998, "all but the two that had room");
            } else if workers == 2 {
                // If the other worker gets no CPU for some scans, the monitor presumes it blocked, and no third may be started.
                assert!(called < 998, "the other worker takes some");
            } else {
                assert_eq!(called, 0, "{workers} workers");
            }
        }
    });
}

/// As many items as workers, all waiting for room in their queue: the last one gets an error.
#[test]
fn producers_on_all_workers_of_a_pool_get_on() {
    within(NEVER, || {
        let queue = machine(4).workqueue().scope(Scope::System).capacity(1).build().unwrap();
        let run = Arc::new(AtomicUsize::new(0));
        for _ in 0..40 {
            let (own, run) = (queue.clone(), Arc::clone(&run));
            let producer = move || {
                for _ in 0..50 {
                    let item = Arc::clone(&run);
                    if let Err(refused) = own.queue(move || _ = item.fetch_add(1, SeqCst)) {
                        refused.into_item()();
                    }
                }
            };
            queue.queue(producer).unwrap();
        }
        queue.drain().unwrap();
        assert_eq!(run.load(SeqCst), 2_000);
    });
}

#[test]
fn what_cannot_wait_is_let_in_beyond_the_capacity() {
    on_all_rungs(1, |queue| {
        let (ask, asked) = mpsc::channel::<Waker>();
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&polls);
        let task = queue.spawn(std::future::poll_fn(move |context| {
            if counted.fetch_add(1, SeqCst) > 0 {
                return Poll::Ready(());
            }
            ask.send(context.waker().clone()).unwrap();
            Poll::Pending
        }));
        let (task, waker) = (task.unwrap(), asked.recv().unwrap());
        queue.freeze().unwrap();
        queue.queue(|| ()).unwrap();
        waker.wake();
        let run = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&run);
        let work = Work::new(move |_| _ = count.fetch_add(1, SeqCst));
        assert!(work.queue(&queue).unwrap());
        // The first poll may still be on its way back; then the next is queued at its end.
        wait_until("the next poll is queued", || queue.stats().capacity_used == 3);
        queue.thaw().unwrap();
        wait_until("the task finishes", || task.is_finished());
        work.flush().unwrap();
        queue.drain().unwrap();
        assert_eq!((run.load(SeqCst), queue.stats().capacity_used), (1, 0));
        queue.try_queue(|| ()).unwrap();
    });
}

#[test]
fn every_way_in_gives_its_room_back() {
    on_all_rungs(3, |queue| {
        let runs = AtomicUsize::new(0);
        for _ in 0..100 {
            queue.scope(|scope| {
                for _ in 0..10 {
                    scope.queue(|| _ = runs.fetch_add(1, SeqCst)).unwrap();
                }
            });
            assert_eq!(queue.install(|| 3).unwrap(), 3);
            let handles: Vec<_> = (0..10).map(|at| queue.submit(move || at).unwrap()).collect();
            let sum: i32 = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
            assert_eq!(sum, 45);
            queue.for_each_range(0..100, |_| ()).unwrap();
            queue.spawn(async {}).unwrap().detach();
            let nested = queue.clone();
            let outer = queue.submit(move || nested.submit(|| 5).unwrap().join().unwrap());
            assert_eq!(outer.unwrap().join().unwrap(), 5);
            // An item that panics has begun.
            assert!(queue.submit(|| panic!("wanted")).unwrap().join().is_err());
        }
        queue.drain().unwrap();
        assert_eq!(runs.load(SeqCst), 1_000);
        let stats = queue.stats();
        assert_eq!((stats.capacity_used, stats.waiting_producers, stats.capacity), (0, 0, Some(3)));
    });
}

#[test]
fn what_is_cancelled_gives_its_room_back_with_its_place() {
    on_all_rungs(1, |queue| {
        queue.freeze().unwrap();
        let handle = queue.submit(|| 7).unwrap();
        let queue = &queue;
        let (ran, runs) = mpsc::channel();
        thread::scope(|scope| {
            let waits = scope.spawn(move || queue.queue(move || ran.send(()).unwrap()));
            waiting_producers(queue, 1);
            let cancelled = handle.cancel().unwrap();
            assert_eq!(queue.try_queue(|| ()).unwrap_err().reason(), RefusedReason::Full);
            queue.thaw().unwrap();
            waits.join().unwrap().unwrap();
            runs.recv().unwrap();
            assert_eq!(cancelled.run(), 7);
        });
        queue.drain().unwrap();
        assert_eq!((queue.stats().capacity_used, queue.stats().waiting_producers), (0, 0));
        queue.try_queue(|| ()).unwrap();
    });
}

#[test]
fn a_shutdown_at_once_gives_room_back_and_hands_items_to_those_that_wait() {
    on_all_rungs(1, |queue| {
        queue.freeze().unwrap();
        queue.queue(|| ()).unwrap();
        let queue = &queue;
        let mut context = Context::from_waker(Waker::noop());
        let called = Arc::new(AtomicUsize::new(0));
        let item = |number: usize| {
            let called = Arc::clone(&called);
            move || _ = called.fetch_add(number, SeqCst)
        };
        thread::scope(|scope| {
            let mut future = pin!(queue.queue_async(item(1)));
            assert!(future.as_mut().poll(&mut context).is_pending());
            let waits = scope.spawn(|| queue.queue(item(10)).unwrap_err());
            waiting_producers(queue, 2);
            let waiting = queue.shutdown_now(NEVER);
            assert_eq!((waiting.len(), waiting.in_flight()), (1, 0));
            let refused = waits.join().unwrap();
            assert_eq!(refused.reason(), RefusedReason::ShutDown);
            refused.into_item()();
            let Poll::Ready(Err(refused)) = future.poll(&mut context) else { panic!("it waits") };
            assert_eq!(refused.reason(), RefusedReason::ShutDown);
            refused.into_item()();
            assert_eq!(called.load(SeqCst), 11);
        });
        assert_eq!((queue.stats().capacity_used, queue.stats().waiting_producers), (0, 0));
    });
}

/// As above, if a worker finds the item, since it has no turn to wait for.
#[test]
fn what_a_worker_sets_aside_gives_its_room_back() {
    on_all_rungs(1, |queue| {
        let (open, opened) = mpsc::channel::<()>();
        let opened = Arc::new(Mutex::new(opened));
        let begun = Arc::new(AtomicUsize::new(0));
        // On both CPUs; later items stay in the intake, unless a further worker has started by then.
        for _ in 0..2 {
            let (begun, opened) = (Arc::clone(&begun), Arc::clone(&opened));
            queue
                .queue(move || {
                    begun.fetch_add(1, SeqCst);
                    let _closed = opened.lock().unwrap().recv();
                })
                .unwrap();
        }
        let ran = Arc::new(AtomicUsize::new(0));
        let item = Arc::clone(&ran);
        queue.queue(move || _ = item.fetch_add(1, SeqCst)).unwrap();
        let early = queue.shutdown_now(Duration::ZERO);
        drop(open);
        let late = queue.shutdown_now(NEVER);
        assert_eq!(late.in_flight(), 0);
        let over = early.len() + late.len() + ran.load(SeqCst) + begun.load(SeqCst);
        assert_eq!(over, 3, "each is run or returned");
        assert_eq!((queue.stats().capacity_used, queue.stats().waiting_producers), (0, 0));
    });
}

#[test]
fn a_capacity_can_be_changed() {
    on_all_rungs(1, |queue| {
        queue.freeze().unwrap();
        queue.queue(|| ()).unwrap();
        let queue = &queue;
        thread::scope(|scope| {
            let waits = scope.spawn(|| queue.queue(|| ()));
            waiting_producers(queue, 1);
            queue.change().capacity(2).apply().unwrap();
            waits.join().unwrap().unwrap();
        });
        queue.change().capacity(1).apply().unwrap();
        assert_eq!((queue.stats().capacity, queue.stats().capacity_used), (Some(1), 2));
        queue.change().capacity(3).apply().unwrap();
        queue.try_queue(|| ()).unwrap();
        assert!(queue.try_queue(|| ()).is_err());
        assert!(queue.change().capacity(0).apply().is_err());
        // Its items stay counted, whatever pools they go to.
        queue.change().scope(Scope::Cpu).apply().unwrap();
        assert!(queue.try_queue(|| ()).is_err());
        queue.thaw().unwrap();
        queue.drain().unwrap();
        assert_eq!(queue.stats().capacity_used, 0);
    });
    let runtime = machine(4);
    assert!(runtime.workqueue().capacity(0).build().is_err());
    assert!(runtime.workqueue().build().unwrap().change().capacity(3).apply().is_err());
}

#[test]
fn room_is_kept_for_who_has_reserved_it() {
    on_all_rungs(2, |queue| {
        queue.freeze().unwrap();
        let one = queue.try_reserve().unwrap();
        let other = queue.try_reserve().unwrap();
        assert_eq!(queue.try_reserve().unwrap_err(), RefusedReason::Full);
        assert_eq!(queue.try_queue(|| ()).unwrap_err().reason(), RefusedReason::Full);
        assert_eq!((queue.stats().capacity_used, queue.stats().refused), (2, 2));
        let seven = one.submit(|| 7).unwrap();
        assert_eq!(queue.stats().capacity_used, 2, "the item holds it now");
        drop(other);
        let task = queue.try_reserve().unwrap().spawn(async { 8 }).unwrap();
        assert_eq!(queue.try_reserve().unwrap_err(), RefusedReason::Full);
        queue.thaw().unwrap();
        assert_eq!(seven.join().unwrap(), 7);
        assert_eq!(futures_lite::future::block_on(task), 8);
        let (sender, receiver) = mpsc::channel();
        queue.try_reserve().unwrap().queue(move || sender.send(9).unwrap()).unwrap();
        assert_eq!(receiver.recv().unwrap(), 9);
        wait_until("all items have begun", || queue.stats().capacity_used == 0);
    });
}

#[test]
fn what_is_reserved_goes_to_any_pod() {
    let runtime = machine(2);
    for builder in [runtime.workqueue(), runtime.workqueue().capacity(2)] {
        let queue = builder.scope(Scope::Cpu).strict(true).build().unwrap();
        for cpu in runtime.usable().iter() {
            let (sender, receiver) = mpsc::channel();
            let tell = || {
                let sender = sender.clone();
                move || sender.send(current::<Host>().expect("a worker").pod()).unwrap()
            };
            queue.queue_on(cpu, tell()).unwrap();
            let pod = receiver.recv().unwrap();
            queue.try_reserve().unwrap().queue_on(cpu, tell()).unwrap();
            assert_eq!(receiver.recv().unwrap(), pod, "of CPU {cpu}");
        }
        let (sender, receiver) = mpsc::channel();
        let item = move || sender.send(7).unwrap();
        let refused = queue.try_reserve().unwrap().queue_on(CpuId(100_000), item).unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::NoSuchCpu(CpuId(100_000)));
        refused.into_item()();
        assert_eq!(receiver.recv(), Ok(7), "it is returned");
        wait_until("its room is given back", || queue.stats().capacity_used == 0);
    }
}

#[test]
fn who_waits_for_room_waits_in_line() {
    on_all_rungs(1, |queue| {
        queue.freeze().unwrap();
        let room = queue.try_reserve().unwrap();
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut context = Context::from_waker(&waker);
        let mut first = pin!(queue.reserve_async());
        assert!(first.as_mut().poll(&mut context).is_pending());
        let mut second = Box::pin(queue.reserve_async());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert_eq!(queue.stats().waiting_producers, 2);
        drop(room);
        assert_eq!(wakes.0.load(SeqCst), 1);
        let Poll::Ready(Ok(room)) = first.as_mut().poll(&mut context) else {
            panic!("there is room")
        };
        assert!(second.as_mut().poll(&mut context).is_pending());
        // Granted, and dropped before its waiter saw it: the next waiter gets it.
        drop(room);
        let mut third = pin!(queue.reserve_async());
        assert!(third.as_mut().poll(&mut context).is_pending());
        drop(second);
        let Poll::Ready(Ok(room)) = third.as_mut().poll(&mut context) else {
            panic!("there is room")
        };
        queue.thaw().unwrap();
        // An item with a reservation from before the shutdown is rejected and returned.
        let mut late = pin!(queue.reserve_async());
        assert!(late.as_mut().poll(&mut context).is_pending());
        queue.shutdown(NEVER).unwrap();
        let Poll::Ready(Err(reason)) = late.as_mut().poll(&mut context) else {
            panic!("the queue is shut down")
        };
        assert_eq!(reason, RefusedReason::ShutDown);
        let refused = room.submit(|| 7).unwrap_err();
        assert_eq!((refused.reason(), refused.into_item()()), (RefusedReason::ShutDown, 7));
        assert_eq!(queue.stats().capacity_used, 0);
    });
}

#[test]
fn a_queue_without_a_capacity_has_room_always() {
    let queue = machine(2).workqueue().scope(Scope::System).build().unwrap();
    assert_eq!(queue.capacity(), None);
    let rooms: Vec<_> = (0..100).map(|_| queue.try_reserve().unwrap()).collect();
    let items: Vec<_> = rooms.into_iter().map(|room| room.submit(|| 1).unwrap()).collect();
    assert_eq!(items.into_iter().map(|item| item.join().unwrap()).sum::<i32>(), 100);
}
