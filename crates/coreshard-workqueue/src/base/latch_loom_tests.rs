//! Models of a latch whose waiter runs other work meanwhile. Each was seen to fail when the step that its
//! comment names was changed.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use coreshard_platform::{AtomicInt, Loom, Platform};

use super::latch::Latch;

/// A waker was stored, and its owner then waits as a helper, and sleeps: opening wakes the helper, and hands the
/// waker over.
///
/// Fails if `open` compares the state including the bit, if `move_on` drops the bit, and if
/// `wait_for_more` sleeps on the state without it.
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

/// As above, for a waiter that helped, found nothing, and now waits plainly.
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

/// A latch with a waker, and a thread that nudges and opens it.
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

/// Work arrives, and the latch opens only when its waiter has run it: the waiter is woken for it.
///
/// Fails if `nudge` wakes no waiter, and if `wait_for_more` does not check again after it has announced its
/// sleep. (On real hardware also without SeqCst; loom's loads and exchanges do not distinguish that, so there
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
