//! `FunctionSchedulerTest.cpp`: functions that are called again and again. A scheduler there has names and
//! one thread; here each function is a `Periodic` on a queue, whose first tick comes after one period.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use coreshard::{MissedTick, Periodic, Work, Workqueue};
use judges::{Counter, judge, ms, pool, sleep_ms};

const PERIOD: u64 = 5;

fn start(queue: &Workqueue, count: &Counter) -> Periodic {
    let count = count.clone();
    Periodic::start(queue, ms(PERIOD), MissedTick::Skip, move || count.add_one()).unwrap()
}

/// `StartAndShutdown`: over and over.
#[test]
fn start_and_shutdown() {
    judge(|| {
        let (queue, count) = (pool(1), Counter::new());
        for _ in 0..3 {
            let periodic = start(&queue, &count);
            count.wait_for(count.get() + 1);
            periodic.stop_and_wait().unwrap();
            periodic.stop_and_wait().unwrap();
        }
    });
}

/// `SimpleAdd`, `NoShutdown`: nothing comes after its end.
#[test]
fn simple_add() {
    judge(|| {
        let (queue, count) = (pool(1), Counter::new());
        let periodic = start(&queue, &count);
        count.wait_for(2);
        periodic.stop_and_wait().unwrap();
        let after = count.get();
        sleep_ms(3 * PERIOD);
        assert_eq!(count.get(), after);
    });
}

/// `AddCancel`, `AddMultiple`, `AddAfterStart`: the one is stopped, the others go on.
#[test]
fn add_cancel() {
    judge(|| {
        let (queue, first, second, third) =
            (pool(2), Counter::new(), Counter::new(), Counter::new());
        let add2 = start(&queue, &first);
        let add3 = start(&queue, &second);
        first.wait_for(1);
        second.wait_for(1);
        add2.stop_and_wait().unwrap();
        let stopped = first.get();
        let add22 = start(&queue, &third);
        second.wait_for(second.get() + 2);
        third.wait_for(2);
        assert_eq!(first.get(), stopped);
        drop((add3, add22));
    });
}

/// `AddCancel2`: a function that ends itself, from its own body.
#[test]
fn self_cancel() {
    judge(|| {
        let (queue, count) = (pool(1), Counter::new());
        let (inner, runs) = (queue.clone(), count.clone());
        let work = Work::new(move |work: &Work| {
            if runs.next() == 2 {
                work.disable().unwrap();
            } else {
                work.queue_after(&inner, ms(1)).unwrap();
            }
        });
        work.queue(&queue).unwrap();
        count.wait_for(3);
        sleep_ms(5);
        assert_eq!((count.get(), work.disable_depth()), (3, 1));
    });
}

/// `AddCancel2`: a function that starts another one.
#[test]
fn add_from_function() {
    judge(|| {
        let (queue, adders, others) = (pool(1), Counter::new(), Counter::new());
        let (inner, adds, runs) = (queue.clone(), adders.clone(), others.clone());
        let kept = std::sync::Mutex::new(Vec::new());
        let tick = move || {
            if adds.next() == 1 {
                kept.lock().unwrap().push(start(&inner, &runs));
            }
        };
        let periodic = Periodic::start(&queue, ms(PERIOD), MissedTick::Skip, tick).unwrap();
        adders.wait_for(2);
        others.wait_for(2);
        drop(periodic);
    });
}

