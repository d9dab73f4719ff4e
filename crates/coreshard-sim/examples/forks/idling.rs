//! Where idle threads go: nowhere, or to sleep as in rayon's registry.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use coreshard_platform::{AtomicInt, Lock, Padded, Platform};
use coreshard_sim::Sim;

use super::latch::Latch;
use super::stealing::{Idling, Search};

type AtomicU32 = <Sim as Platform>::AtomicU32;
type AtomicU64 = <Sim as Platform>::AtomicU64;

/// They look again and again.
pub(crate) struct Spinning;

impl Idling for Spinning {
    const ENDS_SHARE_A_LINE: bool = false;

    fn new(_threads: usize) -> Self {
        Self
    }

    fn pushed(&self, _was_empty: bool) {}

    fn begins(&self, thread: usize) -> Search {
        Search { thread, rounds: 0, seen: 0 }
    }

    fn found_none(&self, _search: &mut Search, _latch: &Latch) {
        Sim::spin_hint();
    }

    fn ends(&self, _search: Search) {}

    fn tell(&self, _thread: usize) {}
}

/// Rounds without work before a thread says that it grows sleepy; after the next it sleeps.
const SLEEPY: u32 = 32;

/// In the word: sleeping threads below, then those that look for work (sleeping ones among them), and above how many times
/// jobs came while somebody was sleepy.
const ONE_SLEEPS: u64 = 1;
const ONE_LOOKS: u64 = 1 << 16;
const ONE_EVENT: u64 = 1 << 32;

fn sleeping(word: u64) -> u64 {
    word & 0xffff
}

fn looking(word: u64) -> u64 {
    word >> 16 & 0xffff
}

/// Odd: jobs came since somebody last grew sleepy.
fn events(word: u64) -> u64 {
    word >> 32
}

struct Bed {
    is_asleep: Lock<Sim, bool>,
    wake: AtomicU32,
}

/// As rayon-core 1.13 does it, written from its own description (`src/sleep/README.md` there): one word for all threads counts
/// who looks and who sleeps; each new job reads it, and wakes as many as it seems to need; who finds work wakes two more.
pub(crate) struct Registry {
    word: Padded<AtomicU64>,
    beds: Vec<Padded<Bed>>,
}

impl Registry {
    fn wake(&self, thread: usize) -> bool {
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
}

impl Idling for Registry {
    const ENDS_SHARE_A_LINE: bool = true;

    fn new(threads: usize) -> Self {
        let bed = || Bed { is_asleep: Lock::new(false), wake: AtomicU32::new(0) };
        Self {
            word: Padded::new(AtomicU64::new(ONE_EVENT)),
            beds: (0..threads).map(|_| Padded::new(bed())).collect(),
        }
    }

    fn pushed(&self, was_empty: bool) {
        let mut word = self.word.load(SeqCst);
        while events(word).is_multiple_of(2) {
            match self.word.compare_exchange(word, word + ONE_EVENT, SeqCst, SeqCst) {
                Ok(_) => word += ONE_EVENT,
                Err(now) => word = now,
            }
        }
        let asleep = sleeping(word);
        if asleep == 0 {
            return;
        }
        let awake = looking(word) - asleep.min(looking(word));
        if !was_empty || awake == 0 {
            self.wake_any(1);
        }
    }

    fn begins(&self, thread: usize) -> Search {
        self.word.fetch_add(ONE_LOOKS, SeqCst);
        Search { thread, rounds: 0, seen: 0 }
    }

    fn found_none(&self, search: &mut Search, latch: &Latch) {
        search.rounds += 1;
        if search.rounds < SLEEPY {
            return Sim::yield_now();
        }
        if search.rounds == SLEEPY {
            // It is sleepy: who brings a job from here on says so in the word.
            let mut word = self.word.load(SeqCst);
            while !events(word).is_multiple_of(2) {
                match self.word.compare_exchange(word, word + ONE_EVENT, SeqCst, SeqCst) {
                    Ok(_) => word += ONE_EVENT,
                    Err(now) => word = now,
                }
            }
            search.seen = events(word);
            return Sim::yield_now();
        }
        let bed = &self.beds[search.thread];
        let mut is_asleep = bed.is_asleep.lock();
        if !latch.fall_asleep() {
            return;
        }
        let mut word = self.word.load(SeqCst);
        loop {
            if events(word) != search.seen {
                latch.wake_up();
                search.rounds = 0;
                return;
            }
            match self.word.compare_exchange(word, word + ONE_SLEEPS, SeqCst, SeqCst) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        *is_asleep = true;
        let seen = bed.wake.load(Relaxed);
        drop(is_asleep);
        while *bed.is_asleep.lock() {
            Sim::wait(&bed.wake, seen, None);
        }
        latch.wake_up();
        search.rounds = 0;
    }

    fn ends(&self, _search: Search) {
        let word = self.word.fetch_sub(ONE_LOOKS, SeqCst);
        self.wake_any(sleeping(word).min(2));
    }

    fn tell(&self, thread: usize) {
        self.wake(thread);
    }
}
