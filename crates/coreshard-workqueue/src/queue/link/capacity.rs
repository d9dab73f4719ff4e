//! How many items may wait in a queue: permits, and the producers that wait for one.
//!
//! An item holds a permit from the moment it is accepted until it begins. The word:
//!
//! | bits | meaning | written by |
//! |---|---|---|
//! | 0 | `WAITED`: producers wait. Who has none takes no permit, and who gives one back hands it over | under the lock |
//! | 1–63 | free permits, signed: below zero after items that are let in beyond the capacity | producers, workers |
//!
//! *First come, first served.* While somebody waits, permits go to producers under the lock alone, by their
//! numbers: nobody who comes later overtakes.
//!
//! *No wake-up is lost.* A producer puts itself on the list, sets `WAITED`, and then looks for free permits
//! once more, all under the lock. Who gives a permit back adds to the same word: before the bit was set, so
//! that the look finds the permit; or after, so that it sees the bit, and comes to the lock itself. Both are
//! read-modify-writes of one word: one of them comes first.
//!
//! *Who ends the wait* (a permit, or the queue's end) writes the outcome under the lock, and wakes outside.
//! A waiter that leaves early finds the outcome under the lock, too, and gives the permit on.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::task::{Context, Poll, Waker};

use coreshard_platform::user;
use coreshard_platform::{AtomicInt, Lock, Padded, Platform};

use crate::base::error::RefusedReason;
use crate::base::latch::Latch;
use crate::insight::diagnostic::say_panic;
use crate::pool::wait_for_workers;

const WAITED: u64 = 1;
/// A permit.
const ONE: u64 = 2;

fn free(word: u64) -> i64 {
    word.cast_signed() >> 1
}

/// What becomes of an item for which there is no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// Its producer waits.
    Wait,
    /// It is refused, and counted as such.
    Refuse,
    /// It is refused for now: it is about to wait.
    Try,
    /// It is let in: whoever brings it cannot wait, and it was there before.
    Exceed,
}

/// A queue's permits.
pub(crate) struct Capacity<P: Platform> {
    word: Padded<P::AtomicU64>,
    /// Items that were refused because there was no permit.
    refused: P::AtomicU64,
    producers: Lock<P, Producers<P>>,
}

/// All of it `L:`.
struct Producers<P: Platform> {
    /// Those that wait, by their numbers, which are those of their coming.
    waiting: BTreeMap<u64, Arc<Producer<P>>>,
    next: u64,
    permits: usize,
    /// Why nobody is let in any more.
    closed: Option<RefusedReason>,
    /// Callers inside `drain`: until they are back, the queue's own items alone are let in.
    drainers: usize,
}

/// Who waits for a permit.
struct Producer<P: Platform> {
    /// It is an item of the queue.
    is_inside: bool,
    outcome: Lock<P, Outcome>,
    /// Opened after the outcome was written.
    over: Latch<P>,
}

enum Outcome {
    /// With the waker of a future.
    None(Option<Waker>),
    Granted,
    Refused(RefusedReason),
    /// Whoever waited has it, or has gone.
    Taken,
}

/// Whose wait is over, to be woken when no lock is held.
#[must_use]
struct Woken<P: Platform>(Vec<(Arc<Producer<P>>, Option<Waker>)>);

impl<P: Platform> Woken<P> {
    fn none() -> Self {
        Self(Vec::new())
    }

    /// Under the lock of the producers.
    fn add(&mut self, producer: Arc<Producer<P>>, outcome: Outcome) {
        let before = std::mem::replace(&mut *producer.outcome.lock(), outcome);
        let waker = match before {
            Outcome::None(waker) => waker,
            _ => unreachable!("who is on the list waits"),
        };
        self.0.push((producer, waker));
    }

    fn wake(self) {
        for (producer, waker) in self.0 {
            // SAFETY: this Arc keeps it.
            unsafe { Latch::open(&raw const producer.over) };
            if let Some(waker) = waker {
                say_panic(user::wake(waker), "a waker panicked");
            }
        }
    }
}

