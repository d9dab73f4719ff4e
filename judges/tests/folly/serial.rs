//! `SerialExecutorTest.cpp`, `StrandExecutorTest.cpp`, `SequencedExecutorTest.cpp`, and of
//! `MeteredExecutorTest.cpp` what does not need one pool with levels inside.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use coreshard::{Work, Workqueue};
use judges::{Counter, judge, machine, ms, pool, queue, runtime, sleep_ms};

fn serial(workers: usize) -> Workqueue {
    queue(workers, |builder| builder.ordered())
}

/// An item that is easily caught running beside another one.
fn vulnerable(values: &Arc<Mutex<Vec<usize>>>, number: usize) -> impl FnOnce() + Send + use<> {
    let values = Arc::clone(values);
    move || {
        let at = values.lock().unwrap().len();
        values.lock().unwrap().push(usize::MAX);
        sleep_ms(1);
        let mut values = values.lock().unwrap();
        assert_eq!(values.len(), at + 1, "another item ran beside this one");
        values[at] = number;
    }
}

/// `Simple`, `StrandExecutor.SimpleTest`.
#[test]
fn simple() {
    judge(|| {
        let (queue, values) = (serial(4), Arc::default());
        (0..20).for_each(|number| queue.queue(vulnerable(&values, number)).unwrap());
        let (tx, rx) = mpsc::channel();
        queue.queue(move || tx.send(()).unwrap()).unwrap();
        rx.recv().unwrap();
        assert!(values.lock().unwrap().iter().copied().eq(0..20));
    });
}

/// `Afterlife`: the handle goes before the first item has begun.
#[test]
fn afterlife() {
    judge(|| {
        let (queue, values) = (serial(4), Arc::default());
        let (tx, rx) = mpsc::channel::<()>();
        let start = move || {
            let _ = coreshard::blocking(|| rx.recv());
        };
        queue.queue(start).unwrap();
        (0..20).for_each(|number| queue.queue(vulnerable(&values, number)).unwrap());
        let dropper = thread::spawn(move || drop(queue));
        drop(tx);
        dropper.join().unwrap();
        assert!(values.lock().unwrap().iter().copied().eq(0..20));
    });
}

/// `RecursiveAdd`: an item that queues itself, three times at once.
#[test]
fn recursive_add() {
    fn add(queue: &Workqueue, values: &Arc<Mutex<Vec<usize>>>, over: &mpsc::Sender<()>) {
        let (again, list, tell) = (queue.clone(), Arc::clone(values), over.clone());
        let item = move || {
            let number = list.lock().unwrap().len();
            match number {
                0..10 => {
                    vulnerable(&list, number)();
                    add(&again, &list, &tell);
                }
                _ => tell.send(()).unwrap(),
            }
        };
        queue.queue(item).unwrap();
    }
    judge(|| {
        let (queue, values) = (serial(4), Arc::default());
        let (tx, rx) = mpsc::channel();
        (0..3).for_each(|_| add(&queue, &values, &tx));
        (0..3).for_each(|_| rx.recv().unwrap());
        assert!(values.lock().unwrap().iter().copied().eq(0..10));
    });
}

/// `ExecutionThrows`: the next one runs, in its turn.
#[test]
fn execution_throws() {
    judge(|| {
        let (queue, values) = (serial(2), Arc::default());
        for number in 0..10 {
            queue.queue(|| panic!("this is caught")).unwrap();
            queue.queue(vulnerable(&values, number)).unwrap();
        }
        queue.flush().unwrap();
        assert!(values.lock().unwrap().iter().copied().eq(0..10));
    });
}

/// `ParentExecutorDiscardsFunc`: an item that is cancelled while it waits is dropped and does not run.
#[test]
fn parent_executor_discards_func() {
    judge(|| {
        let queue = serial(1);
        queue.freeze().unwrap();
        let (ran, dropped) = (Counter::new(), Counter::new());
        let (count, guard) = (ran.clone(), dropped.on_drop());
        let work = Work::new(move |_| {
            let _guard = &guard;
            count.add_one();
        });
        work.queue(&queue).unwrap();
        assert_eq!(dropped.get(), 0);
        assert!(work.cancel());
        drop(work);
        queue.thaw().unwrap();
        drop(queue);
        assert_eq!((ran.get(), dropped.get()), (0, 1));
    });
}

/// `Stress`: many producers, with items that queue one more now and then. The count has no lock.
#[test]
fn stress() {
    const PRODUCERS: usize = 8;
    const ITEMS: usize = 2_000;
    judge(|| {
        let queue = serial(4);
        let count = Arc::new(AtomicUsize::new(0));
        // No read-modify-write: two items beside one another would lose a count.
        let add = |count: &AtomicUsize| count.store(count.load(SeqCst) + 1, SeqCst);
        thread::scope(|threads| {
            for producer in 0..PRODUCERS {
                let (queue, count) = (&queue, &count);
                threads.spawn(move || {
                    for number in 0..ITEMS {
                        let (again, inner) = (queue.clone(), Arc::clone(count));
                        let item = move || {
                            if producer == number {
                                let inner = Arc::clone(&inner);
                                again.queue(move || add(&inner)).unwrap();
                            }
                            add(&inner);
                        };
                        queue.queue(item).unwrap();
                    }
                });
            }
        });
        queue.drain().unwrap();
        assert_eq!(count.load(SeqCst), PRODUCERS * (ITEMS + 1));
    });
}

