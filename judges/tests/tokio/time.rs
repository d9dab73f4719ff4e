//! `time_sleep.rs`, `time_rt.rs`, `time_interval.rs`, `time_timeout.rs`.

use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use coreshard::{MissedTick, Periodic, Runtime, Sleep, Work, WorkErrorReason, yield_now};
use judges::{
    Counter, block_on, judge, ms, pending, poll_once, pool, sleep_ms, timeout, unbounded,
    wait_until,
};

fn runtime() -> &'static Runtime {
    coreshard::runtime().unwrap()
}

fn sleep(duration: Duration) -> Sleep {
    runtime().sleep(duration).unwrap()
}

#[test]
fn immediate_sleep() {
    judge(|| {
        let mut now = sleep(Duration::ZERO);
        assert!(poll_once(&mut now).is_some());
        assert!(poll_once(&mut now).is_some(), "it may be asked again");
    });
}

#[test]
fn is_elapsed() {
    judge(|| {
        let mut long = sleep(ms(3_600_000));
        assert!(poll_once(&mut long).is_none());
        assert!(poll_once(&mut long).is_none());
    });
}

#[test]
fn delayed_sleep_level_0() {
    judge(|| {
        for duration in [1, 10, 60] {
            let begin = Instant::now();
            block_on(sleep(ms(duration)));
            assert!(begin.elapsed() >= ms(duration));
        }
    });
}

#[test]
fn sub_ms_delayed_sleep() {
    judge(|| {
        for _ in 0..5 {
            let begin = Instant::now();
            let duration = ms(1) + Duration::from_nanos(1);
            block_on(sleep(duration));
            assert!(begin.elapsed() >= duration);
        }
    });
}

#[test]
fn short_sleeps() {
    judge(|| (0..1000).for_each(|_| block_on(sleep(Duration::ZERO))));
}

/// As long as the clock goes: it waits. Longer: an error, with what is possible.
#[test]
fn greater_than_max() {
    judge(|| {
        let years = Duration::from_secs(5 * 365 * 24 * 3600);
        assert!(poll_once(&mut sleep(years)).is_none());
        let error = runtime().sleep(Duration::MAX).unwrap_err();
        assert!(error.to_string().contains("clock"), "{error}");
    });
}

#[test]
fn issue_5183() {
    judge(|| {
        let result = runtime().sleep(Duration::from_secs(u64::MAX / 10));
        assert!(result.is_err());
        block_on(sleep(Duration::from_nanos(1)));
    });
}

/// A sleep that is dropped takes its place with the timers along.
#[test]
fn drop_takes_the_timer_along() {
    judge(|| {
        let runtime = judges::runtime(1);
        let mut sleeps: Vec<_> =
            (0..100).map(|n| runtime.sleep(ms(3_600_000 + n)).unwrap()).collect();
        sleeps.iter_mut().for_each(|sleep| assert!(poll_once(sleep).is_none()));
        assert_eq!(runtime.delayed_items(), 100);
        drop(sleeps);
        assert_eq!(runtime.delayed_items(), 0);
    });
}

/// A waker that drops all the sleeps, on the thread that wakes.
#[test]
fn drop_from_wake() {
    struct DropAll(Mutex<Vec<Sleep>>, Counter);
    impl Wake for DropAll {
        fn wake(self: Arc<Self>) {
            let all = std::mem::take(&mut *self.0.lock().unwrap());
            drop(all);
            self.1.add_one();
        }
    }
    judge(|| {
        let woken = Counter::new();
        let list = Arc::new(DropAll(Mutex::new(Vec::new()), woken.clone()));
        let waker = Waker::from(Arc::clone(&list));
        let mut sleeps: Vec<_> = (0..100).map(|_| sleep(ms(20))).collect();
        for sleep in &mut sleeps {
            let _ = Pin::new(sleep).poll(&mut Context::from_waker(&waker));
        }
        list.0.lock().unwrap().extend(sleeps);
        woken.wait_for(1);
        // The timekeeper goes on.
        block_on(sleep(ms(1)));
    });
}

