//! `ThreadedExecutorTest.cpp`, `ThreadedRepeatingFunctionRunnerTest.cpp`, `TimedDrivableExecutorTest.cpp`, and of
//! `ExecutorTest.cpp` what a queue that is frozen and thawed can be asked as a `ManualExecutor`.

use std::sync::{Arc, Mutex};

use coreshard::{MissedTick, Periodic, Work};
use judges::{Counter, block_on, judge, ms, pool, queue, sleep_ms, thrown};

#[test]
fn example() {
    judge(|| {
        let queue = pool(2);
        let inner = queue.clone();
        let chain = async move {
            let number = inner.spawn(async { 42 }).unwrap().await;
            inner.spawn(async move { number.to_string() }).unwrap().await
        };
        assert_eq!(block_on(queue.spawn(chain).unwrap()), "42");
    });
}

#[test]
fn exception() {
    judge(|| {
        pool(1).queue(|| panic!("This should not crash the program")).unwrap();
    });
}

#[test]
fn dtor_waits() {
    judge(|| {
        let queue = pool(1);
        let handle = queue.submit(|| coreshard::blocking(|| sleep_ms(20))).unwrap();
        drop(queue);
        assert!(handle.is_finished());
    });
}

#[test]
fn many() {
    judge(|| {
        let queue = pool(2);
        let tasks: Vec<_> =
            (0..1024).map(|n| queue.spawn(async move { n.to_string() }).unwrap()).collect();
        let texts: Vec<String> = tasks.into_iter().map(block_on).collect();
        assert_eq!(texts[42], "42");
    });
}

/// Many items sleep at the same time, each on a different worker up to the maximum.
#[test]
fn many_sleeping_constant_time() {
    judge(|| {
        let queue = pool(2);
        let sleep = |number: usize| {
            queue.submit(move || {
                coreshard::blocking(|| sleep_ms(20));
                number.to_string()
            })
        };
        let handles: Vec<_> = (0..128).map(|number| sleep(number).unwrap()).collect();
        let texts: Vec<String> = handles.into_iter().map(|h| h.join().unwrap()).collect();
        assert_eq!(texts[42], "42");
    });
}

#[test]
fn many_sleeping_decreasing_time() {
    judge(|| {
        let queue = pool(2);
        let sleep = |number: u64| {
            queue.submit(move || {
                coreshard::blocking(|| sleep_ms(30 * (128 - number) / 128));
                number.to_string()
            })
        };
        let handles: Vec<_> = (0..128).map(|number| sleep(number).unwrap()).collect();
        let texts: Vec<String> = handles.into_iter().map(|h| h.join().unwrap()).collect();
        assert_eq!(texts[42], "42");
    });
}

/// `HandleBackgroundLoop`: a function that is called over and over, until its owner goes.
#[test]
fn handle_background_loop() {
    judge(|| {
        let queue = pool(1);
        let (data, inner) = (Counter::new(), queue.clone());
        let count = data.clone();
        let work = Work::new(move |work: &Work| {
            count.add_one();
            let _ = work.queue(&inner);
        });
        work.queue(&queue).unwrap();
        data.wait_for(10);
        work.disable_and_wait().unwrap();
        let before = data.get();
        sleep_ms(10);
        assert_eq!(data.get(), before);
    });
}

/// `HandleLongSleepingThread`: a stop does not wait for the next call, a thousand hours away.
#[test]
fn handle_long_sleeping_thread() {
    judge(|| {
        let queue = pool(1);
        let data = Counter::new();
        let (count, inner) = (data.clone(), queue.clone());
        let work = Work::new(move |work: &Work| {
            count.add_one();
            let _ = work.queue_after(&inner, ms(3_600_000_000));
        });
        work.queue(&queue).unwrap();
        judges::wait_until(|| data.get() == 1 && work.is_pending());
        assert!(work.disable_and_wait().unwrap(), "it waits for its next call");
        drop(queue);
        assert_eq!(data.get(), 1);
    });
}

