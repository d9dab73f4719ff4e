//! The locks of the measurements published with the tables of `lab/predictions`, reimplemented.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform};
use coreshard_sim::Sim;

use super::{AtomicU32, AtomicU64, Line, Shared};

fn count(shared: &Shared) {
    let counter = &shared.count.count;
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

fn count_in_five_lines(shared: &Shared) {
    for line in &shared.five {
        line.count.store(line.count.load(Relaxed) + 1, Relaxed);
    }
}

/// A mutex of the GNU C library: it does not spin, but sleeps at once, and records its owner beside its word.
pub(crate) struct LibcMutex {
    word: AtomicU32,
    owner: AtomicU64,
}

impl LibcMutex {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU32::new(0), owner: AtomicU64::new(0) }
    }

    pub(crate) fn lock(&self) {
        if self.word.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            if self.word.load(Relaxed) == 2 {
                Sim::wait(&self.word, 2, None);
            }
            while self.word.swap(2, Acquire) != 0 {
                Sim::wait(&self.word, 2, None);
            }
        }
        self.owner.store(1, Relaxed);
    }

    pub(crate) fn unlock(&self) {
        self.owner.store(0, Relaxed);
        if self.word.swap(0, Release) == 2 {
            Sim::wake_one(&self.word);
        }
    }
}

/// The data is on another line than the mutex.
pub(crate) fn mutex(shared: &Shared) {
    shared.mutex.lock();
    count(shared);
    shared.mutex.unlock();
}

pub(crate) fn mutex_over_five_lines(shared: &Shared) {
    shared.mutex.lock();
    count_in_five_lines(shared);
    shared.mutex.unlock();
}

/// Loads until the word is free, then exchanges it.
fn test_and_set(shared: &Shared, pause: impl Fn()) {
    loop {
        while shared.line.word.load(Relaxed) != 0 {
            pause();
        }
        if shared.line.word.swap(1, Acquire) == 0 {
            break;
        }
    }
    count(shared);
    shared.line.word.store(0, Release);
}

pub(crate) fn spin(shared: &Shared) {
    test_and_set(shared, || ());
}

pub(crate) fn spin_with_pause(shared: &Shared) {
    test_and_set(shared, Sim::spin_hint);
}

/// Tries a compare-exchange, then checks after every pause. After 4,000 pauses it sleeps for half a
/// millisecond at a time.
pub(crate) fn micro_spin_over_five_lines(shared: &Shared) {
    let word = &shared.line.word;
    let mut pauses = 0;
    while word.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {
        loop {
            if pauses < 4_000 {
                pauses += 1;
                Sim::spin_hint();
            } else {
                Sim::sleep(Duration::from_micros(500));
            }
            if word.load(Relaxed) == 0 {
                break;
            }
        }
    }
    count_in_five_lines(shared);
    word.store(0, Release);
}

/// U. Drepper's third mutex ("Futexes Are Tricky"), whose `unlock` decrements first.
pub(crate) fn mutex3(shared: &Shared) {
    let word = &shared.futex;
    if word.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {
        while word.swap(2, Acquire) != 0 {
            Sim::wait(word, 2, None);
        }
    }
    count(shared);
    if word.fetch_sub(1, AcqRel) != 1 {
        word.store(0, Release);
        Sim::wake_one(word);
    }
}

/// A waiter of [`queued`] sleeps on this.
struct Waiter {
    owner: AtomicU32,
}

/// A lock whose waiters are queued under a mutex, each with its own condition variable.
pub(crate) struct QueuedLock {
    guard: LibcMutex,
    state: Line,
    /// On one host thread; never held across an access.
    waiters: Mutex<VecDeque<Arc<Waiter>>>,
}

impl QueuedLock {
    pub(crate) fn new() -> Self {
        Self { guard: LibcMutex::new(), state: Line::new(), waiters: Mutex::default() }
    }

    fn waiters(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<Waiter>>> {
        self.state.other.load(Relaxed);
        self.waiters.lock().unwrap()
    }

    fn lock(&self) {
        self.guard.lock();
        if self.state.word.load(Relaxed) == 0 {
            self.state.word.store(1, Relaxed);
        } else {
            let waiter = Arc::new(Waiter { owner: AtomicU32::new(0) });
            self.waiters().push_back(Arc::clone(&waiter));
            self.state.other.store(1, Relaxed);
            while waiter.owner.load(Relaxed) == 0 {
                self.guard.unlock();
                Sim::wait(&waiter.owner, 0, None);
                self.guard.lock();
            }
            self.waiters().pop_front();
            self.state.other.store(0, Relaxed);
        }
        self.guard.unlock();
    }

    fn unlock(&self) {
        self.guard.lock();
        let next = self.waiters().front().cloned();
        match next {
            None => self.state.word.store(0, Relaxed),
            Some(waiter) => {
                waiter.owner.store(1, Relaxed);
                Sim::wake_one(&waiter.owner);
            }
        }
        self.guard.unlock();
    }
}

pub(crate) fn queued(shared: &Shared) {
    shared.queued.lock();
    count(shared);
    shared.queued.unlock();
}

/// A reader of a reader-writer spin lock: enters with an add, leaves with another.
pub(crate) fn read_spin(shared: &Shared) {
    const READER: u64 = 4;
    while shared.line.word.fetch_add(READER, Acquire) & (READER - 1) != 0 {
        shared.line.word.fetch_sub(READER, Release);
    }
    shared.line.other.load(Relaxed);
    shared.line.word.fetch_sub(READER, Release);
}

/// A writer of that lock: a compare-exchange that is retried, eventually with yields, and an atomic `and`.
pub(crate) fn write_spin(shared: &Shared) {
    let word = &shared.line.word;
    let mut tries = 0;
    while word.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {
        tries += 1;
        if tries > 1_000 {
            Sim::yield_now();
        }
    }
    shared.line.other.store(1, Relaxed);
    word.fetch_and(!1, Release);
}

/// The same as a mutex whose data is on its line.
pub(crate) fn mutex_with_data(shared: &Shared) {
    shared.mutex.lock();
    shared.mutex.owner.load(Relaxed);
    shared.mutex.unlock();
}

pub(crate) fn five_adds(shared: &Shared) {
    for line in &shared.five {
        line.count.fetch_add(1, AcqRel);
    }
}
