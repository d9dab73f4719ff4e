//! `dispatch_after.c`, `dispatch_timer*.c`, `dispatch_suspend_timer.c`, `dispatch_drift.c`. The times are at most a
//! tenth of the original ones, and the tests assert no upper bound for delays.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use coreshard::{MissedTick, Periodic, Work};
use judges::{Counter, judge, ms, pool, queue, sleep_ms, wait_until};

/// Each begins the next one as it ends.
#[test]
fn after() {
    judge(|| {
        let queue = pool(1);
        let (tx, rx) = mpsc::channel();
        let mut begin = Instant::now();
        for delay in [ms(60), ms(20), Duration::ZERO] {
            let (tx, queue) = (tx.clone(), queue.clone());
            let work = Work::new(move |_| tx.send(Instant::now()).unwrap());
            work.queue_after(&queue, delay).unwrap();
            let end = rx.recv().unwrap();
            assert!(end - begin >= delay, "it ended {:?} early", delay - (end - begin));
            begin = end;
        }
    });
}

/// Timers that are to fire before the test ends, and others that are not: a repeating one stops itself.
#[test]
fn timer() {
    judge(|| {
        let queue = pool(2);
        let fired = Arc::new(Mutex::new(Vec::new()));
        let later: Vec<_> = (1..=5_u64)
            .map(|number| {
                let fired = Arc::clone(&fired);
                let work = Work::new(move |_| fired.lock().unwrap().push(number));
                let delay = if number <= 3 { ms(5 * number) } else { ms(3_600_000) };
                work.queue_after(&queue, delay).unwrap();
                work
            })
            .collect();
        let (tx, rx) = mpsc::channel();
        let tick = move || tx.send(()).unwrap();
        let ticks = Periodic::start(&queue, ms(5), MissedTick::Skip, tick).unwrap();
        (0..3).for_each(|_| rx.recv().unwrap());
        ticks.stop_and_wait().unwrap();
        while rx.try_recv().is_ok() {}
        wait_until(|| fired.lock().unwrap().len() == 3);
        assert!(later[3..].iter().all(|work| work.is_pending() && work.cancel()));
        assert!(rx.recv_timeout(ms(15)).is_err(), "a tick came after the stop");
        fired.lock().unwrap().sort_unstable();
        assert_eq!(*fired.lock().unwrap(), [1, 2, 3]);
    });
}

/// "Dispatch Update Timer": after the first tick its interval is made shorter.
#[test]
fn timer_set_time() {
    judge(|| {
        let queue = pool(1);
        let (tx, rx) = mpsc::channel();
        let (inner, mut ticks) = (queue.clone(), 0);
        let timer = Work::new(move |work: &Work| {
            ticks += 1;
            if ticks < 15 {
                let next = if ticks == 1 { ms(1) } else { ms(2) };
                work.queue_after(&inner, next).unwrap();
            } else {
                tx.send(ticks).unwrap();
            }
        });
        timer.queue_after(&queue, ms(3_600_000)).unwrap();
        timer.modify_delay(&queue, ms(20)).unwrap();
        assert_eq!(rx.recv(), Ok(15));
    });
}

/// Many timers into a queue that is suspended do not keep another one from firing.
#[test]
fn timer_short() {
    judge(|| {
        let (suspended, queue) = (queue(1, |builder| builder.ordered()), pool(1));
        suspended.freeze().unwrap();
        let stuck: Vec<_> = (0..500)
            .map(|_| {
                let work = Work::new(|_| ());
                work.queue_after(&suspended, Duration::from_micros(500)).unwrap();
                work
            })
            .collect();
        let fired = Counter::new();
        let count = fired.clone();
        let ticks =
            Periodic::start(&queue, Duration::from_micros(500), MissedTick::Burst, move || {
                count.add_one();
            });
        fired.wait_for(50);
        drop(ticks);
        wait_until(|| suspended.stats().waiting == 500);
        assert!(stuck.iter().all(Work::is_pending));
        suspended.thaw().unwrap();
        suspended.flush().unwrap();
        assert!(!stuck.iter().any(Work::is_pending));
    });
}

