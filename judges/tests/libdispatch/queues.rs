//! `dispatch_cascade.c`, `dispatch_pingpong.c`, `dispatch_starfish.c`, `dispatch_overcommit.c`,
//! `dispatch_readsync.c`, `dispatch_priority.c`, `dispatch_queue_finalizer.c`, `dispatch_api.c`,
//! `dispatch_plusplus.cpp`, `dispatch_context_for_key.c`, `dispatch_debug.c`.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use coreshard::{Hooks, Runtime, Workqueue};
use judges::{Counter, default_queue, judge, pool, queue, runtime, sleep_ms};

fn serial_queues(runtime: &Runtime, count: usize) -> Arc<Vec<Workqueue>> {
    Arc::new((0..count).map(|_| runtime.workqueue().ordered().build().unwrap()).collect())
}

#[test]
fn api() {
    judge(|| {
        let (tx, rx) = mpsc::channel();
        default_queue().queue(move || tx.send(()).unwrap()).unwrap();
        rx.recv().unwrap();
    });
}

/// Items that go from queue to queue, many at once.
#[test]
fn cascade() {
    const QUEUES: usize = 80;
    const BLOCKS: usize = 500;
    fn hop(queues: &Arc<Vec<Workqueue>>, at: usize, arrived: &Counter) {
        let (all, count) = (Arc::clone(queues), arrived.clone());
        let item = move || {
            if at + 1 == QUEUES {
                count.add_one();
            } else {
                hop(&all, at + 1, &count);
            }
        };
        queues[at].queue(item).unwrap();
    }
    judge(|| {
        let queues = serial_queues(&runtime(2), QUEUES);
        let arrived = Counter::new();
        (0..BLOCKS).for_each(|_| hop(&queues, 0, &arrived));
        arrived.wait_for(BLOCKS);
        assert_eq!(arrived.get(), BLOCKS);
        queues.iter().for_each(|queue| queue.drain().unwrap());
    });
}

#[test]
fn pingpong() {
    const FINAL: usize = 20_000;
    fn hit(here: Workqueue, there: Workqueue, number: usize, over: mpsc::Sender<usize>) {
        if number == FINAL {
            return over.send(number).unwrap();
        }
        let next = there.clone();
        next.queue(move || hit(there, here, number + 1, over)).unwrap();
    }
    judge(|| {
        let queues = serial_queues(&runtime(2), 2);
        let (tx, rx) = mpsc::channel();
        hit(queues[0].clone(), queues[1].clone(), 0, tx);
        assert_eq!(rx.recv(), Ok(FINAL));
    });
}

/// Each queue asks every other queue, which sends the answer back.
#[test]
fn starfish() {
    const COUNT: usize = 60;
    judge(|| {
        for _lap in 0..3 {
            let queues = serial_queues(&runtime(2), COUNT);
            queues.iter().for_each(|queue| queue.freeze().unwrap());
            let replies: Arc<Vec<Counter>> = Arc::new((0..COUNT).map(|_| Counter::new()).collect());
            for asker in 0..COUNT {
                let (all, replies) = (Arc::clone(&queues), Arc::clone(&replies));
                let start = move || {
                    for other in 0..COUNT {
                        let (back, replies) = (Arc::clone(&all), Arc::clone(&replies));
                        let ping = move || {
                            let pong = move || replies[asker].add_one();
                            back[asker].queue(pong).unwrap();
                        };
                        all[other].queue(ping).unwrap();
                    }
                };
                queues[asker].queue(start).unwrap();
            }
            queues.iter().for_each(|queue| queue.thaw().unwrap());
            replies.iter().for_each(|count| count.wait_for(COUNT));
            assert!(replies.iter().all(|count| count.get() == COUNT));
        }
    });
}

