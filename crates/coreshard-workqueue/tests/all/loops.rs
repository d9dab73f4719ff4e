//! Loops with results: in order, independent of the workers that compute them; with panics, and with an early end.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use coreshard_platform::{Host, affinity};
use coreshard_topology::{Scope, Topology};
use coreshard_workqueue::{Refused, RefusedReason, Runtime, Workqueue, join};
use testing::{NEVER, within};

fn on_queues(test: impl Fn(&Workqueue<Host>) + Send + Sync + 'static) {
    within(NEVER, move || {
        for (scope, workers) in
            [(Scope::System, None), (Scope::Cpu, None), (Scope::System, Some(16))]
        {
            let topology = Topology::from_synthetic("package:1 l3:1 core:2 pu:1").unwrap();
            let builder = Runtime::builder(topology).laid_over(affinity().unwrap());
            let builder =
                workers.into_iter().fold(builder, |builder, workers| builder.workers(workers));
            let queue = builder.build().unwrap().workqueue().scope(scope).build().unwrap();
            test(&queue);
            // And as a part of an item.
            let inside = queue.install(|| test(&queue));
            assert!(inside.is_ok() || queue.queue(|| ()).is_err(), "the queue is open");
        }
    });
}

/// Counts its live instances.
struct Counted<'count>(&'count AtomicUsize, usize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[test]
fn results_are_in_the_order_of_the_elements() {
    on_queues(|queue| {
        for len in [0, 1, 2, 3, 31, 32, 33, 1_000, 10_001] {
            let numbers: Vec<usize> = (0..len).collect();
            let twice: Vec<usize> = numbers.iter().map(|number| 2 * number).collect();
            assert_eq!(queue.map_collect(&numbers[..], |number| 2 * number).unwrap(), twice);
            assert_eq!(queue.map_collect(0..len, |number| 2 * number).unwrap(), twice);
            let mut changed = numbers.clone();
            let before = queue.map_collect(&mut changed[..], |number| {
                *number *= 2;
                *number / 2
            });
            assert_eq!((before.unwrap(), changed), (numbers, twice));
        }
    });
}

#[test]
fn neighbours_are_reduced_in_order() {
    on_queues(|queue| {
        for len in [0, 1, 2, 7, 33, 5_000] {
            let text =
                queue.map_reduce(0..len, |number| format!("{number},"), |one, other| one + &other);
            let wanted: String = (0..len).map(|number| format!("{number},")).collect();
            assert_eq!(text.unwrap().unwrap_or_default(), wanted);
        }
        assert_eq!(queue.map_reduce(3..3, |number| number, |one, _| one).unwrap(), None);
    });
}

#[test]
fn an_error_ends_a_loop_early() {
    on_queues(|queue| {
        let called = AtomicUsize::new(0);
        let outcome = queue.try_for_each(0..1_000_000, |number| {
            called.fetch_add(1, SeqCst);
            if number % 1_000 == 10 { Err(number) } else { Ok(()) }
        });
        let error = outcome.unwrap().unwrap_err();
        assert_eq!(error % 1_000, 10);
        assert!(called.into_inner() < 1_000_000, "it ended early");
        assert_eq!(queue.try_for_each(0..10_000, |_| Ok::<_, ()>(())).unwrap(), Ok(()));
        let mut slots = [0; 100];
        assert_eq!(
            queue
                .try_for_each(&mut slots[..], |slot| {
                    *slot = 1;
                    Ok::<_, ()>(())
                })
                .unwrap(),
            Ok(())
        );
        assert_eq!(slots, [1; 100]);
    });
}

#[test]
fn chunks_cover_all_and_know_where_they_are() {
    on_queues(|queue| {
        for (len, elements) in
            [(0, 3), (1, 3), (3, 3), (10, 3), (1_000, 7), (1_000, 1), (10, usize::MAX)]
        {
            let mut numbers = vec![usize::MAX; len];
            let body = |before: usize, chunk: &mut [usize]| {
                assert_eq!(before % elements, 0);
                assert!(
                    chunk.len() == elements || before + chunk.len() == len,
                    "{before} {}",
                    chunk.len()
                );
                for (at, number) in chunk.iter_mut().enumerate() {
                    *number = before + at;
                }
            };
            queue.for_each_chunk(&mut numbers[..], elements, body).unwrap();
            assert_eq!(numbers, (0..len).collect::<Vec<_>>());
            let sum = AtomicUsize::new(0);
            queue
                .for_each_chunk(0..len, elements, |_, chunk| _ = sum.fetch_add(chunk.sum(), SeqCst))
                .unwrap();
            assert_eq!(sum.into_inner(), numbers.iter().sum::<usize>());
        }
        assert!(
            catch_unwind(AssertUnwindSafe(|| queue.for_each_chunk(0..3, 0, |_, _| ()).is_ok()))
                .is_err()
        );
    });
}

