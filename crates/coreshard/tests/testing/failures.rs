//! How tests report failures, and how these are replayed. Intended failures run in separate processes.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use coreshard::testing::simulated::{self, Workqueue};
use coreshard::testing::{Check, Preemption, block_on, by_hand, check, preemption_point};

/// Runs a test that fails on purpose.
fn fail(test: &str, replay: Option<&str>) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", &format!("failures::planted::{test}")]);
    command.env("RUST_BACKTRACE", "0").env_remove("CORESHARD_TEST_SEEDS");
    match replay {
        Some(replay) => command.env("CORESHARD_TEST_REPLAY", replay),
        None => command.env_remove("CORESHARD_TEST_REPLAY"),
    };
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(!status.success(), "{test} was to fail: {text}");
    assert!(text.contains("1 failed"), "{text}");
    text
}

/// The part of a failure that reproduces it.
fn replay_line(text: &str) -> &str {
    let mut lines = text.lines().filter(|line| line.starts_with("run it again: "));
    let line = lines.next().unwrap_or_else(|| panic!("it says how to run it again: {text}"));
    assert!(lines.next().is_none(), "{text}");
    line
}

/// Without what tells one process from another.
fn told(text: &str) -> String {
    let told = text.lines().skip_while(|line| !line.contains("panicked at crates/coreshard/tests"));
    let told = told.take_while(|line| !line.starts_with("failures:"));
    let lines: Vec<&str> = told.filter(|line| !line.starts_with("thread '")).collect();
    lines.join("\n")
}

#[test]
fn a_planted_bug_is_found_and_its_line_brings_it_about_again() {
    for test in ["lost_update", "lost_update_between_accesses", "deadlock"] {
        let first = fail(test, None);
        let line = replay_line(&first);
        let replay =
            line.split_whitespace().find_map(|word| word.strip_prefix("CORESHARD_TEST_REPLAY="));
        assert!(line.ends_with(&format!("-- --exact failures::planted::{test}")), "{line}");
        let again = fail(test, Some(replay.unwrap()));
        assert_eq!(told(&again), told(&first), "{test}");
        assert!(!again.contains("this run differs"), "{again}");
    }
}

#[test]
fn a_deadlock_is_told_with_what_waits_where() {
    let text = fail("deadlock", None);
    assert!(text.contains("is deadlocked"), "{text}");
    let waits = |name: &str| {
        text.lines().any(|line| {
            line.contains("is inside item") && line.contains(name) && line.contains("failures.rs:")
        })
    };
    assert!(waits("cross_one") && waits("cross_other"), "{text}");
    let text = fail("deadlock_by_hand", None);
    assert!(
        text.contains("waits for what cannot come") || text.contains("is deadlocked"),
        "{text}"
    );
}

#[test]
fn each_kind_of_failure_has_its_words() {
    let cases = [
        ("panics", "the test panicked: seven is not eight"),
        ("item_panics", "an item of \"mail\": not reported"),
        ("queue_in_a_static", "queues are left at the test's end, with their workers: \"static\""),
        ("silent_wait", "has not returned for 500ms of real time"),
        ("never_ends", "did not finish"),
        ("inside_another", "tests cannot be nested"),
        ("looks_by_hand", "repeatedly checks something"),
        ("item_panics_by_hand", "an item of \"mail\": not reported"),
        ("time_is_waited_for_by_hand", "virtual time passes by advance alone"),
    ];
    for (test, words) in cases {
        let text = fail(test, None);
        assert!(text.contains(words), "{test}: {text}");
    }
    let text = fail("silent_wait", None);
    assert!(text.contains("inside item") && text.contains("silent_wait"), "{text}");
}

#[test]
fn a_replay_of_another_run_says_so() {
    let text = fail("panics", Some("3-5-0123456789abcdef"));
    assert!(text.contains("this run differs from the replayed one"), "{text}");
    let text = fail("panics", Some("nonsense"));
    assert!(text.contains("invalid replay seed"), "{text}");
}

/// Tests that fail.
mod planted {
    use super::*;

    /// Adds one, in two items: the value read in the first may be outdated in the second.
    fn add_one(queue: &Workqueue, sum: &Arc<AtomicU32>) {
        let (next, sum) = (queue.clone(), Arc::clone(sum));
        let read = move || {
            let seen = sum.load(SeqCst);
            next.queue(move || sum.store(seen + 1, SeqCst)).unwrap();
        };
        queue.queue(read).unwrap();
    }

    #[test]
    #[ignore = "fails on purpose"]
    fn lost_update() {
        // In order on one CPU: the second starts when the first has finished, but not in each schedule.
        Check::new().seeds(50).run(|| {
            let queue = simulated::workqueue().unwrap().name("sum").build().unwrap();
            let later = simulated::workqueue().unwrap().name("later").build().unwrap();
            let sum = Arc::new(AtomicU32::new(0));
            add_one(&queue, &sum);
            let (again, total) = (queue.clone(), Arc::clone(&sum));
            later.queue(move || add_one(&again, &total)).unwrap();
            later.drain().unwrap();
            queue.drain().unwrap();
            assert_eq!(sum.load(SeqCst), 2);
        });
    }