/// `SPSerialExecutor`: one producer, one worker.
#[test]
fn sp_serial_executor() {
    judge(|| {
        let queue = serial(1);
        let run = Counter::new();
        for number in 0..100 {
            let run = run.clone();
            queue.queue(move || assert_eq!(run.next(), number)).unwrap();
        }
        queue.flush().unwrap();
        assert_eq!(run.get(), 100);
    });
}

/// `StrandExecutor.ThreadSafetyTest`: two producers on two threads, and a value without a lock.
#[test]
fn thread_safety_test() {
    judge(|| {
        let queue = serial(2);
        let value = Arc::new(AtomicUsize::new(0));
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    for _ in 0..10_000 {
                        let value = Arc::clone(&value);
                        let add = move || value.store(value.load(SeqCst) + 1, SeqCst);
                        queue.queue(add).unwrap();
                    }
                });
            }
        });
        queue.flush().unwrap();
        assert_eq!(value.load(SeqCst), 20_000);
    });
}

/// Whether items that are queued one after the other, from different threads, run so.
fn is_sequenced(queue: &Workqueue) -> bool {
    let producer = serial(4);
    let (next, in_order) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
    for number in 0..5_000 {
        let (queue, next, in_order) = (queue.clone(), Arc::clone(&next), Arc::clone(&in_order));
        let produce = move || {
            let item = move || {
                let seen = next.load(SeqCst);
                thread::yield_now();
                let alone = seen == number && next.swap(number + 1, SeqCst) == number;
                in_order.fetch_and(alone, SeqCst);
            };
            queue.queue(item).unwrap();
        };
        producer.queue(produce).unwrap();
    }
    producer.drain().unwrap();
    queue.drain().unwrap();
    in_order.load(SeqCst)
}

/// `SequencedExecutor`: an ordered queue is one; a pool of several workers is none.
#[test]
fn sequenced_executor() {
    judge(|| {
        assert!(is_sequenced(&serial(4)));
        assert!(is_sequenced(&queue(4, |builder| builder.max_active(1))));
        let _may_be_either = is_sequenced(&pool(4));
    });
}

/// `MeteredExecutor.PauseResume`: a paused queue keeps what comes, another one on the same pool goes on.
#[test]
fn pause_resume() {
    judge(|| {
        let runtime = runtime(1);
        let (high, low) =
            (runtime.workqueue().build().unwrap(), runtime.workqueue().build().unwrap());
        low.freeze().unwrap();
        let (above, below) = (Counter::new(), Counter::new());
        for _ in 0..10 {
            let (above, below) = (above.clone(), below.clone());
            low.queue(move || below.add_one()).unwrap();
            high.queue(move || above.add_one()).unwrap();
        }
        high.flush().unwrap();
        assert_eq!((above.get(), below.get()), (10, 0));
        low.thaw().unwrap();
        low.flush().unwrap();
        assert_eq!(below.get(), 10);
    });
}

/// `MeteredExecutor.PauseResumeStress`.
#[test]
fn pause_resume_stress() {
    judge(|| {
        let queue = pool(2);
        let run = Counter::new();
        thread::scope(|threads| {
            let toggles = threads.spawn(|| {
                for _ in 0..300 {
                    queue.freeze().unwrap();
                    queue.thaw().unwrap();
                }
            });
            let mut queued = 0;
            while !toggles.is_finished() || queued < 1_000 {
                let run = run.clone();
                queue.queue(move || run.add_one()).unwrap();
                queued += 1;
            }
            queue.flush().unwrap();
            assert_eq!(run.get(), queued);
        });
    });
}

/// `MeteredExecutor.ResetJoins`: the last handle waits for the remaining items.
#[test]
fn reset_joins() {
    judge(|| {
        let queue = queue(1, |builder| builder.max_active(1));
        let run = Counter::new();
        let (tx, rx) = mpsc::channel::<()>();
        let hold = move || {
            let _ = rx.recv_timeout(ms(20));
        };
        queue.queue(hold).unwrap();
        for _ in 0..5 {
            let run = run.clone();
            queue.queue(move || run.add_one()).unwrap();
        }
        drop(queue);
        assert_eq!(run.get(), 5);
        drop(tx);
    });
}

/// `MeteredExecutor.SingleLevel`: of a queue that lets one item at a time into the pool, others of the pool
/// do not wait for all that it has.
#[test]
fn single_level() {
    judge(|| {
        let runtime = machine(1).max_workers_per_pool(1).build().unwrap();
        let metered = runtime.workqueue().max_active(1).build().unwrap();
        let plain = runtime.workqueue().build().unwrap();
        let (order, all) = (Arc::new(Mutex::new(Vec::new())), 20);
        let (tx, rx) = mpsc::channel::<()>();
        let hold = move || {
            let _ = rx.recv();
        };
        plain.queue(hold).unwrap();
        for number in 0..all {
            let order = Arc::clone(&order);
            metered.queue(move || order.lock().unwrap().push(("metered", number))).unwrap();
        }
        let last = Arc::clone(&order);
        plain.queue(move || last.lock().unwrap().push(("plain", 0))).unwrap();
        drop(tx);
        metered.flush().unwrap();
        plain.flush().unwrap();
        let order = order.lock().unwrap();
        let numbers = order.iter().filter(|(queue, _)| *queue == "metered").map(|(_, n)| *n);
        assert!(numbers.eq(0..all), "{order:?}");
        assert_ne!(order.last(), Some(&("plain", 0)), "the plain item waited for all others");
    });
}