/// Serial queues whose items spin until the last one has begun: each gets a thread.
#[test]
fn overcommit() {
    const FINAL: usize = 8;
    judge(|| {
        let runtime = judges::machine(2).cpu_intensive_threshold(judges::ms(2)).build().unwrap();
        let queues = serial_queues(&runtime, FINAL);
        let begun = Arc::new(AtomicUsize::new(0));
        for queue in queues.iter() {
            let begun = Arc::clone(&begun);
            let spin = move || {
                begun.fetch_add(1, SeqCst);
                while begun.load(SeqCst) < FINAL {
                    thread::yield_now();
                }
            };
            queue.queue(spin).unwrap();
        }
        queues.iter().for_each(|queue| queue.flush().unwrap());
    });
}

/// Readers together, writers alone: a writer takes all the turns of a limited queue that the readers
/// take one of. Here with a lock, which blocks workers; the queues must get on all the same.
#[test]
fn readsync() {
    judge(|| {
        let (queue, writers) = (pool(3), queue(1, |builder| builder.ordered()));
        let shared = std::sync::RwLock::new((0, 0));
        let (all, writers) = (&shared, &writers);
        queue.scope(|scope| {
            for round in 0..200 {
                let read = || {
                    let (left, right) = *all.read().unwrap();
                    assert_eq!(left, right, "a reader runs beside a writer");
                };
                scope.queue(read).unwrap();
                if round % 10 == 0 {
                    let write = move || {
                        let mut both = all.write().unwrap();
                        both.0 += 1;
                        thread::yield_now();
                        both.1 += 1;
                    };
                    scope.queue(move || writers.install(write).unwrap()).unwrap();
                }
            }
        });
        assert_eq!(shared.into_inner().unwrap(), (20, 20));
    });
}

/// `dispatch_barrier_sync`: everything before it has finished, and nothing after it has begun.
#[test]
fn barrier_sync() {
    judge(|| {
        let queue = pool(4);
        let (before, after) = (Counter::new(), Counter::new());
        for _ in 0..100 {
            let count = before.clone();
            queue.queue(move || count.add_one()).unwrap();
        }
        queue.freeze().unwrap();
        for _ in 0..100 {
            let count = after.clone();
            queue.queue(move || count.add_one()).unwrap();
        }
        judges::wait_until(|| before.get() == 100);
        assert_eq!(after.get(), 0);
        queue.thaw().unwrap();
        queue.drain().unwrap();
        assert_eq!(after.get(), 100);
    });
}

/// `dispatch_priority.c`: work of all priorities runs, including the lowest.
#[test]
fn priority() {
    judge(|| {
        let runtime = runtime(2);
        let queues: Vec<_> = [0, 5, 10, 19]
            .map(|nice| runtime.workqueue().nice(nice).build().unwrap())
            .into_iter()
            .collect();
        let done = Counter::new();
        for queue in queues.iter().cycle().take(400) {
            let done = done.clone();
            let busy = move || {
                (0..2_000_u64).for_each(|n| drop(std::hint::black_box(n.to_string())));
                done.add_one();
            };
            queue.queue(busy).unwrap();
        }
        drop(queues);
        assert_eq!(done.get(), 400);
    });
}

/// `dispatch_queue_finalizer.c`: a queue's data is dropped once, after its last item.
#[test]
fn queue_finalizer() {
    judge(|| {
        let finalized = Counter::new();
        let context = finalized.on_drop();
        let queue = queue(1, |builder| {
            builder.panic_handler(move |_| {
                let _context = &context;
            })
        });
        let seen = finalized.clone();
        let item = queue.submit(move || seen.get()).unwrap();
        drop(queue);
        assert_eq!(item.join().unwrap(), 0, "the item ran before");
        judges::wait_until(|| finalized.get() == 1);
    });
}