#[test]
fn a_panic_comes_to_the_caller_and_results_are_dropped() {
    on_queues(|queue| {
        let count = AtomicUsize::new(0);
        let make = |number: usize| {
            assert!(number != 700, "wanted");
            count.fetch_add(1, SeqCst);
            Counted(&count, number)
        };
        let collected =
            catch_unwind(AssertUnwindSafe(|| queue.map_collect(0..1_000, make).is_ok()));
        assert_eq!(*collected.unwrap_err().downcast::<&str>().unwrap(), "wanted");
        assert_eq!(count.load(SeqCst), 0, "all are dropped");
        let larger = Counted::max;
        let reduced =
            catch_unwind(AssertUnwindSafe(|| queue.map_reduce(0..1_000, make, larger).is_ok()));
        assert!(reduced.is_err());
        assert_eq!(count.load(SeqCst), 0, "all are dropped");
    });
}

impl<'count> Counted<'count> {
    fn max(one: Self, other: Self) -> Self {
        if one.1 > other.1 { one } else { other }
    }
}

#[test]
fn a_queue_that_is_shut_down_refuses_loops() {
    on_queues(|queue| {
        if coreshard_workqueue::current::<Host>().is_some() {
            return;
        }
        queue.shutdown(NEVER).unwrap();
        let one = String::from("1"); // borrowed, so that nothing of it is in the error
        let refused = queue.map_collect(0..3, |number| number + one.len()).unwrap_err();
        let refused: Box<dyn std::error::Error + Send + Sync> = refused.into();
        let refused = refused.downcast::<Refused>().unwrap();
        assert_eq!(refused.reason(), RefusedReason::ShutDown);
        assert!(queue.map_reduce(0..3, |number| number, |one, _| one).is_err());
        assert!(queue.try_for_each(0..3, |_| Ok::<_, ()>(())).is_err());
        assert!(queue.for_each_chunk(0..3, 2, |_, _| ()).is_err());
    });
}

/// Returns how many threads ran parts of one item that consists of a loop and joins.
fn threads_of_an_item(queue: &Workqueue<Host>) -> usize {
    let threads = Mutex::new(HashSet::new());
    let body = || {
        threads.lock().unwrap().insert(std::thread::current().id());
        std::thread::sleep(Duration::from_micros(200));
    };
    let item = || {
        queue.for_each_range(0..64, |range| range.for_each(|_| body())).unwrap();
        join::<Host, _, _>(|| join::<Host, _, _>(body, body), || join::<Host, _, _>(body, body));
    };
    queue.install(item).unwrap();
    threads.into_inner().unwrap().len()
}

fn queues(is_serial: [bool; 2]) -> [Workqueue<Host>; 2] {
    let topology = Topology::from_synthetic("package:1 l3:1 core:2 pu:1").unwrap();
    let runtime = Runtime::builder(topology).laid_over(affinity().unwrap()).build().unwrap();
    is_serial.map(|is_serial| {
        let builder = runtime.workqueue().scope(Scope::System).max_active(1);
        builder.serial_items(is_serial).build().unwrap()
    })
}

#[test]
fn the_items_of_a_serial_queue_stay_on_one_thread_each() {
    within(NEVER, || {
        let [serial, other] = queues([true, false]);
        // Items of each queue run on workers that have run items of the other.
        for _ in 0..3 {
            for _ in 0..10 {
                assert_eq!(threads_of_an_item(&serial), 1);
            }
            while threads_of_an_item(&other) == 1 {}
        }
    });
}

/// An item that runs inside an item of a serial queue shares no job either: it would also share the private jobs of the outer
/// item.
#[test]
fn an_item_inside_one_of_a_serial_queue_is_serial_and_the_one_around_it_is_not() {
    within(NEVER, || {
        let [serial, other] = queues([true, false]);
        for _ in 0..3 {
            let (inner, threads) = other
                .install(|| {
                    let inner = serial.install(|| threads_of_an_item(&serial)).unwrap();
                    (inner, (0..).find(|_| threads_of_an_item(&other) > 1))
                })
                .unwrap();
            assert_eq!(inner, 1);
            assert!(threads.is_some());
        }
    });
}
