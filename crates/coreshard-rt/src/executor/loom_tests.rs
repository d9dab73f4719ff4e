//! The model of the task counts.

use std::sync::Arc;

use coreshard_platform::Loom;

use super::task_counts::TaskCounts;

/// A task begins another one and finishes, while the executor's shutdown asks whether all tasks have
/// finished. The second task finishes only after the question.
///
/// Fails if tasks are counted out by a relaxed addition, if the counts are summed with relaxed loads, and if
/// the accepted tasks are summed first.
#[test]
fn loom_all_is_over_only_when_what_tasks_have_begun_is_too() {
    Loom::check(None, || {
        let task_counts = Arc::new(TaskCounts::<Loom>::new(1));
        task_counts.accept().forget();
        let theirs = Arc::clone(&task_counts);
        let first = loom::thread::spawn(move || {
            theirs.accept().forget();
            drop(theirs.guard());
        });
        assert!(!task_counts.all_finished(), "the second task has not finished");
        first.join().expect("a task's thread does not panic");
        drop(task_counts.guard());
        assert!(task_counts.all_finished());
    });
}

/// As above, but the second task finishes at any time. Once all tasks are seen to have finished, both have.
#[test]
fn loom_what_is_seen_to_be_over_has_run() {
    use std::sync::atomic::Ordering::Relaxed;

    use coreshard_platform::{AtomicInt, Platform};
    Loom::check(None, || {
        let task_counts = Arc::new(TaskCounts::<Loom>::new(1));
        let ran = Arc::new(<Loom as Platform>::AtomicU32::new(0));
        task_counts.accept().forget();
        let (theirs, runs) = (Arc::clone(&task_counts), Arc::clone(&ran));
        let first = loom::thread::spawn(move || {
            let (ours, counts) = (Arc::clone(&theirs), Arc::clone(&runs));
            theirs.accept().forget();
            let second = loom::thread::spawn(move || {
                counts.fetch_add(1, Relaxed);
                drop(ours.guard());
            });
            runs.fetch_add(1, Relaxed);
            drop(theirs.guard());
            second.join().expect("a task's thread does not panic");
        });
        if task_counts.all_finished() {
            assert_eq!(ran.load(Relaxed), 2, "a finished task has run");
        }
        first.join().expect("a task's thread does not panic");
        assert!(task_counts.all_finished());
    });
}
