//! The sleep of idle threads, as in rayon's registry.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};

use coreshard_platform::{AtomicInt, Lock, Padded, Platform};
use coreshard_sim::Sim;

use super::injector::Injector;

type AtomicU32 = <Sim as Platform>::AtomicU32;
type AtomicU64 = <Sim as Platform>::AtomicU64;

const CLOSED: u32 = 0;
/// As `CLOSED`, and its thread sleeps, or is about to.
const ASLEEP: u32 = 1;
const OPEN: u32 = 2;

/// A word that a thread waits for. Opening it does not access the waiting thread, unless that sleeps.
pub(crate) struct Latch(AtomicU32);

impl Latch {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(CLOSED))
    }

    pub(crate) fn close(&self) {
        self.0.store(CLOSED, Relaxed);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Acquire) == OPEN
    }

    /// False if it is open.
    fn fall_asleep(&self) -> bool {
        self.0.compare_exchange(CLOSED, ASLEEP, AcqRel, Acquire).is_ok()
    }

    fn wake_up(&self) {
        let _ = self.0.compare_exchange(ASLEEP, CLOSED, AcqRel, Relaxed);
    }

    /// True if its thread sleeps.
    pub(crate) fn open(&self) -> bool {
        self.0.swap(OPEN, AcqRel) == ASLEEP
    }
}

/// Rounds without work before a thread becomes sleepy; after the next one it sleeps.
const SLEEPY: u32 = 32;

/// The fields of the word, from the lowest bits: sleeping threads, inactive threads (including sleeping ones), and the number of
/// times that jobs came while a thread was sleepy.
const ONE_SLEEPS: u64 = 1;
const ONE_LOOKS: u64 = 1 << 16;
const ONE_EVENT: u64 = 1 << 32;

fn sleeping(word: u64) -> u64 {
    word & 0xffff
}

fn looking(word: u64) -> u64 {
    word >> 16 & 0xffff
}

/// Odd if jobs came since a thread last became sleepy.
fn events(word: u64) -> u64 {
    word >> 32
}

struct Bed {
    is_asleep: Lock<Sim, bool>,
    wake: AtomicU32,
}

/// The protocol of rayon-core 1.13, written from its own description (`src/sleep/README.md` there): one word for all threads counts
/// threads that search and threads that sleep. Each new job reads it, and wakes as many threads as seem necessary. A thread that
/// finds work wakes two more.
pub(crate) struct Sleep {
    word: Padded<AtomicU64>,
    beds: Vec<Padded<Bed>>,
}

/// A thread that searches for work of others.
pub(crate) struct Search<'sleep> {
    sleep: &'sleep Sleep,
    thread: usize,
    rounds: u32,
    seen: u64,
}

impl Sleep {
    pub(crate) fn new(threads: usize) -> Self {
        let bed = || Bed { is_asleep: Lock::new(false), wake: AtomicU32::new(0) };
        Self {
            word: Padded::new(AtomicU64::new(ONE_EVENT)),
            beds: (0..threads).map(|_| Padded::new(bed())).collect(),
        }
    }

    /// Wakes a thread, if it sleeps.
    pub(crate) fn wake(&self, thread: usize) -> bool {
        let bed = &self.beds[thread];
        let mut is_asleep = bed.is_asleep.lock();
        let woken = std::mem::take(&mut *is_asleep);
        if woken {
            self.word.fetch_sub(ONE_SLEEPS, SeqCst);
            bed.wake.fetch_add(1, SeqCst);
            Sim::wake_one(&raw const bed.wake);
        }
        drop(is_asleep);
        woken
    }

    fn wake_any(&self, mut count: u64) {
        for thread in 0..self.beds.len() {
            if count == 0 {
                return;
            }
            count -= u64::from(self.wake(thread));
        }
    }

    /// Makes the number of events odd or even. Returns the word.
    fn make_events(&self, odd: u64) -> u64 {
        let mut word = self.word.load(SeqCst);
        while events(word) % 2 != odd {
            match self.word.compare_exchange(word, word + ONE_EVENT, SeqCst, SeqCst) {
                Ok(_) => word += ONE_EVENT,
                Err(now) => word = now,
            }
        }
        word
    }

    /// A job was pushed on a deque that was empty, or was not.
    pub(crate) fn new_jobs(&self, was_empty: bool) {
        let word = self.make_events(1);
        let asleep = sleeping(word);
        if asleep > 0 && (!was_empty || looking(word) <= asleep) {
            self.wake_any(1);
        }
    }

    pub(crate) fn search(&self, thread: usize) -> Search<'_> {
        self.word.fetch_add(ONE_LOOKS, SeqCst);
        Search { sleep: self, thread, rounds: 0, seen: 0 }
    }
}

impl Search<'_> {
    /// The thread has searched everywhere without finding work. It waits for the latch.
    pub(crate) fn found_none(&mut self, latch: &Latch, injector: &Injector) {
        self.rounds += 1;
        if self.rounds == SLEEPY {
            // It is sleepy: from here on, a thread with a new job records that in the word.
            self.seen = events(self.sleep.make_events(0));
        }
        if self.rounds <= SLEEPY {
            return Sim::yield_now();
        }
        let bed = &self.sleep.beds[self.thread];
        let mut is_asleep = bed.is_asleep.lock();
        if !latch.fall_asleep() {
            return;
        }
        let word = &self.sleep.word;
        let mut known = word.load(SeqCst);
        self.rounds = 0;
        loop {
            if events(known) != self.seen {
                return latch.wake_up();
            }
            match word.compare_exchange(known, known + ONE_SLEEPS, SeqCst, SeqCst) {
                Ok(_) => break,
                Err(now) => known = now,
            }
        }
        if !injector.is_empty() {
            word.fetch_sub(ONE_SLEEPS, SeqCst);
            return latch.wake_up();
        }
        *is_asleep = true;
        let seen = bed.wake.load(Relaxed);
        drop(is_asleep);
        while *bed.is_asleep.lock() {
            Sim::wait(&bed.wake, seen, None);
        }
        latch.wake_up();
    }

    /// The thread has found work, or no longer needs any.
    pub(crate) fn end(self) {
        let word = self.sleep.word.fetch_sub(ONE_LOOKS, SeqCst);
        self.sleep.wake_any(sleeping(word).min(2));
    }
}
