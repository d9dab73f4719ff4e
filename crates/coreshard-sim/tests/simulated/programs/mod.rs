//! Small programs with known costs.
#![allow(dead_code, reason = "not every test uses every program")]

pub(crate) mod locks;
pub(crate) mod queues;

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, Platform, ThreadHandle, ThreadSpec};
use std::time::Duration;

use coreshard_sim::{Sim, SimThread};
use coreshard_topology::CpuId;
use locks::{LibcMutex, QueuedLock};

pub(crate) type AtomicU32 = <Sim as Platform>::AtomicU32;
pub(crate) type AtomicU64 = <Sim as Platform>::AtomicU64;

pub(crate) fn pinned(cpu: CpuId, body: impl FnOnce() + Send + 'static) -> SimThread {
    let spec = ThreadSpec {
        name: format!("pinned to {cpu}"),
        affinity: Some([cpu].into_iter().collect()),
        ..ThreadSpec::default()
    };
    Sim::spawn(spec, Box::new(body)).unwrap()
}

/// A separate cache line.
#[repr(C, align(128))]
pub(crate) struct Line {
    pub(crate) word: AtomicU64,
    pub(crate) other: AtomicU64,
    pub(crate) count: AtomicU64,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(0), other: AtomicU64::new(0), count: AtomicU64::new(0) }
    }
}

/// Measures half a round trip of a compare-exchange ping-pong, in nanoseconds, like the public
/// core-to-core-latency tool. Uses the difference of a long and a short measurement, so that the start and
/// the reading of the clock cancel out.
pub(crate) fn ping_pong_ns(one: CpuId, other: CpuId) -> f64 {
    const ROUNDS: u64 = 100;
    let (short, long) =
        (ping_pong_total_ns(one, other, 10), ping_pong_total_ns(one, other, 10 + ROUNDS));
    (long - short) as f64 / (2 * ROUNDS) as f64
}

fn ping_pong_total_ns(one: CpuId, other: CpuId, rounds: u64) -> u64 {
    let line = Arc::new(Line::new());
    let theirs = Arc::clone(&line);
    let pong = pinned(other, move || {
        for _ in 0..rounds {
            while theirs.word.compare_exchange(1, 0, AcqRel, Relaxed).is_err() {}
        }
    });
    let took = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mine = Arc::clone(&took);
    let ping = pinned(one, move || {
        let start = Sim::now();
        for _ in 0..rounds {
            while line.word.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {}
        }
        mine.store(Sim::now().ns_since(start), Relaxed);
    });
    ping.join();
    pong.join();
    took.load(Relaxed)
}

/// The data that contending threads share. The programs reimplement the published measurements
/// (github.com/travisdowns/concurrency-hierarchy-bench, and folly's benchmarks of small locks and of its shared mutex).
pub(crate) struct Shared {
    pub(crate) line: Line,
    pub(crate) count: Line,
    pub(crate) five: [Line; 5],
    pub(crate) mutex: LibcMutex,
    pub(crate) futex: AtomicU32,
    pub(crate) queued: QueuedLock,
}

impl Shared {
    fn new() -> Self {
        Self {
            line: Line::new(),
            count: Line::new(),
            five: std::array::from_fn(|_| Line::new()),
            mutex: LibcMutex::new(),
            futex: AtomicU32::new(0),
            queued: QueuedLock::new(),
        }
    }
}

pub(crate) type Operation = fn(&Shared);

/// The operations, by their names in the tables.
pub(crate) const OPERATIONS: &[(&str, Operation)] = &[
    ("atomic add", add),
    ("compare-exchange loop", compare_exchange_loop),
    ("ticket lock", ticket_lock),
    ("mutex", locks::mutex),
    ("spin lock", locks::spin),
    ("spin lock with pause", locks::spin_with_pause),
    ("mutex of three states", locks::mutex3),
    ("queued lock", locks::queued),
    ("five adds", locks::five_adds),
    ("mutex over five lines", locks::mutex_over_five_lines),
    ("micro spin lock over five lines", locks::micro_spin_over_five_lines),
    ("reader of a spin lock", locks::read_spin),
    ("writer of a spin lock", locks::write_spin),
    ("mutex with its data", locks::mutex_with_data),
];

/// A contended program: an operation on shared lines, or a queue.
#[derive(Clone, Copy)]
pub(crate) enum Program {
    Operation(Operation),
    Queue(queues::Queue),
    /// A message that goes to another thread, and back.
    RoundTrip,
}

impl Program {
    pub(crate) fn named(name: &str) -> Option<Self> {
        let queue = queues::QUEUES.iter().find(|(known, _)| *known == name);
        let operation = OPERATIONS.iter().find(|(known, _)| *known == name);
        operation
            .map(|(_, operation)| Self::Operation(*operation))
            .or_else(|| queue.map(|(_, queue)| Self::Queue(*queue)))
            .or_else(|| (name == queues::ROUND_TRIP).then_some(Self::RoundTrip))
    }

