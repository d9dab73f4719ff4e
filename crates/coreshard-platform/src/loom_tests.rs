//! Models of the parker, of the lock and of reading what others take away. A lost wake-up is a deadlock,
//! which loom reports.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::reading::Sections;
use crate::{AtomicInt, Lock, Loom, Parker, Platform};

type Word = <Loom as Platform>::AtomicU32;

/// Two permits, of which the sleeper may take the first when it has been given the second as well. It
/// sleeps again unless it sees what was written before the second: so either it sees that, or the second
/// permit is still there.
///
/// Fails if the permit is taken by a plain store (as it once was): the store may wait in the CPU's
/// buffer while the sleeper looks, and then wipe out the second permit, unseen.
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

/// As above, if the sleeper gives up (the model's timeouts are over at once) and tries again.
/// Fails if a park that times out wipes the permit out.
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
        assert_eq!(done.load(Relaxed), 1, "what was written before the permit is seen with it");
        giver.join().expect("the giver does not panic");
    });
}

/// Fails with the unlock's wake taken out (whoever sleeps is stranded), and with the
/// unlock's `Release` made `Relaxed` (the next holder misses an addition).
#[test]
fn loom_a_lock_excludes_and_wakes_whoever_waits() {
    Loom::check(3, || {
        let lock = Arc::new(Lock::<Loom, ()>::new(()));
        let sum = Arc::new(Word::new(0));
        let adders = [1, 2].map(|addend| {
            let (lock, sum) = (Arc::clone(&lock), Arc::clone(&sum));
            loom::thread::spawn(move || {
                let _held = lock.lock();
                // Two steps on purpose: the lock makes them one.
                sum.store(sum.load(Relaxed) + addend, Relaxed);
            })
        });
        adders.into_iter().for_each(|adder| adder.join().expect("adders do not panic"));
        assert_eq!(sum.load(Relaxed), 3, "no addition is lost");
    });
}

/// A pointer that leads to one of two places, and what is in the first: 0 once it was taken away.
struct Published {
    /// 0 or 1: the place that it leads to.
    current: Word,
    first: Word,
    reader: Sections<Word>,
}

/// A reader against whoever takes away what it may be looking at. `barrier` is what both pass, the reader
/// as it enters, the other between its two words.
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
        reader.join().expect("what is read is there");
    }
}

#[test]
fn loom_what_is_read_is_not_taken_away_meanwhile() {
    Loom::check(3, model_of_reading(|| loom::sync::atomic::fence(SeqCst)));
}

/// The model sees it if the barriers are left out.
#[test]
#[should_panic(expected = "it was freed while it was read")]
fn loom_what_is_read_is_taken_away_without_the_barriers() {
    Loom::check(3, model_of_reading(|| ()));
}
