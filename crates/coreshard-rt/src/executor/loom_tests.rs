//! The model of the tally.

use std::sync::Arc;

use coreshard_platform::Loom;

use super::tally::Tally;

/// A task begins another one and is over, while the executor's end asks whether all are. The second one
/// is over only after the question.
///
/// Fails where tasks are counted out by a relaxed addition, where the counts are summed relaxed, and
/// where the accepted ones are summed first.
#[test]
fn loom_all_is_over_only_when_what_tasks_have_begun_is_too() {
    loom::model(|| {
        let tally = Arc::new(Tally::<Loom>::new(1));
        tally.accept().hand_over();
        let theirs = Arc::clone(&tally);
        let first = loom::thread::spawn(move || {
            theirs.accept().hand_over();
            drop(theirs.owed());
        });
        assert!(!tally.is_quiet(), "the second task is not over");
        first.join().expect("a task's thread does not panic");
        drop(tally.owed());
        assert!(tally.is_quiet());
    });
}

/// As above, and the second task is over at any time: once all are seen to be over, both are.
#[test]
fn loom_what_is_seen_to_be_over_has_run() {
    use coreshard_platform::{AtomicInt, Platform};
    use std::sync::atomic::Ordering::Relaxed;
    loom::model(|| {
        let tally = Arc::new(Tally::<Loom>::new(1));
        let ran = Arc::new(<Loom as Platform>::AtomicU32::new(0));
        tally.accept().hand_over();
        let (theirs, runs) = (Arc::clone(&tally), Arc::clone(&ran));
        let first = loom::thread::spawn(move || {
            let (ours, counts) = (Arc::clone(&theirs), Arc::clone(&runs));
            theirs.accept().hand_over();
            let second = loom::thread::spawn(move || {
                counts.fetch_add(1, Relaxed);
                drop(ours.owed());
            });
            runs.fetch_add(1, Relaxed);
            drop(theirs.owed());
            second.join().expect("a task's thread does not panic");
        });
        if tally.is_quiet() {
            assert_eq!(ran.load(Relaxed), 2, "what is over has run");
        }
        first.join().expect("a task's thread does not panic");
        assert!(tally.is_quiet());
    });
}