    /// Returns nanoseconds per operation and thread, per message for a number of pairs, or per round trip.
    pub(crate) fn ns(self, load: Load) -> f64 {
        match self {
            Self::Operation(operation) => load.ns(operation),
            Self::Queue(queue) => queues::message_ns(load.threads, queue),
            Self::RoundTrip => queues::round_trip_ns(),
        }
    }
}

/// Returns the numbers of `cpus` CPUs, in an order that the seed decides, for tables that do not state the
/// placement of threads.
pub(crate) fn scattered(cpus: u32, seed: u64) -> Vec<u32> {
    let mut state = seed;
    let mut places: Vec<_> = (0..cpus)
        .map(|cpu| {
            // SplitMix64, by S. Vigna.
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            ((mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB), cpu)
        })
        .collect();
    places.sort_unstable();
    places.into_iter().map(|(_, cpu)| cpu).collect()
}

pub(crate) fn add(shared: &Shared) {
    shared.line.word.fetch_add(1, Relaxed);
}

pub(crate) fn compare_exchange_loop(shared: &Shared) {
    let mut seen = shared.line.word.load(Relaxed);
    while let Err(now) = shared.line.word.compare_exchange(seen, seen + 1, AcqRel, Relaxed) {
        seen = now;
    }
}

/// Both ticket words are on one line, the data on another. Waiting is a bare loop of loads.
pub(crate) fn ticket_lock(shared: &Shared) {
    let ticket = shared.line.word.fetch_add(1, Relaxed);
    while shared.line.other.load(Acquire) != ticket {}
    shared.count.count.store(shared.count.count.load(Relaxed) + 1, Relaxed);
    shared.line.other.store(shared.line.other.load(Relaxed) + 1, Release);
}

/// The contending threads, and their other work.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// How many threads share one object.
    pub(crate) threads: u32,
    /// The computation between two operations.
    pub(crate) outside: Duration,
    /// If set, all these CPUs are busy, in as many groups as possible; otherwise only the first ones.
    pub(crate) everyone: Option<u32>,
    /// Threads lie on these CPUs, in this order; if empty, on the first ones.
    pub(crate) places: Vec<u32>,
}

impl Load {
    pub(crate) fn of(threads: u32) -> Self {
        Self { threads, outside: Duration::ZERO, everyone: None, places: Vec::new() }
    }

    /// Returns nanoseconds per operation and thread, while all threads contend, until the first has done its
    /// share. If everyone is busy, until the slowest has.
    pub(crate) fn ns(self, operation: Operation) -> f64 {
        let all = self.everyone.unwrap_or(self.threads);
        let groups = (all / self.threads).max(1);
        let times: u64 = match all {
            0..=4 => 2_000,
            5..=16 => 400,
            _ => 200,
        };
        let shared: Vec<_> = (0..groups).map(|_| Arc::new(Shared::new())).collect();
        let begin = Arc::new(Line::new());
        // Kept outside the simulated machine, at no cost.
        let tally = Arc::new(Tally::default());
        let all_do_their_share = self.everyone.is_some();
        let workers: Vec<_> = (0..all)
            .map(|number| {
                let (begin, tally) = (Arc::clone(&begin), Arc::clone(&tally));
                let shared = Arc::clone(&shared[(number % groups) as usize]);
                let outside = self.outside;
                let cpu = self.places.get(number as usize).copied().unwrap_or(number);
                pinned(CpuId(cpu), move || {
                    begin.word.fetch_add(1, AcqRel);
                    while begin.word.load(Acquire) != u64::from(all) {
                        Sim::spin_hint();
                    }
                    let start = Sim::now();
                    for _ in 0..times {
                        operation(&shared);
                        if !outside.is_zero() {
                            Sim::compute(outside);
                        }
                        if tally.is_over.load(Relaxed) {
                            break;
                        }
                        tally.done.fetch_add(1, Relaxed);
                    }
                    let took = Sim::now().ns_since(start);
                    tally.slowest_ns.fetch_max(took, Relaxed);
                    if !all_do_their_share && !tally.is_over.swap(true, Relaxed) {
                        tally.first_ns.store(took, Relaxed);
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(ThreadHandle::join);
        match self.everyone {
            Some(_) => tally.slowest_ns.load(Relaxed) as f64 / times as f64,
            None => {
                let threads_ns = tally.first_ns.load(Relaxed) as f64 * f64::from(all);
                threads_ns / tally.done.load(Relaxed) as f64
            }
        }
    }
}

/// The operations of the threads so far.
#[derive(Default)]
struct Tally {
    done: std::sync::atomic::AtomicU64,
    first_ns: std::sync::atomic::AtomicU64,
    slowest_ns: std::sync::atomic::AtomicU64,
    is_over: std::sync::atomic::AtomicBool,
}

/// Returns nanoseconds per operation and thread, with `threads` threads on the first CPUs.
pub(crate) fn contended_ns(threads: u32, operation: Operation) -> f64 {
    Load::of(threads).ns(operation)
}
