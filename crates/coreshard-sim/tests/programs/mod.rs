//! Small programs whose cost is known.
#![allow(dead_code, reason = "not every test uses every program")]

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::{Sim, SimThread};
use coreshard_topology::CpuId;

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

/// A line of its own.
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

/// Half a round trip of a compare-exchange ping-pong, in nanoseconds: as the public
/// core-to-core-latency tool measures it. The difference of a long and a short measurement, so
/// that the way into the rhythm, and the reading of the clock, fall out.
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

/// What contending threads share. The programs are those of the published measurements
/// (github.com/travisdowns/concurrency-hierarchy-bench), written anew.
pub(crate) struct Shared {
    pub(crate) line: Line,
    pub(crate) count: Line,
    pub(crate) mutex: (AtomicU32, AtomicU64),
}

pub(crate) type Operation = fn(&Shared);

pub(crate) fn add(shared: &Shared) {
    shared.line.word.fetch_add(1, Relaxed);
}

pub(crate) fn compare_exchange_loop(shared: &Shared) {
    let mut seen = shared.line.word.load(Relaxed);
    while let Err(now) = shared.line.word.compare_exchange(seen, seen + 1, AcqRel, Relaxed) {
        seen = now;
    }
}

/// Tickets and turn are on one line, the data on another; the wait is a bare loop of loads.
pub(crate) fn ticket_lock(shared: &Shared) {
    let ticket = shared.line.word.fetch_add(1, Relaxed);
    while shared.line.other.load(Acquire) != ticket {}
    shared.count.count.store(shared.count.count.load(Relaxed) + 1, Relaxed);
    shared.line.other.store(shared.line.other.load(Relaxed) + 1, Release);
}

/// A mutex as in the GNU C library: it does not spin, but sleeps at once, and notes its owner
/// beside its word. The data are on another line.
pub(crate) fn mutex(shared: &Shared) {
    let (word, owner) = &shared.mutex;
    if word.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
        if word.load(Relaxed) == 2 {
            Sim::wait(word, 2, None);
        }
        while word.swap(2, Acquire) != 0 {
            Sim::wait(word, 2, None);
        }
    }
    owner.store(1, Relaxed);
    shared.count.count.store(shared.count.count.load(Relaxed) + 1, Relaxed);
    owner.store(0, Relaxed);
    if word.swap(0, Release) == 2 {
        Sim::wake_one(word);
    }
}

/// Nanoseconds per operation and thread, where `threads` threads on as many CPUs do it.
pub(crate) fn contended_ns(threads: u32, operation: Operation) -> f64 {
    let times: u64 = if threads > 4 { 400 } else { 2_000 };
    let shared = Arc::new(Shared {
        line: Line::new(),
        count: Line::new(),
        mutex: (AtomicU32::new(0), AtomicU64::new(0)),
    });
    let begin = Arc::new(Line::new());
    let total = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let workers: Vec<_> = (0..threads)
        .map(|cpu| {
            let (shared, begin, total) =
                (Arc::clone(&shared), Arc::clone(&begin), Arc::clone(&total));
            pinned(CpuId(cpu), move || {
                begin.word.fetch_add(1, AcqRel);
                while begin.word.load(Acquire) != u64::from(threads) {
                    Sim::spin_hint();
                }
                let start = Sim::now();
                (0..times).for_each(|_| operation(&shared));
                total.fetch_add(Sim::now().ns_since(start), Relaxed);
            })
        })
        .collect();
    workers.into_iter().for_each(ThreadHandle::join);
    total.load(Relaxed) as f64 / f64::from(threads) / times as f64
}
