//! Tests of programs by hand, and on simulated machines.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coreshard::testing::by_hand;

testing::watch!();

#[test]
fn items_run_when_the_test_says_so() {
    by_hand(|hand| {
        let queue = coreshard::workqueue().unwrap().name("mail").build().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        for number in 0..3 {
            let order = Arc::clone(&order);
            queue.queue(move || order.lock().unwrap().push(number)).unwrap();
        }
        assert_eq!(hand.queued(), 3);
        assert!(order.lock().unwrap().is_empty());
        assert!(hand.tick());
        assert_eq!(*order.lock().unwrap(), [0]);
        assert_eq!(hand.queued(), 2);
        assert_eq!(hand.run_until_idle(), 2);
        assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
        assert!(!hand.tick());
        assert_eq!(hand.now(), Duration::ZERO);
    });
}

#[test]
fn time_passes_as_the_test_says() {
    by_hand(|hand| {
        let queue = coreshard::workqueue().unwrap().name("mail").build().unwrap();
        let runs = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&runs);
        let work = coreshard::Work::new(move |_| drop(counter.fetch_add(1, SeqCst)));
        work.queue_after(&queue, Duration::from_secs(60)).unwrap();
        assert_eq!((hand.queued(), hand.delayed()), (0, 1));
        hand.run_until_idle();
        assert_eq!(runs.load(SeqCst), 0);
        hand.advance(Duration::from_millis(59_999));
        assert_eq!(runs.load(SeqCst), 0);
        assert_eq!(hand.advance(Duration::from_millis(1)), 1);
        assert_eq!(runs.load(SeqCst), 1);
    });
}
