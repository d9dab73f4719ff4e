//! Models of the parker, the lock and read-side sections. loom reports a lost wake-up as a deadlock.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::reading::Sections;
use crate::{AtomicInt, Lock, Loom, Parker, Platform};

type Word = <Loom as Platform>::AtomicU32;

/// Two permits are given, and the sleeper may take the first after the second was also given. It sleeps again
/// unless it sees the writes before the second. So it either sees them, or the second permit remains.
///
/// Fails if the permit is taken by a plain store, as in an earlier version. The store could wait in the CPU's
/// buffer while the sleeper looks, and then overwrite the second permit unseen.
#[test]
fn loom_a_permit_is_taken_together_with_what_was_written_before_it() {
    Loom::check(3, || {
        let (parker, done) = (Arc::new(Parker::<Loom>::new()), Arc::new(Word::new(0)));
        let givers = [1, 2].map(|_| {
            let (parker, done) = (Arc::clone(&parker), Arc::clone(&done));
            loom::thread::spawn(move || {
                done.fetch_add(1, Relaxed);
                parker.unpark();
            })
        });
        while done.load(Relaxed) < 2 {
            parker.park();
        }
        givers.into_iter().for_each(|giver| giver.join().expect("givers do not panic"));
    });
}

/// Like the model above, but the sleeper times out (the model's timeouts expire at once) and tries again.
/// Fails if a park that times out discards the permit.
#[test]
fn loom_a_permit_that_comes_with_the_timeout_is_taken() {
    Loom::check(3, || {
        let (parker, done) = (Arc::new(Parker::<Loom>::new()), Arc::new(Word::new(0)));
        let giver = {
            let (parker, done) = (Arc::clone(&parker), Arc::clone(&done));
            loom::thread::spawn(move || {
                done.store(1, Relaxed);
                parker.unpark();
            })
        };
        if !parker.park_timeout(std::time::Duration::from_secs(1)) {
            parker.park();
        }
        assert_eq!(done.load(Relaxed), 1, "writes before the permit are visible with it");
        giver.join().expect("the giver does not panic");
    });
}

/// Fails without the unlock's wake (a sleeper is stranded), and with `Relaxed` instead of the unlock's
/// `Release` (the next holder misses an addition).
#[test]
fn loom_a_lock_excludes_and_wakes_whoever_waits() {
    Loom::check(3, || {
        let lock = Arc::new(Lock::<Loom, ()>::new(()));
        let sum = Arc::new(Word::new(0));
        let adders = [1, 2].map(|addend| {
            let (lock, sum) = (Arc::clone(&lock), Arc::clone(&sum));
            loom::thread::spawn(move || {
                let _held = lock.lock();
                // Two separate steps: the lock must make them atomic.
                sum.store(sum.load(Relaxed) + addend, Relaxed);
            })
        });
        adders.into_iter().for_each(|adder| adder.join().expect("adders do not panic"));
        assert_eq!(sum.load(Relaxed), 3, "no addition is lost");
    });
}

/// A pointer to one of two places, and the content of the first: 0 once it was freed.
struct Published {
    /// The place that it points to: 0 or 1.
    current: Word,
    first: Word,
    reader: Sections<Word>,
}

/// A reader against a thread that frees what it may be reading. Both execute `barrier`: the reader as it
/// enters, the reclaimer between its two accesses.
fn model_of_reading(barrier: fn()) -> impl Fn() + Send + Sync + 'static {
    move || {
        let published = Arc::new(Published {
            current: Word::new(0),
            first: Word::new(1),
            reader: Sections::of(Word::new(0)),
        });
        let reading = Arc::clone(&published);
        let reader = loom::thread::spawn(move || {
            reading.reader.enter(barrier);
            if reading.current.load(Relaxed) == 0 {
                assert_eq!(reading.first.load(Relaxed), 1, "it was freed while it was read");
            }
            reading.reader.leave();
        });
        published.current.store(1, Relaxed);
        barrier();
        if published.reader.is_outside() {
            published.first.store(0, Relaxed);
        }
        reader.join().expect("the reader does not panic");
    }
}

#[test]
fn loom_what_is_read_is_not_taken_away_meanwhile() {
    Loom::check(3, model_of_reading(|| loom::sync::atomic::fence(SeqCst)));
}

/// The model fails if the barriers are left out.
#[test]
#[should_panic(expected = "it was freed while it was read")]
fn loom_what_is_read_is_taken_away_without_the_barriers() {
    Loom::check(3, model_of_reading(|| ()));
}