    #[test]
    #[ignore = "fails on purpose"]
    fn lost_update_between_accesses() {
        Check::new().seeds(50).preemption(Preemption::Anywhere).run(|| {
            let queue = simulated::workqueue().unwrap().name("sum").build().unwrap();
            let sum = Arc::new(AtomicU32::new(0));
            for _ in 0..2 {
                let sum = Arc::clone(&sum);
                let add = move || {
                    let seen = sum.load(SeqCst);
                    preemption_point();
                    sum.store(seen + 1, SeqCst);
                };
                queue.queue(add).unwrap();
            }
            queue.drain().unwrap();
            assert_eq!(sum.load(SeqCst), 2);
        });
    }

    /// Two ordered queues, each with an item that waits for one behind the other queue's.
    fn cross() {
        let ordered =
            |name: &str| simulated::workqueue().unwrap().name(name).ordered().build().unwrap();
        let (one, other) = (ordered("one"), ordered("other"));
        let first = cross_one(&one, &other);
        let second = cross_other(&one, &other);
        first.join().unwrap();
        second.join().unwrap();
    }

    fn cross_one(one: &Workqueue, other: &Workqueue) -> simulated::JoinHandle<()> {
        let other = other.clone();
        one.submit(move || other.submit(|| ()).unwrap().join().unwrap()).unwrap()
    }

    fn cross_other(one: &Workqueue, other: &Workqueue) -> simulated::JoinHandle<()> {
        let one = one.clone();
        other.submit(move || one.submit(|| ()).unwrap().join().unwrap()).unwrap()
    }

    #[test]
    #[ignore = "fails on purpose"]
    fn deadlock() {
        check(cross);
    }

    #[test]
    #[ignore = "fails on purpose"]
    fn deadlock_by_hand() {
        by_hand(|_hand| cross());
    }

    #[test]
    #[ignore = "fails on purpose"]
    fn panics() {
        check(|| panic!("seven is not eight"));
    }

    #[test]
    #[ignore = "fails on purpose"]
    fn item_panics() {
        check(|| {
            let queue = simulated::workqueue().unwrap().name("mail").build().unwrap();
            queue.queue(|| panic!("not reported")).unwrap();
        });
    }

    #[test]
    #[ignore = "fails on purpose"]
    fn item_panics_by_hand() {
        by_hand(|hand| {
            let queue = simulated::workqueue().unwrap().name("mail").build().unwrap();
            queue.queue(|| panic!("not reported")).unwrap();
            hand.tick();
            unreachable!("the tick has reported it");
        });
    }

    #[test]
    #[ignore = "fails on purpose"]
    fn queue_in_a_static() {
        static QUEUE: OnceLock<Workqueue> = OnceLock::new();
        check(|| {
            let queue = QUEUE
                .get_or_init(|| simulated::workqueue().unwrap().name("static").build().unwrap());
            assert_eq!(queue.submit(|| 1).unwrap().join().unwrap(), 1);
        });
    }

    #[test]
    #[ignore = "fails on purpose"]
    fn silent_wait() {
        Check::new().patience(Duration::from_millis(500)).run(|| {
            let queue = simulated::workqueue().unwrap().name("silent").build().unwrap();
            let lock = Arc::new(Mutex::new(()));
            let held = lock.lock().unwrap();
            let wanted = Arc::clone(&lock);
            // The lock's holder waits for a thread that wants the lock.
            queue.submit(move || drop(wanted.lock().map(drop))).unwrap().join().unwrap();
            drop(held);
        });
    }

    #[test]
    #[ignore = "fails on purpose"]
    fn never_ends() {
        Check::new().turn_limit(100_000).run(|| {
            let queue = simulated::workqueue().unwrap().name("circle").build().unwrap();
            let again = simulated::Work::new({
                let queue = queue.clone();
                move |work| drop(work.queue(&queue).unwrap().to_string())
            });
            again.queue(&queue).unwrap();
            queue.flush().unwrap();
            queue.drain().unwrap();
        });
    }

    #[test]
    #[ignore = "fails on purpose"]
    fn inside_another() {
        check(|| check(|| ()));
    }

    #[test]
    #[ignore = "fails on purpose"]
    fn looks_by_hand() {
        by_hand(|_hand| {
            let queue = simulated::workqueue().unwrap().name("mail").build().unwrap();
            let handle = queue.submit(|| 1).unwrap();
            while !handle.is_finished() {
                std::hint::spin_loop();
            }
        });
    }

    #[test]
    #[ignore = "fails on purpose"]
    fn time_is_waited_for_by_hand() {
        by_hand(|_hand| {
            block_on(simulated::runtime().unwrap().sleep(Duration::from_secs(1)).unwrap());
        });
    }
}
