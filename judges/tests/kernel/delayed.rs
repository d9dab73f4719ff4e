//! Delayed work: `queue_delayed_work`, `mod_delayed_work`, `flush_delayed_work`.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use coreshard::{Work, WorkErrorReason};
use judges::{judge, ms, pool, sleep_ms};

use crate::work::{Gated, counting};

/// An item that tells when it runs.
fn telling() -> (Work, mpsc::Receiver<Instant>) {
    let (tx, rx) = mpsc::channel();
    (Work::new(move |_| tx.send(Instant::now()).unwrap()), rx)
}

/// The item runs after the delay, not earlier.
#[test]
fn queue_delayed_work_does_not_run_early() {
    judge(|| {
        let queue = pool(1);
        let (work, ran) = telling();
        for delay in [1, 5, 20] {
            let begin = Instant::now();
            assert!(work.queue_after(&queue, ms(delay)).unwrap());
            assert!(ran.recv().unwrap() - begin >= ms(delay));
            work.flush().unwrap();
        }
    });
}

/// "If @delay is zero, it will be scheduled for immediate execution."
#[test]
fn a_delay_of_zero_queues_at_once() {
    judge(|| {
        let queue = pool(1);
        let (work, runs) = counting();
        assert!(work.queue_after(&queue, Duration::ZERO).unwrap());
        queue.flush().unwrap();
        assert_eq!(runs.get(), 1);
    });
}

/// "False if it was already on a queue", or waits for its time; the first time stands.
#[test]
fn queue_delayed_work_is_false_while_it_is_pending() {
    judge(|| {
        let queue = pool(1);
        let (work, ran) = telling();
        assert!(work.queue_after(&queue, ms(3_600_000)).unwrap());
        assert!(!work.queue_after(&queue, ms(1)).unwrap());
        assert!(!work.queue(&queue).unwrap(), "nor can it be queued beside its timer");
        assert!(work.is_pending());
        assert!(ran.recv_timeout(ms(10)).is_err());
        assert!(work.cancel());
    });
}

/// `mod_delayed_work`: "false if it was idle and queued, true if it was pending and its timer was modified".
#[test]
fn mod_delayed_work_brings_forward() {
    judge(|| {
        let queue = pool(1);
        let (work, ran) = telling();
        assert!(!work.modify_delay(&queue, ms(3_600_000)).unwrap());
        assert!(work.modify_delay(&queue, ms(1)).unwrap());
        ran.recv().unwrap();
        assert!(ran.recv_timeout(ms(20)).is_err(), "it ran once");
    });
}

#[test]
fn mod_delayed_work_puts_off() {
    judge(|| {
        let queue = pool(1);
        let (work, ran) = telling();
        // Repeat if this thread was preempted until the first delay had ended.
        loop {
            work.queue_after(&queue, ms(40)).unwrap();
            let begin = Instant::now();
            let put_off = work.modify_delay(&queue, ms(60)).unwrap();
            let end = ran.recv().unwrap();
            if put_off {
                assert!(end - begin >= ms(60));
                break;
            }
            ran.recv().unwrap();
        }
    });
}

/// "If @delay is zero, @work is guaranteed to be scheduled immediately regardless of its current state."
#[test]
fn mod_delayed_work_to_zero_runs_at_once() {
    judge(|| {
        let queue = pool(1);
        let (work, runs) = counting();
        work.queue_after(&queue, ms(3_600_000)).unwrap();
        assert!(work.modify_delay(&queue, Duration::ZERO).unwrap());
        queue.flush().unwrap();
        assert_eq!(runs.get(), 1);
    });
}

/// An item that is already queued is removed and waits for its new time.
#[test]
fn mod_delayed_work_takes_back_what_is_queued() {
    judge(|| {
        let queue = pool(1);
        let (work, ran) = telling();
        queue.freeze().unwrap();
        work.queue(&queue).unwrap();
        let begin = Instant::now();
        assert!(work.modify_delay(&queue, ms(30)).unwrap());
        queue.thaw().unwrap();
        assert!(ran.recv().unwrap() - begin >= ms(30));
        assert!(ran.recv_timeout(ms(20)).is_err(), "it ran once");
    });
}