/// `ManualExecutor.runIsStable`: what an item queues meanwhile comes in the next round.
#[test]
fn run_is_stable() {
    judge(|| {
        let queue = queue(1, |builder| builder.ordered());
        queue.freeze().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        for number in 0..2 {
            let (inner, order) = (queue.clone(), Arc::clone(&order));
            let item = move || {
                order.lock().unwrap().push(number);
                let order = Arc::clone(&order);
                inner.queue(move || order.lock().unwrap().push(10 + number)).unwrap();
            };
            queue.queue(item).unwrap();
        }
        assert!(order.lock().unwrap().is_empty());
        queue.thaw().unwrap();
        queue.drain().unwrap();
        assert_eq!(*order.lock().unwrap(), [0, 1, 10, 11]);
    });
}

/// `drainIsNotStable`: a drain also runs items that its items queue.
#[test]
fn drain_is_not_stable() {
    judge(|| {
        let queue = pool(1);
        let (count, inner) = (Counter::new(), queue.clone());
        let times = count.clone();
        let item = move || {
            times.add_one();
            let again = times.clone();
            inner.queue(move || again.add_one()).unwrap();
        };
        queue.queue(item).unwrap();
        queue.drain().unwrap();
        assert_eq!(count.get(), 2);
    });
}

/// `clear`: waiting items are removed and do not run.
#[test]
fn clear() {
    judge(|| {
        let queue = pool(1);
        queue.freeze().unwrap();
        let count = Counter::new();
        let works: Vec<_> = (0..10)
            .map(|_| {
                let count = count.clone();
                Work::new(move |_| count.add_one())
            })
            .collect();
        works.iter().for_each(|work| assert!(work.queue(&queue).unwrap()));
        works.iter().for_each(|work| assert!(work.cancel()));
        queue.thaw().unwrap();
        queue.drain().unwrap();
        assert_eq!(count.get(), 0);
    });
}

/// `drainsOnDestruction`: frozen or not.
#[test]
fn drains_on_destruction() {
    judge(|| {
        let queue = pool(1);
        queue.freeze().unwrap();
        let count = Counter::new();
        let inner = count.clone();
        queue.queue(move || inner.add_one()).unwrap();
        drop(queue);
        assert_eq!(count.get(), 1);
    });
}

/// `waitForDoesNotDeadlock`, `getViaDoesNotDeadlock`: a result is waited for in the item of another queue.
#[test]
fn wait_for_does_not_deadlock() {
    judge(|| {
        let (queue, other) = (pool(1), pool(1));
        let inner = queue.clone();
        let wait = move || {
            let task = inner.spawn(async { 7 }).unwrap();
            coreshard::blocking(|| block_on(task))
        };
        assert_eq!(other.submit(wait).unwrap().join().unwrap(), 7);
        // The item runs in the only worker of the same queue.
        let inner = queue.clone();
        let wait = move || {
            let task = inner.spawn(async { 8 }).unwrap();
            coreshard::blocking(|| block_on(task))
        };
        assert_eq!(queue.submit(wait).unwrap().join().unwrap(), 8);
    });
}

/// `ThrowableThen`.
#[test]
fn throwable_then() {
    judge(|| {
        let queue = pool(1);
        let task = queue.spawn(async { panic!("Faildog") }).unwrap();
        let text = thrown(|| block_on::<coreshard::Task<()>>(task));
        assert_eq!(text.as_deref(), Some("Faildog"));
    });
}

/// `scheduleDur`, `laterThingsDontBlockEarlierOnes`: one that is armed later for an earlier time comes first.
#[test]
fn later_things_dont_block_earlier_ones() {
    judge(|| {
        let queue = pool(1);
        let count = Counter::new();
        let work = |count: &Counter| {
            let count = count.clone();
            Work::new(move |_| count.add_one())
        };
        let late = work(&count);
        late.queue_after(&queue, ms(3_600_000)).unwrap();
        let early = work(&count);
        early.queue_after(&queue, ms(5)).unwrap();
        count.wait_for(1);
        assert!(late.is_pending() && !early.is_pending());
        assert!(late.cancel());
    });
}

/// A periodic function whose queue goes: the ticks hold a handle, and end with it.
#[test]
fn a_periodic_function_ends_with_its_handle() {
    judge(|| {
        let queue = pool(1);
        let count = Counter::new();
        let ticks = count.clone();
        let periodic = Periodic::start(&queue, ms(1), MissedTick::Skip, move || ticks.add_one());
        let periodic = periodic.unwrap();
        drop(queue);
        count.wait_for(count.get() + 3);
        drop(periodic);
        judges::wait_until(|| count.holders() == 1);
    });
}