/// "Dispatch Source Timeout": a timer whose queue suspends itself fires once; another one goes on.
#[test]
fn timer_timeout() {
    judge(|| {
        let (queue, other) = (pool(1), pool(1));
        let fired = Counter::new();
        let (inner, count) = (queue.clone(), fired.clone());
        let mini =
            Periodic::start(&queue, Duration::from_micros(100), MissedTick::Skip, move || {
                count.add_one();
                inner.freeze().unwrap();
            });
        let mini = mini.unwrap();
        fired.wait_for(1);
        let (tx, rx) = mpsc::channel();
        let long = Work::new(move |_| tx.send(()).unwrap());
        long.queue_after(&other, ms(10)).unwrap();
        rx.recv().unwrap();
        assert_eq!(fired.get(), 1);
        mini.stop();
        queue.thaw().unwrap();
    });
}

/// "Bit 31", "bit 63": intervals at the edges of words. A long one does not fire, and one that the clock
/// cannot hold is an error.
#[test]
fn timer_bit31_and_bit63() {
    judge(|| {
        let queue = pool(1);
        let fired = Counter::new();
        for bits in [31, 32, 33, 62, 63] {
            let count = fired.clone();
            let work = Work::new(move |_| count.add_one());
            let delay = Duration::from_nanos(1 << bits);
            match work.queue_after(&queue, delay) {
                Ok(queued) => assert!(queued),
                Err(error) => assert!(error.to_string().contains("clock"), "{error}"),
            }
            sleep_ms(2);
            assert_eq!(fired.get(), 0);
            work.cancel();
        }
    });
}

/// "Dispatch Suspend Timer": a timer that is suspended does not fire, one that is resumed does.
#[test]
fn suspend_timer() {
    judge(|| {
        let queue = pool(1);
        let (first, second) = (Counter::new(), Counter::new());
        let start = |count: &Counter| {
            let count = count.clone();
            Periodic::start(&queue, ms(2), MissedTick::Skip, move || count.add_one()).unwrap()
        };
        let (tweedledee, tweedledum) = (start(&first), start(&second));
        first.wait_for(1);
        tweedledee.stop_and_wait().unwrap();
        let stopped = first.get();
        second.wait_for(second.get() + 3);
        assert_eq!(first.get(), stopped);
        tweedledee.work().enable().unwrap();
        tweedledee.work().queue(&queue).unwrap();
        first.wait_for(stopped + 2);
        tweedledum.stop_and_wait().unwrap();
    });
}

/// "Dispatch Timer Drift": ticks do not drift: the n-th never comes before n periods, however late those
/// before it were, and with bursts no tick is lost.
#[test]
fn drift() {
    judge(|| {
        let queue = pool(1);
        let (begin, period) = (Instant::now(), ms(2));
        let early = Arc::new(AtomicUsize::new(0));
        let (count, told) = (Counter::new(), Arc::clone(&early));
        let ticks = count.clone();
        let tick = move || {
            let number = count.next() as u32 + 1;
            if begin.elapsed() < period * number {
                told.fetch_add(1, SeqCst);
            }
            if number == 5 {
                sleep_ms(20);
            }
        };
        let periodic = Periodic::start(&queue, period, MissedTick::Burst, tick).unwrap();
        ticks.wait_for(50);
        assert_eq!((early.load(SeqCst), periodic.skipped_ticks()), (0, 0));
    });
}

/// A periodic function that is slower than its period runs one tick at a time.
#[test]
fn timer_that_is_slower_than_its_period() {
    judge(|| {
        let queue = pool(4);
        let (inside, runs) = (Counter::new(), Counter::new());
        let (within, count) = (inside.clone(), runs.clone());
        let tick = move || {
            assert_eq!(within.next(), 0);
            sleep_ms(3);
            within.take_one();
            count.add_one();
        };
        let periodic = Periodic::start(&queue, ms(1), MissedTick::Skip, tick).unwrap();
        runs.wait_for(10);
        periodic.stop_and_wait().unwrap();
        assert!(periodic.skipped_ticks() > 0 && inside.get() == 0);
    });
}
