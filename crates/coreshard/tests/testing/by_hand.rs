//! Tests by hand observe a program step by step.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coreshard::testing::simulated::{self, CancellationToken, MissedTick, Periodic, Work};
use coreshard::testing::{block_on, by_hand};

use crate::programs::{AskError, Cache, Server, ask, longest, pipeline};

const DAY: Duration = Duration::from_secs(24 * 3_600);

#[test]
fn items_run_when_the_test_says_so() {
    by_hand(|hand| {
        let queue = simulated::workqueue().unwrap().name("mail").build().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        for number in 0..100 {
            let order = Arc::clone(&order);
            queue.queue(move || order.lock().unwrap().push(number)).unwrap();
        }
        assert_eq!(hand.queued(), 100);
        assert!(order.lock().unwrap().is_empty());
        for ran in 1..=50 {
            assert!(hand.tick());
            assert_eq!(order.lock().unwrap().len(), ran);
            assert_eq!(hand.queued(), 100 - ran as u64);
        }
        assert_eq!(hand.run_until_idle(), 50);
        assert_eq!(*order.lock().unwrap(), (0..100).collect::<Vec<_>>());
        assert!(!hand.tick());
        assert_eq!(hand.run_until_idle(), 0);
        assert_eq!(hand.now(), Duration::ZERO);
    });
}

#[test]
fn what_items_queue_runs_at_a_later_tick() {
    by_hand(|hand| {
        let queue = simulated::workqueue().unwrap().name("chain").build().unwrap();
        let runs = Arc::new(AtomicU32::new(0));
        let (again, counter) = (queue.clone(), Arc::clone(&runs));
        queue
            .queue(move || {
                counter.fetch_add(1, SeqCst);
                let counter = Arc::clone(&counter);
                again.clone().queue(move || drop((again, counter.fetch_add(10, SeqCst)))).unwrap();
            })
            .unwrap();
        assert!(hand.tick());
        assert_eq!((runs.load(SeqCst), hand.queued()), (1, 1));
        assert!(hand.tick());
        assert_eq!((runs.load(SeqCst), hand.queued()), (11, 0));
        assert!(!hand.tick());
    });
}

#[test]
fn what_was_cancelled_or_joined_is_no_item_any_more() {
    by_hand(|hand| {
        let queue = simulated::workqueue().unwrap().name("mail").build().unwrap();
        let first = queue.submit(|| 1).unwrap();
        let second = queue.submit(|| 2).unwrap();
        let work = Work::new(|_| panic!("it was cancelled"));
        work.queue(&queue).unwrap();
        assert_eq!(hand.queued(), 3);
        assert!(first.cancel().is_ok());
        assert!(work.cancel());
        assert_eq!(hand.queued(), 1);
        assert!(hand.tick());
        assert!(second.is_finished());
        assert!(!hand.tick());
        assert_eq!(second.join().unwrap(), 2);
        // An item that waits for another runs it, which is then not counted.
        let inner = queue.clone();
        let outer = queue.submit(move || inner.submit(|| 3).unwrap().join().unwrap()).unwrap();
        assert!(hand.tick());
        assert!(outer.is_finished());
        assert!(!hand.tick());
        assert_eq!(hand.queued(), 0);
    });
}

#[test]
fn a_wait_of_the_test_lets_items_run() {
    by_hand(|hand| {
        let queue = simulated::workqueue().unwrap().name("mail").build().unwrap();
        let runs = Arc::new(AtomicU32::new(0));
        for _ in 0..3 {
            let runs = Arc::clone(&runs);
            queue.queue(move || drop(runs.fetch_add(1, SeqCst).to_string())).unwrap();
        }
        assert_eq!(queue.submit(|| 4).unwrap().join().unwrap(), 4);
        assert_eq!(runs.load(SeqCst), 3);
        assert_eq!(longest(&queue, &["one", "three", "seven"]), 5);
        let (left, right) = simulated::join(|| 1, || 2);
        assert_eq!(left + right, 3);
        assert_eq!(hand.now(), Duration::ZERO);
    });
}

#[test]
fn a_cache_writes_once_it_was_left_alone_for_a_while() {
    by_hand(|hand| {
        let queue = simulated::workqueue().unwrap().name("cache").build().unwrap();
        let written = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&written);
        let cache = Cache::new(&queue, move |changes| list.lock().unwrap().push(changes));
        cache.add(1);
        hand.advance(Cache::QUIET / 2);
        cache.add(2);
        // The first deadline has passed and was postponed.
        hand.advance(Cache::QUIET / 2 + Duration::from_millis(10));
        assert!(written.lock().unwrap().is_empty());
        hand.advance(Cache::QUIET / 2);
        assert_eq!(*written.lock().unwrap(), [[1, 2]]);
        cache.add(3);
        cache.flush_now();
        assert_eq!(written.lock().unwrap().last().unwrap(), &[3]);
        assert_eq!(hand.delayed(), 0);
    });
}

