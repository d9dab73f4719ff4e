//! Models of a latch whose waiter has something to do meanwhile. Each was seen to fail when the step that its
//! comment names was changed.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use coreshard_platform::{AtomicInt, Loom, Platform};

use super::latch::Latch;

/// A waker was left, and its owner then waits as one who helps, and sleeps: opening wakes that one, and hands the
/// waker over.
///
/// Fails with `open` that compares the state beside the bit, with `move_on` that drops the bit, and with
/// `wait_for_more` that sleeps on the state without it.
#[test]
fn loom_a_waker_is_handed_over_beside_a_helper_that_sleeps() {
    Loom::check(None, || {
        let (latch, other) = polled_and_opened();
        latch.begin_helping();
        while !latch.is_open() {
            latch.wait_for_more(|| false, None);
        }
        other.join().unwrap();
    });
}

/// As above, for one who helped, found nothing, and waits plainly.
#[test]
fn loom_a_waker_is_handed_over_beside_one_that_helped_and_sleeps() {
    Loom::check(None, || {
        let (latch, other) = polled_and_opened();
        latch.begin_helping();
        latch.stop_helping();
        assert!(latch.wait());
        other.join().unwrap();
    });
}

/// A latch with a waker, and a thread that tells of work and opens it.
fn polled_and_opened() -> (Arc<Latch<Loom>>, loom::thread::JoinHandle<()>) {
    let latch = Arc::new(Latch::<Loom>::new());
    assert!(latch.set_polled());
    let opened = Arc::clone(&latch);
    let other = loom::thread::spawn(move || {
        opened.nudge();
        // SAFETY: the Arc keeps it.
        assert!(unsafe { Latch::open(Arc::as_ptr(&opened)) }, "the waker was left");
    });
    (latch, other)
}

/// Work comes, and the latch opens only when its waiter has done it: the waiter is woken for it.
///
/// Fails with `nudge` that wakes nobody, and with `wait_for_more` that does not ask again after it has said that
/// it sleeps. (Without SeqCst, too, on the machine; loom's loads and exchanges do not tell that apart, so there
/// the work is announced by an exchange.)
#[test]
fn loom_who_waits_for_a_latch_is_woken_for_more() {
    Loom::check_long(None, 3, || {
        let latch = Arc::new(Latch::<Loom>::new());
        let work = Arc::new(<Loom as Platform>::AtomicU32::new(0));
        let other = {
            let (latch, work) = (Arc::clone(&latch), Arc::clone(&work));
            loom::thread::spawn(move || {
                work.fetch_add(1, SeqCst);
                latch.nudge();
                while work.load(SeqCst) != 2 {
                    loom::thread::yield_now();
                }
                // SAFETY: the Arc keeps it.
                unsafe { Latch::open(Arc::as_ptr(&latch)) };
            })
        };
        latch.begin_helping();
        while !latch.is_open() {
            if work.compare_exchange(1, 2, SeqCst, SeqCst).is_err() {
                latch.wait_for_more(|| work.fetch_add(0, SeqCst) == 1, None);
            }
        }
        other.join().unwrap();
    });
}
