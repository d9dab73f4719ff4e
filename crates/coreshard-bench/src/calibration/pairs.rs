//! CPUs that take a line from one another.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, Lock, Padded, Platform, SpawnError};
use coreshard_topology::CpuId;

use super::measure::beside;
use crate::crew::Crew;

/// Measures half a round trip of a compare-exchange ping-pong, like the public core-to-core-latency tool.
pub(super) fn ping_pong_ns<P: Platform>(
    one: CpuId,
    other: CpuId,
    rounds: u64,
) -> Result<f64, SpawnError> {
    let word = Arc::new(Padded::new(P::AtomicU64::new(0)));
    let theirs = Arc::clone(&word);
    let pong = move || {
        for _ in 0..=rounds {
            while theirs.compare_exchange(1, 0, AcqRel, Relaxed).is_err() {}
        }
    };
    let ping = move || {
        // One round trip to get into the rhythm.
        while word.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {}
        while word.load(Acquire) == 1 {}
        let start = P::now();
        for _ in 0..rounds {
            while word.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {}
        }
        P::now().ns_since(start)
    };
    let took_ns = beside::<P, _>((other, None), pong, one, ping)?;
    Ok(took_ns as f64 / (2 * rounds) as f64)
}

/// Operations between two checks for the end.
const LOOKS_EVERY: u64 = 16;

/// The contended operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Swap,
    CompareExchange,
    /// A compare-exchange loop with a pause after each failed attempt.
    PausedExchange,
    /// A ticket lock with both words on one line.
    TicketLock,
    /// The platform's lock.
    Mutex,
}

impl Operation {
    pub(super) const ALL: [Self; 6] = [
        Self::Add,
        Self::Swap,
        Self::CompareExchange,
        Self::PausedExchange,
        Self::TicketLock,
        Self::Mutex,
    ];
}

/// The contended words, each on its own line.
struct Words<P: Platform> {
    word: Padded<P::AtomicU64>,
    ticket: Padded<[P::AtomicU64; 2]>,
    mutex: Padded<Lock<P, ()>>,
    /// The count that a lock's holder increments.
    count: Padded<P::AtomicU64>,
    /// Threads that have not arrived yet.
    missing: Padded<P::AtomicU32>,
    /// Threads that have not seen that all have arrived.
    late: Padded<P::AtomicU32>,
    /// 1 once a thread has done its share.
    is_over: Padded<P::AtomicU32>,
}

impl<P: Platform> Words<P> {
    fn new(threads: usize) -> Self {
        Self {
            word: Padded::new(P::AtomicU64::new(0)),
            ticket: Padded::new(std::array::from_fn(|_| P::AtomicU64::new(0))),
            mutex: Padded::new(Lock::new(())),
            count: Padded::new(P::AtomicU64::new(0)),
            missing: Padded::new(P::AtomicU32::new(threads as u32)),
            late: Padded::new(P::AtomicU32::new(threads as u32)),
            is_over: Padded::new(P::AtomicU32::new(0)),
        }
    }

    #[inline(always)]
    fn exchange(&self, after_failure: impl Fn()) {
        let mut seen = self.word.load(Relaxed);
        while let Err(now) = self.word.compare_exchange(seen, seen + 1, AcqRel, Relaxed) {
            seen = now;
            after_failure();
        }
    }

    fn count_one(&self) {
        self.count.store(self.count.load(Relaxed) + 1, Relaxed);
    }

    /// Executes operations until the first thread has done `times` of them, counted from the moment when all
    /// threads take part. Returns their number and duration. A fixed share per thread would fail in a virtual
    /// machine: the host may deschedule a CPU that waits for long, and the other thread would do all its
    /// operations alone.
    fn race(&self, operation: Operation, times: u64) -> (u64, u64) {
        let some = || (0..LOOKS_EVERY).for_each(|_| self.operate(operation));
        self.missing.fetch_sub(1, AcqRel);
        while self.missing.load(Acquire) > 0 {
            P::spin_hint();
        }
        // Does not wait for another thread's operation, which might never happen while others operate.
        self.late.fetch_sub(1, AcqRel);
        while self.late.load(Acquire) > 0 {
            some();
        }
        let start = P::now();
        let mut done = 0;
        while done < times && self.is_over.load(Relaxed) == 0 {
            some();
            done += LOOKS_EVERY;
        }
        let took_ns = P::now().ns_since(start);
        self.is_over.store(1, Relaxed);
        (done, took_ns)
    }

    #[inline(always)]
    fn operate(&self, operation: Operation) {
        match operation {
            Operation::Add => drop(self.word.fetch_add(1, Relaxed)),
            Operation::Swap => drop(self.word.swap(1, Relaxed)),
            Operation::CompareExchange => self.exchange(|| ()),
            Operation::PausedExchange => self.exchange(P::spin_hint),
            Operation::TicketLock => {
                let [next, turn] = &*self.ticket;
                let mine = next.fetch_add(1, Relaxed);
                while turn.load(Acquire) != mine {
                    // The host may have descheduled the holder's CPU.
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

/// Runs one operation by threads on these CPUs, all at once. Returns nanoseconds per operation and thread.
pub(super) fn contended_ns<P: Platform>(
    cpus: &[CpuId],
    operation: Operation,
    times: u64,
) -> Result<f64, SpawnError> {
    let words = Arc::new(Words::<P>::new(cpus.len()));
    let mut crew = Crew::<P, (u64, u64)>::new(cpus.len());
    for cpu in cpus {
        let words = Arc::clone(&words);
        crew.spawn_on(*cpu, format!("calibrate-{cpu}"), move || words.race(operation, times))?;
    }
    let each = crew.run().results.into_iter();
    let (done, took_ns) = each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    Ok(took_ns as f64 / done.max(1) as f64)
}
