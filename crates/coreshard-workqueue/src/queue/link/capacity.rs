//! How many items may wait in a queue: permits, and the producers that wait for one.
//!
//! An item holds a permit from the moment it is accepted until it begins. The word:
//!
//! | bits | meaning | written by |
//! |---|---|---|
//! | 0 | `WAITED`: producers wait. New producers take no permit, and returned permits are handed over | under the lock |
//! | 1–63 | free permits, signed: below zero after items that are let in beyond the capacity | producers, workers |
//!
//! *First come, first served.* While producers wait, permits go to producers only under the lock, by their numbers. Later
//! producers cannot overtake.
//!
//! *No wake-up is lost.* A producer puts itself on the list, sets `WAITED`, and then checks for free permits once more, all
//! under the lock. A thread that returns a permit adds to the same word: before the bit was set, so that the check finds the
//! permit; or after, so that it sees the bit, and takes the lock itself. Both are read-modify-writes of one word, so one of
//! them comes first.
//!
//! *The outcome of a wait* (a permit, or the queue's end) is written under the lock, and the waiter is woken outside of it. A
//! waiter that leaves early also finds the outcome under the lock, and passes the permit on.
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

/// The treatment of an item that finds no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// Its producer waits.
    Wait,
    /// It is rejected, and counted as such.
    Refuse,
    /// It is rejected for now: its producer is about to wait.
    Try,
    /// It is let in: its producer cannot wait, and it was accepted earlier.
    Exceed,
}

/// A queue's permits.
pub(crate) struct Capacity<P: Platform> {
    word: Padded<P::AtomicU64>,
    /// Items that were rejected because there was no permit.
    refused: P::AtomicU64,
    producers: Lock<P, Producers<P>>,
}

/// All of it `L:`.
struct Producers<P: Platform> {
    /// The waiting producers by their numbers, in order of arrival.
    waiting: BTreeMap<u64, Arc<Producer<P>>>,
    next: u64,
    permits: usize,
    /// Why no more producers are let in.
    closed: Option<RefusedReason>,
    /// Callers inside `drain`: until they return, only the queue's own items are let in.
    drainers: usize,
}

/// A producer that waits for a permit.
struct Producer<P: Platform> {
    /// True if it is an item of the queue.
    is_inside: bool,
    outcome: Lock<P, Outcome>,
    /// Opened after the outcome was written.
    over: Latch<P>,
}

enum Outcome {
    /// Still waiting, with the waker of a future.
    None(Option<Waker>),
    Granted,
    Refused(RefusedReason),
    /// The waiter has taken its outcome, or has left.
    Taken,
}

/// Producers whose wait has ended, to be woken when no lock is held.
#[must_use]
struct Woken<P: Platform>(Vec<(Arc<Producer<P>>, Option<Waker>)>);

impl<P: Platform> Woken<P> {
    fn none() -> Self {
        Self(Vec::new())
    }

