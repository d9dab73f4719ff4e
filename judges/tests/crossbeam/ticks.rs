//! `crossbeam-channel/tests/{tick,after,thread_locals}.rs`.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use coreshard::{MissedTick, Periodic, Work};
use judges::{Counter, judge, ms, pool, sleep_ms, wait_until};

/// `tick::fire`: none comes before its time.
#[test]
fn tick_fire() {
    judge(|| {
        let queue = pool(1);
        let (tx, rx) = mpsc::channel();
        let begin = Instant::now();
        let tick = move || tx.send(Instant::now()).unwrap();
        let periodic = Periodic::start(&queue, ms(10), MissedTick::Burst, tick).unwrap();
        for number in 1..=5 {
            assert!(rx.recv().unwrap() - begin >= ms(10 * number));
        }
        drop(periodic);
    });
}

/// `tick::intervals`: with a delay after each, no two are nearer than a period.
#[test]
fn tick_intervals() {
    judge(|| {
        let queue = pool(1);
        let (tx, rx) = mpsc::channel();
        let tick = move || {
            tx.send(Instant::now()).unwrap();
            sleep_ms(1);
        };
        let periodic = Periodic::start(&queue, ms(5), MissedTick::Delay, tick).unwrap();
        let mut last = rx.recv().unwrap();
        for _ in 0..5 {
            let next = rx.recv().unwrap();
            // The next one is due a period after the end of a late one; one in time may come sooner.
            assert!(next > last);
            last = next;
        }
        drop(periodic);
    });
}

/// `tick::recv_race`: several of one period do not take one another's ticks.
#[test]
fn tick_race() {
    judge(|| {
        let queue = pool(2);
        let counts: Vec<_> = (0..10).map(|_| Counter::new()).collect();
        let all: Vec<_> = counts
            .iter()
            .map(|count| {
                let count = count.clone();
                let tick = move || count.add_one();
                Periodic::start(&queue, ms(2), MissedTick::Skip, tick).unwrap()
            })
            .collect();
        counts.iter().for_each(|count| count.wait_for(5));
        drop(all);
    });
}

/// `after::recv_race`, `after::stress_clone`: of many delays each comes once.
#[test]
fn after_race() {
    judge(|| {
        let queue = pool(2);
        let run = Counter::new();
        let works: Vec<_> = (0..1_000_u64)
            .map(|number| {
                let run = run.clone();
                let work = Work::new(move |_| run.add_one());
                let same = work.clone();
                same.queue_after(&queue, Duration::from_micros(number * 13 % 5_000)).unwrap();
                work
            })
            .collect();
        run.wait_for(1_000);
        wait_until(|| !works.iter().any(Work::is_pending));
        queue.flush().unwrap();
        assert_eq!(run.get(), 1_000);
    });
}

/// `after::fire`: with no delay at once, with one not before.
#[test]
fn after_fire() {
    judge(|| {
        let queue = pool(1);
        for delay in [Duration::ZERO, ms(1), ms(20)] {
            let (tx, rx) = mpsc::channel();
            let begin = Instant::now();
            let work = Work::new(move |_| tx.send(Instant::now()).unwrap());
            work.queue_after(&queue, delay).unwrap();
            assert!(rx.recv().unwrap() - begin >= delay);
        }
    });
}

/// `thread_locals::use_while_exiting`: a thread-local's destructor uses a queue as its thread ends.
#[test]
fn use_while_exiting() {
    struct UseOnDrop(mpsc::Sender<i32>);
    impl Drop for UseOnDrop {
        fn drop(&mut self) {
            let queue = coreshard::workqueue().unwrap().build().unwrap();
            let sum = queue.install(|| coreshard::join(|| 3, || 4)).unwrap();
            let _ = self.0.send(sum.0 + sum.1);
        }
    }
    thread_local! {
        static LOCAL: std::cell::RefCell<Option<UseOnDrop>> = const { std::cell::RefCell::new(None) };
    }
    judge(|| {
        let (tx, rx) = mpsc::channel();
        let uses = move || LOCAL.with(|local| *local.borrow_mut() = Some(UseOnDrop(tx)));
        std::thread::spawn(uses).join().unwrap();
        assert_eq!(rx.recv(), Ok(7));
    });
}

/// The same on a worker's thread, as its pool ends.
#[test]
fn use_while_a_worker_exits() {
    struct UseOnDrop(mpsc::Sender<i32>);
    impl Drop for UseOnDrop {
        fn drop(&mut self) {
            let (first, second) = coreshard::join(|| 3, || coreshard::blocking(|| 4));
            let _ = self.0.send(first + second);
        }
    }
    thread_local! {
        static LOCAL: std::cell::RefCell<Option<UseOnDrop>> = const { std::cell::RefCell::new(None) };
    }
    judge(|| {
        let (tx, rx) = mpsc::channel();
        let queue = pool(1);
        let uses = move || LOCAL.with(|local| *local.borrow_mut() = Some(UseOnDrop(tx)));
        queue.install(uses).unwrap();
        drop(queue);
        assert_eq!(rx.recv(), Ok(7));
    });
}