/// `dispatch_context_for_key.c`: only the items of a queue see the values set on its threads.
#[test]
fn context_for_key() {
    thread_local!(static KEY: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
    judge(|| {
        let with_key = |value| {
            queue(2, |builder| builder.hooks(Hooks::new().on_start(move |_| KEY.set(value))))
        };
        let (first, second) = (with_key(1), with_key(2));
        let both = first.install(|| (KEY.get(), second.install(|| KEY.get()).unwrap())).unwrap();
        assert_eq!((both, KEY.get()), ((1, 2), 0));
    });
}

/// `dispatch_debug.c`: what queues and items are shown as.
#[test]
fn debug() {
    judge(|| {
        let queue = queue(1, |builder| builder.name("com.example.queue"));
        assert!(format!("{queue:?}").contains("com.example.queue"));
        let work = coreshard::Work::new(|_| ());
        assert!(format!("{work:?}").contains("is_pending"));
        assert!(format!("{:?}", queue.stats()).contains("com.example.queue"));
    });
}

/// `dispatch_sync` from inside an item to another serial queue, and from there to a third.
#[test]
fn sync_through_three_queues() {
    judge(|| {
        let queues = serial_queues(&runtime(2), 3);
        for _ in 0..200 {
            let last = || queues[2].submit(|| 3).unwrap().join().unwrap();
            let second = || last() + 1;
            assert_eq!(queues[0].scope(|_| queues[1].scope(|_| second())), 4);
        }
        let inner = Arc::clone(&queues);
        let nested = move || {
            let innermost = Arc::clone(&inner);
            let second = move || innermost[2].submit(|| 3).unwrap().join().unwrap() + 1;
            inner[1].submit(second).unwrap().join().unwrap() + 1
        };
        assert_eq!(queues[0].submit(nested).unwrap().join().unwrap(), 5);
    });
}

/// `dispatch_sync` to a serial queue that is busy, from an item of a queue with the same attributes: it
/// waits for its turn, as it would from anywhere.
#[test]
fn sync_to_a_busy_serial_queue_from_a_sibling() {
    judge(|| {
        let runtime = runtime(2);
        let serial = runtime.workqueue().ordered().build().unwrap();
        let sibling = runtime.workqueue().build().unwrap();
        let busy = Arc::new(AtomicBool::new(true));
        let (begin, begun) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let ends = Arc::clone(&busy);
        let item = move || {
            begin.send(()).unwrap();
            let _ = coreshard::blocking(|| wait.recv());
            ends.store(false, SeqCst);
        };
        serial.queue(item).unwrap();
        begun.recv().unwrap();
        thread::scope(|threads| {
            let sync =
                || sibling.install(|| serial.install(|| busy.load(SeqCst)).unwrap()).unwrap();
            let sync = threads.spawn(sync);
            sleep_ms(10);
            drop(go);
            assert!(!sync.join().unwrap(), "it ran beside the serial queue's item");
        });
    });
}

/// A serial queue is suspended and resumed while items come: none is lost, the order stays.
#[test]
fn suspend_and_resume_under_load() {
    judge(|| {
        let queue = queue(2, |builder| builder.ordered());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let stop = AtomicBool::new(false);
        thread::scope(|threads| {
            threads.spawn(|| {
                while !stop.load(SeqCst) {
                    queue.freeze().unwrap();
                    sleep_ms(1);
                    queue.thaw().unwrap();
                }
            });
            for number in 0..5_000 {
                let seen = Arc::clone(&seen);
                queue.queue(move || seen.lock().unwrap().push(number)).unwrap();
            }
            stop.store(true, SeqCst);
        });
        queue.flush().unwrap();
        assert!(seen.lock().unwrap().iter().copied().eq(0..5_000));
    });
}

/// `dispatch_sync` from an item to its own queue can never succeed. It is an error or a panic instead of an endless
/// wait.
#[test]
fn sync_to_the_own_serial_queue() {
    judge(|| {
        let queue = queue(2, |builder| builder.ordered());
        let inner = queue.clone();
        let item = queue.submit(move || inner.scope(|scope| scope.queue(|| ()).is_err()));
        // Whatever it comes to, it comes to an end.
        let _ = item.unwrap().join();
    });
}