/// The latest waker is the one that is woken.
#[test]
fn a_sleep_is_polled_with_another_waker() {
    judge(|| {
        let mut sleep = sleep(ms(10));
        assert!(poll_once(&mut sleep).is_none());
        let queue = pool(1);
        block_on(queue.spawn(sleep).unwrap());
    });
}

/// `drop_after_reschedule_at_new_scheduled_time`: equal deadlines, some of them dropped early.
#[test]
fn drop_beside_equal_deadlines() {
    judge(|| {
        let sleeps: Vec<_> = (0..100).map(|_| sleep(ms(10))).collect();
        let mut sleeps = sleeps.into_iter();
        let (a, b, mut c) =
            (sleeps.next().unwrap(), sleeps.next().unwrap(), sleeps.next().unwrap());
        let _ = poll_once(&mut c);
        block_on(a);
        drop(b);
        block_on(c);
    });
}

/// `reset`, by a reusable item: put off, brought forward, after it fired.
#[test]
fn reset_future_sleep_before_fire() {
    judge(|| {
        let (queue, (tx, rx)) = (pool(1), mpsc::channel());
        let work = Work::new(move |_| tx.send(Instant::now()).unwrap());
        work.queue_after(&queue, ms(3_600_000)).unwrap();
        let begin = Instant::now();
        assert!(work.modify_delay(&queue, ms(20)).unwrap());
        assert!(rx.recv().unwrap() - begin >= ms(20));
    });
}

#[test]
fn reset_after_firing() {
    judge(|| {
        let (queue, (tx, rx)) = (pool(1), mpsc::channel());
        let work = Work::new(move |_| tx.send(()).unwrap());
        work.queue_after(&queue, ms(1)).unwrap();
        rx.recv().unwrap();
        work.flush().unwrap();
        assert!(!work.modify_delay(&queue, ms(3_600_000)).unwrap());
        assert!(work.is_pending());
        assert!(work.cancel());
    });
}

/// `time_rt`: on one worker and on four.
#[test]
fn timer_with_threaded_runtime() {
    judge(|| {
        for workers in [1, 4] {
            let queue = pool(workers);
            let task = queue.spawn(async {
                let begin = Instant::now();
                sleep(ms(10)).await;
                begin.elapsed()
            });
            assert!(block_on(task.unwrap()) >= ms(10));
        }
    });
}

/// `time_rt`: a task that yields for ever does not starve the timers.
#[test]
fn starving() {
    judge(|| {
        let queue = pool(1);
        let task = queue.spawn(async {
            let mut slept = sleep(ms(10));
            let mut yields = 0;
            while poll_once(&mut slept).is_none() {
                yield_now().await;
                yields += 1;
            }
            yields
        });
        assert!(block_on(task.unwrap()) > 0);
    });
}

#[test]
fn interval_zero_duration() {
    judge(|| {
        let started = Periodic::start(&pool(1), Duration::ZERO, MissedTick::Burst, || ());
        let error = started.unwrap_err();
        assert!(error.to_string().contains("a period of 0"), "{error}");
    });
}

/// Returns the time of each tick in periods. The second tick is late by more than two periods.
fn ticks_of(missed: MissedTick) -> (Vec<u32>, u64) {
    let (queue, period) = (pool(1), ms(30));
    let (tx, rx) = mpsc::channel();
    let begin = Instant::now();
    let mut ticks = 0;
    let tick = move || {
        ticks += 1;
        tx.send(begin.elapsed()).unwrap();
        if ticks == 2 {
            sleep_ms(75);
        }
    };
    let periodic = Periodic::start(&queue, period, missed, tick).unwrap();
    let came: Vec<Duration> = (0..5).map(|_| rx.recv().unwrap()).collect();
    let whole = |time: &Duration| (time.as_micros() / period.as_micros()) as u32;
    (came.iter().map(whole).collect(), periodic.skipped_ticks())
}

/// The ticks that were missed come at once, one after the other: the fifth is not before the fifth period.
#[test]
fn burst() {
    judge(|| {
        let (ticks, skipped) = ticks_of(MissedTick::Burst);
        assert!(ticks.iter().zip(1..).all(|(came, number)| *came >= number), "{ticks:?}");
        assert_eq!(skipped, 0);
    });
}