impl<P: Platform> Capacity<P> {
    pub(crate) fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self {
            word: Padded::new(P::AtomicU64::new(permits as u64 * ONE)),
            refused: P::AtomicU64::new(0),
            producers: Lock::new(Producers {
                waiting: BTreeMap::new(),
                next: 0,
                permits,
                closed: None,
                drainers: 0,
            }),
        })
    }

    /// Takes a permit, if one is free and nobody waits for it.
    ///
    /// A compare-exchange, and no subtraction that is taken back: that would have others find the queue full
    /// which is not.
    pub(crate) fn try_take(&self) -> bool {
        let mut seen = self.word.load(Relaxed);
        while seen & WAITED == 0 && free(seen) > 0 {
            // Acquire: the item whose permit it was has begun.
            match self.word.compare_exchange(seen, seen - ONE, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Takes a permit where one is free, or none has to be.
    pub(crate) fn let_in(&self, when_full: WhenFull) -> bool {
        if when_full == WhenFull::Exceed {
            self.word.fetch_sub(ONE, Relaxed);
            return true;
        }
        self.try_take()
    }

    /// Gives a permit back, or on to who waits longest. May wake a user's future.
    pub(crate) fn give_back(&self) {
        // Release: who takes it next comes after. The bit: see the file's head.
        if self.word.fetch_add(ONE, AcqRel) & WAITED != 0 {
            self.serve();
        }
    }

    #[cold]
    fn serve(&self) {
        self.wake_after(|producers| self.grant(producers));
    }

    /// Changes what is under the lock, and wakes the producers whose wait that ends without it.
    fn wake_after(&self, change: impl FnOnce(&mut Producers<P>) -> Woken<P>) {
        let woken = change(&mut self.producers.lock());
        woken.wake();
    }

    /// Hands free permits to those that wait, in order; takes the bit away with the last of them.
    fn grant(&self, producers: &mut Producers<P>) -> Woken<P> {
        let mut woken = Woken::none();
        while let Some(first) = producers.waiting.first_entry() {
            // While the bit is set nobody but the lock's holder takes what is free; items that exceed
            // the capacity may make it less, and then it is exceeded by one more.
            if free(self.word.load(Acquire)) <= 0 {
                return woken;
            }
            self.word.fetch_sub(ONE, AcqRel);
            woken.add(first.remove(), Outcome::Granted);
        }
        self.word.fetch_and(!WAITED, AcqRel);
        woken
    }

    /// Joins those that wait. `is_inside`: the producer is an item of the queue.
    ///
    /// # Errors
    /// Where nobody is let in.
    pub(crate) fn wait_in_line(
        self: &Arc<Self>,
        is_inside: bool,
    ) -> Result<WaitingProducer<P>, RefusedReason> {
        self.join(is_inside, true)
    }

    /// `looks_again` is true but in a model that is to fail.
    fn join(
        self: &Arc<Self>,
        is_inside: bool,
        looks_again: bool,
    ) -> Result<WaitingProducer<P>, RefusedReason> {
        let mut producers = self.producers.lock();
        if let Some(reason) = producers.closed {
            return Err(reason);
        }
        if producers.drainers > 0 && !is_inside {
            return Err(RefusedReason::Draining);
        }
        let number = producers.next;
        producers.next += 1;
        let outcome = Lock::new(Outcome::None(None));
        let producer = Arc::new(Producer { is_inside, outcome, over: Latch::new() });
        producers.waiting.insert(number, Arc::clone(&producer));
        self.word.fetch_or(WAITED, AcqRel);
        let woken = if looks_again { self.grant(&mut producers) } else { Woken::none() };
        drop(producers);
        woken.wake();
        let capacity = Arc::clone(self);
        let process_generation = P::process_generation();
        Ok(WaitingProducer { capacity, producer, number, process_generation })
    }

    /// Nobody is let in any more; who waits hears of it.
    pub(crate) fn close(&self, reason: RefusedReason) {
        self.wake_after(|producers| {
            producers.closed.get_or_insert(reason);
            self.refuse(producers, reason, |_| true)
        });
    }

    /// Until [`Self::end_drain`], the queue's own items alone are let in; who else waits hears of it.
    pub(crate) fn begin_drain(&self) {
        self.wake_after(|producers| {
            producers.drainers += 1;
            self.refuse(producers, RefusedReason::Draining, |producer| !producer.is_inside)
        });
    }

    pub(crate) fn end_drain(&self) {
        self.producers.lock().drainers -= 1;
    }

    fn refuse(
        &self,
        producers: &mut Producers<P>,
        reason: RefusedReason,
        whom: impl Fn(&Producer<P>) -> bool,
    ) -> Woken<P> {
        let mut woken = Woken::none();
        let (gone, left) = std::mem::take(&mut producers.waiting)
            .into_iter()
            .partition(|(_, producer)| whom(producer));
        producers.waiting = left;
        for (_, producer) in gone {
            woken.add(producer, Outcome::Refused(reason));
        }
        if producers.waiting.is_empty() {
            self.word.fetch_and(!WAITED, AcqRel);
        }
        woken
    }

    /// Changes how many permits there are. Items that hold one keep it, also where they are more.
    pub(crate) fn set(&self, permits: usize) {
        self.wake_after(|producers| {
            let before = std::mem::replace(&mut producers.permits, permits);
            // Wraps, and so subtracts where there are fewer.
            let more = (permits as u64).wrapping_sub(before as u64).wrapping_mul(ONE);
            self.word.fetch_add(more, AcqRel);
            self.grant(producers)
        });
    }

    /// There is no permit for an item, which does not wait for one.
    pub(crate) fn refuse_one(&self, when_full: WhenFull) -> RefusedReason {
        if when_full == WhenFull::Refuse {
            self.refused.fetch_add(1, Relaxed);
        }
        RefusedReason::Full
    }

    /// Permits in all; `None` in a forked process where somebody holds the lock who is not there.
    pub(crate) fn permits(&self, is_forked: bool) -> Option<usize> {
        if is_forked {
            return self.producers.try_lock().map(|producers| producers.permits);
        }
        Some(self.producers.lock().permits)
    }

    /// Permits in all, items that hold one, producers that wait, and items that were refused.
    pub(crate) fn counts(&self) -> CapacityCounts {
        let producers = self.producers.lock();
        let taken = producers.permits as i64 - free(self.word.load(Relaxed));
        CapacityCounts {
            permits: producers.permits as u64,
            taken: taken.max(0).cast_unsigned(),
            waiting: producers.waiting.len() as u64,
            refused: self.refused.load(Relaxed),
        }
    }
}

/// See [`Capacity::counts`].
pub(crate) struct CapacityCounts {
    pub(crate) permits: u64,
    pub(crate) taken: u64,
    pub(crate) waiting: u64,
    pub(crate) refused: u64,
}

/// A place among those that wait; dropping it leaves that, and gives on a permit that was handed over.
pub(crate) struct WaitingProducer<P: Platform> {
    capacity: Arc<Capacity<P>>,
    producer: Arc<Producer<P>>,
    number: u64,
    process_generation: u32,
}

impl<P: Platform> WaitingProducer<P> {
    pub(crate) fn is_over(&self) -> bool {
        self.producer.over.is_open()
    }

    /// Sleeps until it is over; false, at once, in a process that was forked meanwhile.
    pub(crate) fn sleep(&self) -> bool {
        wait_for_workers(&self.producer.over)
    }

    /// As [`Self::sleep`], on a worker that has given its place away.
    pub(crate) fn sleep_here(&self) -> bool {
        self.producer.over.wait()
    }

    /// What came of it, if it is over: a permit, which is the caller's from here on, or the reason why none
    /// comes.
    pub(crate) fn outcome(&self) -> Option<Result<(), RefusedReason>> {
        if self.is_forked() {
            return Some(Err(RefusedReason::Forked));
        }
        let mut outcome = self.producer.outcome.lock();
        let granted = match *outcome {
            Outcome::None(_) => return None,
            Outcome::Granted => Ok(()),
            Outcome::Refused(reason) => Err(reason),
            Outcome::Taken => unreachable!("it is asked for once"),
        };
        *outcome = Outcome::Taken;
        Some(granted)
    }

    /// As [`Self::outcome`], for a future, which is woken when it is over.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Result<(), RefusedReason>> {
        if let Some(outcome) = self.outcome() {
            return Poll::Ready(outcome);
        }
        // A user's code, outside the lock.
        let mut waker = Some(context.waker().clone());
        if let Outcome::None(known) = &mut *self.producer.outcome.lock() {
            std::mem::swap(known, &mut waker);
        }
        say_panic(user::discard(waker), "a waker panicked");
        self.outcome().map_or(Poll::Pending, Poll::Ready)
    }

    fn is_forked(&self) -> bool {
        P::process_generation() != self.process_generation
    }
}

impl<P: Platform> Drop for WaitingProducer<P> {
    fn drop(&mut self) {
        if self.is_forked() {
            // The lock may be held by nobody who is here; nor is who would be woken.
            return;
        }
        let mut producers = self.capacity.producers.lock();
        if producers.waiting.remove(&self.number).is_some() && producers.waiting.is_empty() {
            self.capacity.word.fetch_and(!WAITED, AcqRel);
        }
        let outcome = std::mem::replace(&mut *self.producer.outcome.lock(), Outcome::Taken);
        drop(producers);
        match outcome {
            Outcome::Granted => self.capacity.give_back(),
            Outcome::None(waker) => say_panic(user::discard(waker), "a waker panicked"),
            Outcome::Refused(_) | Outcome::Taken => {}
        }
    }
}

/// An item's permit, given back when it begins; or when it is dropped, if it never does.
pub(crate) struct Permit<P: Platform>(NonNull<Capacity<P>>);

// SAFETY: what it leads to is shared between threads as it is.
unsafe impl<P: Platform> Send for Permit<P> {}

impl<P: Platform> Permit<P> {
    /// For an item that is counted in, and has taken a permit.
    ///
    /// # Safety
    /// The capacity is there until the permit is dropped.
    pub(crate) unsafe fn of(capacity: &Capacity<P>) -> Self {
        Self(NonNull::from(capacity))
    }
}

impl<P: Platform> Drop for Permit<P> {
    fn drop(&mut self) {
        // SAFETY: by `Self::of`.
        unsafe { self.0.as_ref() }.give_back();
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use coreshard_platform::Loom;

    use super::*;

    type Word = <Loom as Platform>::AtomicU32;

    /// Takes a permit, waits for it where there is none, and gives it back when the "item" begins.
    fn pass(capacity: &Arc<Capacity<Loom>>, inside: &Word) {
        if !capacity.try_take() {
            let waiting = capacity.wait_in_line(false).expect("it is open");
            assert!(waiting.sleep());
            waiting.outcome().expect("it is over").expect("it is open");
        }
        assert_eq!(inside.fetch_add(1, AcqRel), 0, "there is one permit");
        inside.fetch_sub(1, AcqRel);
        capacity.give_back();
    }

    /// One permit between two producers: nobody waits for ever, and never two have it.
    #[test]
    fn loom_a_permit_is_handed_over() {
        Loom::check(3, || {
            let (capacity, inside) = (Capacity::<Loom>::new(1), Arc::new(Word::new(0)));
            let other = {
                let (capacity, inside) = (Arc::clone(&capacity), Arc::clone(&inside));
                loom::thread::spawn(move || pass(&capacity, &inside))
            };
            pass(&capacity, &inside);
            other.join().unwrap();
            assert!(capacity.try_take(), "the permit is free in the end");
            assert!(!capacity.try_take(), "there is one");
        });
    }

    /// A permit that is given back while a producer comes to wait is that producer's in the end.
    fn comes_while_one_is_given_back(looks_again: bool) {
        Loom::check(3, move || {
            let capacity = Capacity::<Loom>::new(1);
            assert!(capacity.try_take());
            let producer = {
                let capacity = Arc::clone(&capacity);
                loom::thread::spawn(move || {
                    if capacity.try_take() {
                        return None;
                    }
                    Some(capacity.join(false, looks_again).expect("it is open"))
                })
            };
            capacity.give_back();
            let is_let_in = producer.join().unwrap().is_none_or(|waiting| waiting.is_over());
            assert!(is_let_in, "a wake-up is lost");
        });
    }

    #[test]
    fn loom_who_comes_to_wait_finds_what_was_given_back() {
        comes_while_one_is_given_back(true);
    }

    /// The same without the look that comes after the bit: a permit that was given back just before is seen
    /// by nobody.
    #[test]
    #[should_panic(expected = "a wake-up is lost")]
    fn loom_without_a_second_look_a_wake_up_is_lost() {
        comes_while_one_is_given_back(false);
    }

    /// A producer that leaves, against the permit that is on its way to it: it is not lost.
    #[test]
    fn loom_who_leaves_gives_the_permit_on() {
        Loom::check(3, || {
            let capacity = Capacity::<Loom>::new(1);
            assert!(capacity.try_take());
            let waiting = capacity.wait_in_line(false).unwrap();
            let leaves = loom::thread::spawn(move || drop(waiting));
            capacity.give_back();
            leaves.join().unwrap();
            assert!(capacity.try_take(), "nobody has it");
        });
    }

    /// A producer against the queue's end: it hears of that, or has the permit.
    #[test]
    fn loom_who_waits_hears_of_the_end() {
        Loom::check(3, || {
            let capacity = Capacity::<Loom>::new(1);
            assert!(capacity.try_take());
            let closer = Arc::clone(&capacity);
            let closer = loom::thread::spawn(move || closer.close(RefusedReason::ShutDown));
            match capacity.wait_in_line(false) {
                Ok(waiting) => {
                    assert!(waiting.sleep());
                    assert_eq!(waiting.outcome(), Some(Err(RefusedReason::ShutDown)));
                }
                Err(reason) => assert_eq!(reason, RefusedReason::ShutDown),
            }
            closer.join().unwrap();
        });
    }
}