/// `AddCancelInitialDelayStress`: hundreds of delays that are put off, brought forward and taken back.
#[test]
fn add_cancel_initial_delay_stress() {
    judge(|| {
        let (queue, run) = (pool(1), Counter::new());
        let works: Vec<_> = (0..500)
            .map(|_| {
                let run = run.clone();
                Work::new(move |_| run.add_one())
            })
            .collect();
        let mut armed = vec![false; works.len()];
        let mut state = 7_usize;
        for _ in 0..5_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) % works.len();
            if state >> 60 < 4 {
                assert_eq!(works[at].cancel(), armed[at]);
                armed[at] = false;
            } else {
                let delay = ms(3_600_000 + (state >> 40) as u64 % 1000);
                assert_eq!(works[at].modify_delay(&queue, delay).unwrap(), armed[at]);
                armed[at] = true;
            }
        }
        let expected = armed.iter().filter(|armed| **armed).count();
        for work in &works {
            work.flush().unwrap();
        }
        assert_eq!(run.get(), expected);
    });
}

/// `ResetFunc`: a tick out of turn, after which the next comes in its time.
#[test]
fn reset_func() {
    judge(|| {
        let (queue, count) = (pool(1), Counter::new());
        let runs = count.clone();
        let tick = move || runs.add_one();
        let periodic = Periodic::start(&queue, ms(3_600_000), MissedTick::Skip, tick).unwrap();
        assert!(periodic.work().flush().unwrap(), "the tick is brought forward");
        assert_eq!(count.get(), 1);
        assert!(periodic.work().is_pending(), "the next one waits for its time");
    });
}

/// `ResetFuncWhileRunning`: a function that is armed while it runs runs again afterwards.
#[test]
fn reset_func_while_running() {
    judge(|| {
        let (queue, count) = (pool(2), Counter::new());
        let (inside, runs) = (Arc::new(AtomicUsize::new(0)), count.clone());
        let within = Arc::clone(&inside);
        let work = Work::new(move |_| {
            assert_eq!(within.fetch_add(1, SeqCst), 0);
            sleep_ms(5);
            within.fetch_sub(1, SeqCst);
            runs.add_one();
        });
        for _ in 0..20 {
            work.modify_delay(&queue, ms(1)).unwrap();
            sleep_ms(2);
        }
        work.flush().unwrap();
        assert!(count.get() >= 1 && inside.load(SeqCst) == 0);
    });
}

/// `AddInvalid`.
#[test]
fn add_invalid() {
    judge(|| {
        let queue = pool(1);
        let zero = Periodic::start(&queue, ms(0), MissedTick::Skip, || ()).unwrap_err();
        assert!(zero.to_string().contains("period of 0"), "{zero}");
        let never = std::time::Duration::MAX;
        assert!(Periodic::start(&queue, never, MissedTick::Skip, || ()).is_err());
    });
}

/// `NoFunctions`: a queue without any function can be dropped.
#[test]
fn no_functions() {
    judge(|| {
        let runtime = judges::runtime(1);
        let queue = runtime.workqueue().build().unwrap();
        drop(runtime.sleep(ms(1)).unwrap());
        drop(queue);
        assert_eq!(runtime.delayed_items(), 0);
    });
}

/// `AddWithRunOnce`.
#[test]
fn add_with_run_once() {
    judge(|| {
        let (queue, count) = (pool(1), Counter::new());
        let runs = count.clone();
        let once = Work::new(move |_| runs.add_one());
        once.queue_after(&queue, ms(PERIOD)).unwrap();
        count.wait_for(1);
        sleep_ms(3 * PERIOD);
        assert_eq!((count.get(), once.is_pending()), (1, false));
    });
}

/// `NoSteadyCatchup`: after a slow tick, missed ticks are skipped.
#[test]
fn no_steady_catchup() {
    judge(|| {
        let (queue, count) = (pool(1), Counter::new());
        let runs = count.clone();
        let tick = move || {
            if runs.next() == 1 {
                sleep_ms(12 * PERIOD);
            }
        };
        let periodic = Periodic::start(&queue, ms(PERIOD), MissedTick::Skip, tick).unwrap();
        count.wait_for(4);
        assert!(periodic.skipped_ticks() >= 11, "{} skipped", periodic.skipped_ticks());
    });
}