/// No tick comes before its period, and missed ticks are counted and skipped.
#[test]
fn skip() {
    judge(|| {
        let (ticks, skipped) = ticks_of(MissedTick::Skip);
        assert!(skipped >= 2 && ticks[2] >= 5, "{ticks:?}, {skipped} skipped");
        assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]), "{ticks:?}");
    });
}

/// After a late one the next comes a period later.
#[test]
fn delay() {
    judge(|| {
        let (ticks, skipped) = ticks_of(MissedTick::Delay);
        assert!(ticks[2] >= 5 && ticks[3] > ticks[2] && skipped == 0, "{ticks:?}");
    });
}

/// `reset_immediately`: a tick out of turn, by the item behind the ticks.
#[test]
fn reset_immediately() {
    judge(|| {
        let queue = pool(1);
        let ticks = Counter::new();
        let count = ticks.clone();
        let tick = move || count.add_one();
        let periodic = Periodic::start(&queue, ms(3_600_000), MissedTick::Skip, tick).unwrap();
        assert!(periodic.work().modify_delay(&queue, Duration::ZERO).unwrap());
        ticks.wait_for(1);
        assert!(periodic.work().modify_delay(&queue, Duration::ZERO).is_ok());
        ticks.wait_for(2);
    });
}

#[test]
fn interval_max_duration() {
    judge(|| {
        let error = Periodic::start(&pool(1), Duration::MAX, MissedTick::Skip, || ()).unwrap_err();
        assert_eq!(error.reason(), WorkErrorReason::BeyondClock);
    });
}

/// `time_timeout`: both are ready at once: the future first.
#[test]
fn simultaneous_deadline_future_completion() {
    judge(|| {
        let done = block_on(timeout(runtime(), Duration::ZERO, async { 1 }));
        assert_eq!(done, Some(1));
    });
}

#[test]
fn completed_future_past_deadline() {
    judge(|| {
        let slow = async {
            thread::sleep(ms(5));
            1
        };
        assert_eq!(block_on(timeout(runtime(), ms(1), slow)), Some(1));
    });
}

#[test]
fn future_and_timeout_in_future() {
    judge(|| {
        let (tx, rx) = unbounded();
        thread::spawn(move || {
            sleep_ms(5);
            tx.send_now(3);
        });
        assert_eq!(block_on(timeout(runtime(), ms(50_000), rx.recv())), Some(Some(3)));
    });
}

#[test]
fn deadline_now_elapses() {
    judge(|| assert_eq!(block_on(timeout(runtime(), Duration::ZERO, pending::<()>())), None));
}

#[test]
fn deadline_future_elapses() {
    judge(|| {
        let begin = Instant::now();
        assert_eq!(block_on(timeout(runtime(), ms(20), pending::<()>())), None);
        assert!(begin.elapsed() >= ms(20));
    });
}

/// `timeout_is_not_exhausted_by_future`: one that is woken again and again does not outlive its limit.
#[test]
fn timeout_is_not_exhausted_by_future() {
    judge(|| {
        let queue = pool(1);
        let busy = async {
            let forever = async {
                loop {
                    yield_now().await;
                }
            };
            timeout(runtime(), ms(5), forever).await
        };
        assert_eq!(block_on(queue.spawn(busy).unwrap()), None::<()>);
    });
}

/// Thousands of sleeps of all lengths. Half of them are dropped, and all others end.
#[test]
fn many_sleeps() {
    judge(|| {
        let queue = pool(2);
        let tasks: Vec<_> = (0..2_000_u64)
            .map(|number| queue.spawn(sleep(Duration::from_micros(number * 37 % 20_000))).unwrap())
            .collect();
        let (even, odd): (Vec<_>, Vec<_>) =
            tasks.into_iter().enumerate().partition(|(number, _)| number % 2 == 0);
        drop(odd);
        even.into_iter().for_each(|(_, task)| block_on(task));
        wait_until(|| queue.stats().in_flight() == 0);
    });
}
