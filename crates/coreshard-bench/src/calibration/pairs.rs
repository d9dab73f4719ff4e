//! CPUs that take one line from one another.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, Lock, Padded, Platform, SpawnError};
use coreshard_topology::CpuId;

use super::measure::on;

/// Half a round trip of a compare-exchange ping-pong, as the public core-to-core-latency tool
/// measures it.
pub(super) fn ping_pong_ns<P: Platform>(
    one: CpuId,
    other: CpuId,
    rounds: u64,
) -> Result<f64, SpawnError> {
    let word = Arc::new(Padded::new(P::AtomicU64::new(0)));
    let (theirs, own) = (Arc::clone(&word), Arc::clone(&word));
    let pong = on::<P, _>(other, None, move || {
        for _ in 0..=rounds {
            while theirs.compare_exchange(1, 0, AcqRel, Relaxed).is_err() {}
        }
    })?;
    let ping = on::<P, _>(one, None, move || {
        // Once for the way into the rhythm.
        while word.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {}
        while word.load(Acquire) == 1 {}
        let start = P::now();
        for _ in 0..rounds {
            while word.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {}
        }
        P::now().ns_since(start)
    });
    match ping {
        Ok(ping) => {
            let took = ping();
            pong();
            Ok(took as f64 / (2 * rounds) as f64)
        }
        Err(error) => {
            // The other one waits for its partner: this thread takes its place.
            for _ in 0..=rounds {
                while own.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {}
            }
            pong();
            Err(error)
        }
    }
}

/// More are nobody's count: the count was given up.
const MOST: u32 = 1 << 16;

/// What contends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    CompareExchange,
    /// Tickets and turn on one line.
    TicketLock,
    /// The platform's lock.
    Mutex,
}

impl Operation {
    pub(super) const ALL: [Self; 4] =
        [Self::Add, Self::CompareExchange, Self::TicketLock, Self::Mutex];
}

/// What threads contend for, on lines of their own.
struct Words<P: Platform> {
    word: Padded<P::AtomicU64>,
    ticket: Padded<[P::AtomicU64; 2]>,
    mutex: Padded<Lock<P, ()>>,
    /// What a lock's holder counts.
    count: Padded<P::AtomicU64>,
    missing: Padded<P::AtomicU32>,
}

impl<P: Platform> Words<P> {
    fn new(threads: usize) -> Self {
        Self {
            word: Padded::new(P::AtomicU64::new(0)),
            ticket: Padded::new(std::array::from_fn(|_| P::AtomicU64::new(0))),
            mutex: Padded::new(Lock::new(())),
            count: Padded::new(P::AtomicU64::new(0)),
            missing: Padded::new(P::AtomicU32::new(threads as u32)),
        }
    }

    fn count_one(&self) {
        self.count.store(self.count.load(Relaxed) + 1, Relaxed);
    }

    #[inline(always)]
    fn operate(&self, operation: Operation) {
        match operation {
            Operation::Add => drop(self.word.fetch_add(1, Relaxed)),
            Operation::CompareExchange => {
                let mut seen = self.word.load(Relaxed);
                while let Err(now) = self.word.compare_exchange(seen, seen + 1, AcqRel, Relaxed) {
                    seen = now;
                }
            }
            Operation::TicketLock => {
                let [next, turn] = &*self.ticket;
                let mine = next.fetch_add(1, Relaxed);
                while turn.load(Acquire) != mine {
                    // The host may have taken the holder's CPU away.
                    P::spin_hint();
                }
                self.count_one();
                turn.store(mine + 1, Release);
            }
            Operation::Mutex => {
                let _held = self.mutex.lock();
                self.count_one();
            }
        }
    }
}

/// One operation by threads on these CPUs, all at once: nanoseconds per operation and thread.
pub(super) fn contended_ns<P: Platform>(
    cpus: &[CpuId],
    operation: Operation,
    times: u64,
) -> Result<f64, SpawnError> {
    let words = Arc::new(Words::<P>::new(cpus.len()));
    let mut threads = Vec::with_capacity(cpus.len());
    for cpu in cpus {
        let words_of_thread = Arc::clone(&words);
        let thread = on::<P, _>(*cpu, None, move || {
            let words = &*words_of_thread;
            words.missing.fetch_sub(1, AcqRel);
            while (1..=MOST).contains(&words.missing.load(Acquire)) {
                P::spin_hint();
            }
            let start = P::now();
            (0..times).for_each(|_| words.operate(operation));
            P::now().ns_since(start)
        });
        match thread {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                // Those that are there wait for the rest.
                words.missing.store(0, Release);
                for thread in threads {
                    let _unused: u64 = thread();
                }
                return Err(error);
            }
        }
    }
    let total: u64 = threads.into_iter().map(|thread| thread()).sum();
    Ok(total as f64 / (cpus.len() as u64 * times) as f64)
}
