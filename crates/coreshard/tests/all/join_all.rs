//! Forks into any number.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[test]
fn each_task_gives_its_result_in_its_place() {
    let none: [fn() -> u8; 0] = [];
    assert_eq!(coreshard::join_all(none), [0; 0]);
    assert_eq!(coreshard::join_all([|| "one".to_owned()]), ["one"]);
    let tasks = std::array::from_fn::<_, 100, _>(|nth| move || Box::new(nth));
    let queue = coreshard::workqueue().unwrap().name("join_all").build().unwrap();
    let boxes = queue.install(|| coreshard::join_all(tasks)).unwrap();
    assert!(boxes.iter().enumerate().all(|(nth, given)| **given == nth));
}

#[test]
fn each_item_is_called_once_at_any_length() {
    for length in 0..70 {
        let mut calls = vec![0; length];
        coreshard::join_each(&mut calls, |calls| *calls += 1);
        assert_eq!(calls, vec![1; length]);
    }
}

/// Tasks that have not started are dropped, and so are the results of the others.
#[test]
fn what_one_throws_comes_out_when_none_runs() {
    struct Counted<'count>(&'count AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let (made, dropped, running) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let counted = || {
        made.fetch_add(1, Relaxed);
        Counted(&dropped)
    };
    for thrower in 0..9 {
        let tasks = std::array::from_fn::<_, 9, _>(|nth| {
            let taken = counted();
            let (counted, running) = (&counted, &running);
            move || {
                let _taken = taken;
                running.fetch_add(1, Relaxed);
                let given = counted();
                running.fetch_sub(1, Relaxed);
                assert!(nth != thrower, "thrown by {nth}");
                given
            }
        });
        let thrown = catch_unwind(AssertUnwindSafe(|| coreshard::join_all(tasks))).err().unwrap();
        assert_eq!(thrown.downcast_ref::<String>(), Some(&format!("thrown by {thrower}")));
        assert_eq!(running.load(Relaxed), 0);
    }
    assert_eq!(made.load(Relaxed), dropped.load(Relaxed));
}