/// While it runs it is not pending: the next queueing is armed beside the run, and comes after it.
#[test]
fn mod_delayed_work_while_it_runs() {
    judge(|| {
        let queue = pool(2);
        let gated = Gated::new();
        gated.work.queue(&queue).unwrap();
        gated.wait_until_begun();
        assert!(!gated.work.modify_delay(&queue, ms(1)).unwrap());
        sleep_ms(10);
        assert_eq!(gated.runs.get(), 0, "it is not reentered");
        gated.go_on();
        gated.wait_until_begun();
        gated.go_on();
        gated.work.flush().unwrap();
        assert_eq!(gated.runs.get(), 2);
    });
}

/// `flush_delayed_work`: "the timer is canceled and the item queued for immediate execution".
#[test]
fn flush_delayed_work_does_not_wait_for_the_timer() {
    judge(|| {
        let queue = pool(1);
        let (work, runs) = counting();
        work.queue_after(&queue, ms(3_600_000)).unwrap();
        assert!(work.flush().unwrap());
        assert_eq!(runs.get(), 1);
        assert!(!work.flush().unwrap(), "it is idle");
    });
}

/// `flush_workqueue` and `drain_workqueue` know nothing of a delay that is not over.
#[test]
fn a_flush_of_the_queue_does_not_wait_for_timers() {
    judge(|| {
        let queue = pool(1);
        let (work, runs) = counting();
        work.queue_after(&queue, ms(3_600_000)).unwrap();
        queue.flush().unwrap();
        queue.drain().unwrap();
        assert_eq!((runs.get(), work.is_pending()), (0, true));
        assert!(work.cancel());
    });
}

/// Of many delays each runs once, in the order of their times.
#[test]
fn delays_end_in_the_order_of_their_times() {
    judge(|| {
        let queue = judges::queue(1, |builder| builder.ordered());
        let seen = Arc::new(Mutex::new(Vec::new()));
        // Each with the moments between which it is due.
        let due: Vec<(Instant, Instant)> = (0..20_u64)
            .map(|number| {
                let seen = Arc::clone(&seen);
                let work = Work::new(move |_| seen.lock().unwrap().push(number as usize));
                let delay = ms(20 + (number * 7) % 20);
                let before = Instant::now();
                work.queue_after(&queue, delay).unwrap();
                (before + delay, Instant::now() + delay)
            })
            .collect();
        judges::wait_until(|| seen.lock().unwrap().len() == 20);
        let seen = seen.lock().unwrap();
        for (at, earlier) in seen.iter().enumerate() {
            for later in &seen[at + 1..] {
                assert!(due[*earlier].0 <= due[*later].1, "{earlier} ran before {later}");
            }
        }
    });
}

/// The queue lives as long as a delay that ends in it.
#[test]
fn a_delay_outlives_the_last_handle() {
    judge(|| {
        let queue = pool(1);
        let (work, ran) = telling();
        work.queue_after(&queue, ms(10)).unwrap();
        drop(queue);
        ran.recv().unwrap();
    });
}

/// A delay that exceeds the clock's range is an error. The kernel's delay wraps.
#[test]
fn a_delay_beyond_the_clock() {
    judge(|| {
        let queue = pool(1);
        let (work, _) = counting();
        let error = work.queue_after(&queue, Duration::MAX).unwrap_err();
        assert_eq!(error.reason(), WorkErrorReason::BeyondClock);
        assert!(!work.is_pending() && work.queue(&queue).unwrap());
    });
}

/// A timer expires during a cancellation: either the item runs, or the cancellation reports that it does not.
#[test]
fn a_cancel_races_with_the_timer() {
    judge(|| {
        let queue = pool(1);
        let (work, runs) = counting();
        let mut expected = 0;
        for round in 0..300 {
            work.queue_after(&queue, Duration::from_micros(50 + round)).unwrap();
            std::thread::sleep(Duration::from_micros(60 + round));
            expected += usize::from(!work.cancel_and_wait().unwrap());
            assert_eq!(runs.get(), expected, "round {round}");
        }
    });
}