#[test]
fn a_client_asks_again_and_gives_up_in_time() {
    by_hand(|hand| {
        let queue = simulated::workqueue().unwrap().name("client").build().unwrap();
        // No answer, one that comes too late, one in time.
        let quick = Duration::from_millis(300);
        let server = Server::new([None, Some(Duration::from_secs(5)), Some(quick)]);
        let stop = CancellationToken::new();
        let task = queue.spawn(ask(Arc::clone(&server), 5, stop.clone())).unwrap();
        hand.advance(Duration::from_secs(1));
        assert_eq!(server.asked.load(SeqCst), 1);
        hand.advance(Duration::from_millis(100));
        assert_eq!(server.asked.load(SeqCst), 2);
        hand.advance(Duration::from_millis(1_200));
        assert_eq!(server.asked.load(SeqCst), 3);
        assert!(!task.is_finished());
        hand.advance(quick);
        assert!(task.is_finished());
        assert_eq!(block_on(task), Ok(3));

        let silent = queue.spawn(ask(Server::new([]), 3, stop.clone())).unwrap();
        hand.advance(Duration::from_millis(3_699));
        assert!(!silent.is_finished());
        hand.advance(Duration::from_millis(1));
        assert_eq!(block_on(silent), Err(AskError::GaveUp { tries: 3 }));

        let cancelled = queue.spawn(ask(Server::new([]), 3, stop.clone())).unwrap();
        hand.advance(Duration::from_millis(10));
        stop.cancel();
        hand.run_until_idle();
        assert_eq!(block_on(cancelled), Err(AskError::Cancelled));
    });
}

#[test]
fn a_pipeline_has_no_more_than_its_capacity() {
    let total = by_hand(|_hand| pipeline(50, 4));
    assert_eq!(total, 42_925);
}

#[test]
fn what_is_due_runs_in_the_order_of_time() {
    by_hand(|hand| {
        let queue = simulated::workqueue().unwrap().name("alarms").build().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let works: Vec<Work> = [5, 2, 9, 1, 7]
            .into_iter()
            .map(|minutes| {
                let order = Arc::clone(&order);
                let work = Work::new(move |_| order.lock().unwrap().push(minutes));
                work.queue_after(&queue, Duration::from_secs(60 * minutes)).unwrap();
                work
            })
            .collect();
        assert_eq!(hand.delayed(), works.len());
        assert_eq!(hand.advance(Duration::from_secs(60 * 5)), 3);
        assert_eq!(*order.lock().unwrap(), [1, 2, 5]);
        assert_eq!(hand.advance(Duration::from_secs(60 * 5)), 2);
        assert_eq!(*order.lock().unwrap(), [1, 2, 5, 7, 9]);
    });
}

#[test]
fn a_week_is_over_in_a_moment() {
    by_hand(|hand| {
        let queue = simulated::workqueue().unwrap().name("reports").build().unwrap();
        let ticks = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&ticks);
        let hour = Duration::from_secs(3_600);
        let tick = move || drop(counter.fetch_add(1, SeqCst).to_string());
        let hourly = Periodic::start(&queue, hour, MissedTick::Skip, tick).unwrap();
        assert_eq!(hand.advance(7 * DAY), 7 * 24);
        assert_eq!(ticks.load(SeqCst), 7 * 24);
        assert_eq!((hourly.skipped_ticks(), hand.now()), (0, 7 * DAY));
        hourly.stop_and_wait().unwrap();
        assert_eq!(hand.advance(DAY), 0);
    });
}

#[test]
fn the_same_test_is_the_same_each_time() {
    let run = || {
        by_hand(|hand| {
            let queue = simulated::workqueue().unwrap().name("mail").build().unwrap();
            let order = Arc::new(Mutex::new(Vec::new()));
            for number in 0..20 {
                let order = Arc::clone(&order);
                let work = Work::new(move |_| order.lock().unwrap().push(number));
                // All at one moment.
                work.queue_after(&queue, DAY).unwrap();
            }
            hand.advance(DAY);
            let order = order.lock().unwrap();
            order.clone()
        })
    };
    let first = run();
    assert_eq!(first.len(), 20);
    assert_eq!(run(), first);
}

/// Waiting for room counts, on the machine's clock.
#[cfg(feature = "tower")]
#[test]
fn a_services_deadline_is_of_the_machines_time() {
    use std::convert::Infallible;
    use std::task::{Context, Waker};

    use coreshard::integration::tower::{ServiceErrorReason, WorkqueueLayer};
    use tower_service::Service;

    by_hand(|hand| {
        let queue = simulated::workqueue().unwrap().name("few").capacity(1).build().unwrap();
        let layer = WorkqueueLayer::new(queue.clone()).deadline(Duration::from_secs(2));
        let mut service = layer.service_fn(|number: u32, _| Ok::<_, Infallible>(number));
        let mut context = Context::from_waker(Waker::noop());
        let room = queue.try_reserve().unwrap();
        assert!(service.poll_ready(&mut context).is_pending());
        hand.advance(Duration::from_millis(1_500));
        drop(room);
        assert!(service.poll_ready(&mut context).is_ready());
        queue.freeze().unwrap();
        let mut response = std::pin::pin!(service.call(1));
        hand.advance(Duration::from_millis(499));
        assert!(response.as_mut().poll(&mut context).is_pending());
        hand.advance(Duration::from_millis(1));
        let std::task::Poll::Ready(Err(error)) = response.as_mut().poll(&mut context) else {
            panic!("its time has passed");
        };
        assert_eq!(error.reason(), ServiceErrorReason::DeadlineExceeded { has_begun: false });
        queue.thaw().unwrap();
    });
}