    /// Called under the lock of the producers.
    fn add(&mut self, producer: Arc<Producer<P>>, outcome: Outcome) {
        let before = std::mem::replace(&mut *producer.outcome.lock(), outcome);
        let waker = match before {
            Outcome::None(waker) => waker,
            _ => unreachable!("a listed producer waits"),
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

    /// Takes a permit, if one is free and no producer waits for it.
    ///
    /// This is a compare-exchange instead of a subtraction that may be undone, since the latter would make other producers see
    /// a full queue that is not full.
    pub(crate) fn try_take(&self) -> bool {
        let mut seen = self.word.load(Relaxed);
        while seen & WAITED == 0 && free(seen) > 0 {
            // Acquire: the item that held the permit has begun.
            match self.word.compare_exchange(seen, seen - ONE, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Takes a permit if one is free, or if the item may exceed the capacity.
    pub(crate) fn let_in(&self, when_full: WhenFull) -> bool {
        if when_full == WhenFull::Exceed {
            self.word.fetch_sub(ONE, Relaxed);
            return true;
        }
        self.try_take()
    }

    /// Returns a permit, or hands it to the producer that has waited longest. May wake a user's future.
    pub(crate) fn give_back(&self) {
        // Release: pairs with the next taker's Acquire. The bit: see the module's documentation.
        if self.word.fetch_add(ONE, AcqRel) & WAITED != 0 {
            self.serve();
        }
    }

    #[cold]
    fn serve(&self) {
        self.wake_after(|producers| self.grant(producers));
    }

    /// Changes the state under the lock, then wakes, without the lock, the producers whose wait has ended.
    fn wake_after(&self, change: impl FnOnce(&mut Producers<P>) -> Woken<P>) {
        let woken = change(&mut self.producers.lock());
        woken.wake();
    }

    /// Hands free permits to the waiting producers, in order; clears the bit with the last of them.
    fn grant(&self, producers: &mut Producers<P>) -> Woken<P> {
        let mut woken = Woken::none();
        while let Some(first) = producers.waiting.first_entry() {
            // While the bit is set, only the lock's holder takes free permits. Items that exceed the capacity may lower the
            // number meanwhile; then it is exceeded by one more.
            if free(self.word.load(Acquire)) <= 0 {
                return woken;
            }
            self.word.fetch_sub(ONE, AcqRel);
            woken.add(first.remove(), Outcome::Granted);
        }
        self.word.fetch_and(!WAITED, AcqRel);
        woken
    }

    /// Joins the waiting producers. `is_inside`: the producer is an item of the queue.
    ///
    /// # Errors
    /// Fails if no more producers are let in.
    pub(crate) fn wait_in_line(
        self: &Arc<Self>,
        is_inside: bool,
    ) -> Result<WaitingProducer<P>, RefusedReason> {
        self.join(is_inside, true)
    }

    /// `looks_again` is true except in a model that must fail.
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

    /// Lets no more producers in, and wakes the waiting ones with the reason.
    pub(crate) fn close(&self, reason: RefusedReason) {
        self.wake_after(|producers| {
            producers.closed.get_or_insert(reason);
            self.refuse(producers, reason, |_| true)
        });
    }

    /// Lets in only the queue's own items until [`Self::end_drain`], and wakes the other waiting producers.
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

    /// Changes the number of permits. Items that hold one keep it, even if they exceed the new number.
    pub(crate) fn set(&self, permits: usize) {
        self.wake_after(|producers| {
            let before = std::mem::replace(&mut producers.permits, permits);
            // Wraps, and so subtracts if the new number is lower.
            let more = (permits as u64).wrapping_sub(before as u64).wrapping_mul(ONE);
            self.word.fetch_add(more, AcqRel);
            self.grant(producers)
        });
    }

    /// Rejects an item that found no permit and does not wait for one.
    pub(crate) fn refuse_one(&self, when_full: WhenFull) -> RefusedReason {
        if when_full == WhenFull::Refuse {
            self.refused.fetch_add(1, Relaxed);
        }
        RefusedReason::Full
    }

    /// Returns the number of permits; `None` in a forked process if the lock was held by a thread that does not exist there.
    pub(crate) fn permits(&self, is_forked: bool) -> Option<usize> {
        if is_forked {
            return self.producers.try_lock().map(|producers| producers.permits);
        }
        Some(self.producers.lock().permits)
    }

    /// Returns the number of permits, items that hold one, waiting producers, and rejected items.
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

/// A place among the waiting producers. Dropping it leaves the line, and passes on a permit that was handed over.
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

    /// Sleeps until the wait has ended; returns false, at once, in a process that was forked meanwhile.
    pub(crate) fn sleep(&self) -> bool {
        wait_for_workers(&self.producer.over)
    }

    /// Sleeps like [`Self::sleep`], on a worker that has given its place away.
    pub(crate) fn sleep_here(&self) -> bool {
        self.producer.over.wait()
    }

    /// Returns the outcome if the wait has ended: a permit, which the caller owns from here on, or the reason why none will
    /// come.
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

    /// Polls for the outcome like [`Self::outcome`], for a future, which is woken when the wait ends.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Result<(), RefusedReason>> {
        if let Some(outcome) = self.outcome() {
            return Poll::Ready(outcome);
        }
        // Cloned outside the lock, since it runs user code.
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
            // The lock may be held by a thread that does not exist in this process. Producers do not exist here either.
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

/// An item's permit, given back when the item begins, or when it is dropped without having begun.
pub(crate) struct Permit<P: Platform>(NonNull<Capacity<P>>);

// SAFETY: it points to a value that is shared between threads.
unsafe impl<P: Platform> Send for Permit<P> {}

impl<P: Platform> Permit<P> {
    /// Returns the permit of an item that is counted in and has taken one.
    ///
    /// # Safety
    /// The capacity lives until the permit is dropped.
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

    /// Takes a permit, waiting if there is none, and gives it back when the "item" begins.
    fn pass(capacity: &Arc<Capacity<Loom>>, inside: &Word) {
        if !capacity.try_take() {
            let waiting = capacity.wait_in_line(false).expect("it is open");
            assert!(waiting.sleep());
            waiting.outcome().expect("the wait has ended").expect("it is open");
        }
        assert_eq!(inside.fetch_add(1, AcqRel), 0, "there is one permit");
        inside.fetch_sub(1, AcqRel);
        capacity.give_back();
    }

    /// One permit between two producers: neither waits forever, and they never both have it.
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

    /// A permit that is given back while a producer starts to wait is that producer's in the end.
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

    /// The same without the check that follows the bit: a permit that was given back just before is never found.
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
            assert!(capacity.try_take(), "it was given back");
        });
    }

    /// A producer against the queue's end: it is told that the queue has ended, or has the permit.
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