/// `SteadyCatchup`: with bursts they all come, and none is counted as skipped.
#[test]
fn steady_catchup() {
    judge(|| {
        let (queue, count) = (pool(1), Counter::new());
        let (runs, begin) = (count.clone(), std::time::Instant::now());
        let tick = move || {
            if runs.next() == 1 {
                sleep_ms(12 * PERIOD);
            }
        };
        let periodic = Periodic::start(&queue, ms(PERIOD), MissedTick::Burst, tick).unwrap();
        count.wait_for(14);
        assert!(begin.elapsed() >= ms(14 * PERIOD), "ticks came before their time");
        assert_eq!(periodic.skipped_ticks(), 0);
    });
}

/// `cancelFunctionAndWait`, `CancelAndWaitOnRunningFunc`.
#[test]
fn cancel_and_wait_on_running_func() {
    judge(|| {
        let (queue, inside, over) = (pool(1), Counter::new(), Counter::new());
        let (begins, ends) = (inside.clone(), over.clone());
        let tick = move || {
            begins.add_one();
            sleep_ms(10);
            ends.add_one();
        };
        let periodic = Periodic::start(&queue, ms(1), MissedTick::Skip, tick).unwrap();
        inside.wait_for(1);
        periodic.stop_and_wait().unwrap();
        assert_eq!(inside.get(), over.get());
    });
}

/// `cancelAllFunctionsAndWait`, `CancelAllAndWaitWithOneRunningAndOneWaiting`.
#[test]
fn cancel_all_functions_and_wait() {
    judge(|| {
        let queue = judges::queue(1, |builder| builder.ordered());
        let counts: Vec<_> = (0..5).map(|_| Counter::new()).collect();
        let all: Vec<_> = counts.iter().map(|count| start(&queue, count)).collect();
        counts.iter().for_each(|count| count.wait_for(1));
        all.iter().for_each(|periodic| periodic.stop_and_wait().unwrap());
        let before: Vec<_> = counts.iter().map(Counter::get).collect();
        sleep_ms(3 * PERIOD);
        assert_eq!(counts.iter().map(Counter::get).collect::<Vec<_>>(), before);
    });
}

/// `ConcurrentCancelFunctionAndWait`.
#[test]
fn concurrent_cancel_function_and_wait() {
    judge(|| {
        let (queue, count) = (pool(1), Counter::new());
        let periodic = start(&queue, &count);
        count.wait_for(1);
        thread::scope(|threads| {
            (0..5).for_each(|_| {
                threads.spawn(|| periodic.stop_and_wait().unwrap());
            });
        });
        let after = count.get();
        sleep_ms(3 * PERIOD);
        assert_eq!(count.get(), after);
    });
}

/// A tick that panics: the next one comes in its time.
#[test]
fn a_tick_that_panics() {
    judge(|| {
        let (queue, count) = (pool(1), Counter::new());
        let runs = count.clone();
        let tick = move || assert!(runs.next() != 0, "the first tick panics");
        let periodic = Periodic::start(&queue, ms(1), MissedTick::Skip, tick).unwrap();
        count.wait_for(4);
        drop(periodic);
    });
}

/// From inside its own tick a stop that waits would wait for itself: an error.
#[test]
fn stop_and_wait_inside_itself() {
    judge(|| {
        let (queue, place) = (pool(1), Arc::new(std::sync::Mutex::new(None::<Periodic>)));
        let (told, inner) = (Counter::new(), Arc::clone(&place));
        let refused = told.clone();
        let tick = move || {
            if let Some(periodic) = &*inner.lock().unwrap()
                && periodic.stop_and_wait().is_err()
            {
                refused.add_one();
                periodic.stop();
            }
        };
        let periodic = Periodic::start(&queue, ms(1), MissedTick::Skip, tick).unwrap();
        *place.lock().unwrap() = Some(periodic);
        told.wait_for(1);
        let periodic = place.lock().unwrap().take();
        drop(periodic);
    });
}
