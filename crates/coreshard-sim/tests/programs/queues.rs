//! Bounded queues for many producers and consumers, as they are published with the tables of `lab/predictions`, written
//! anew: consecutive slots are on lines of their own, as long as there are enough.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, Platform, ThreadHandle};
use coreshard_sim::Sim;
use coreshard_topology::CpuId;

use super::{AtomicU64, Line, pinned};

/// More than are ever queued here, as published: 128 Ki.
const SLOTS: u64 = 4_096;

pub(crate) struct Ring {
    head: Line,
    tail: Line,
    lock: Line,
    slots: Vec<Line>,
}

/// How a queue is pushed to and popped from. Each waits until it could.
#[derive(Clone, Copy)]
pub(crate) struct Queue {
    push: fn(&Ring, u64),
    pop: fn(&Ring) -> u64,
}

impl Ring {
    fn new() -> Self {
        let slots: Vec<Line> = (0..SLOTS).map(|_| Line::new()).collect();
        for (number, slot) in slots.iter().enumerate() {
            slot.count.store(number as u64, Relaxed);
        }
        Self { head: Line::new(), tail: Line::new(), lock: Line::new(), slots }
    }

    fn slot(&self, number: u64) -> &Line {
        &self.slots[(number % SLOTS) as usize]
    }

    fn put(&self, number: u64, value: u64) {
        let word = &self.slot(number).word;
        while word.compare_exchange(0, value, AcqRel, Relaxed).is_err() {
            loop {
                Sim::spin_hint();
                if word.load(Relaxed) == 0 {
                    break;
                }
            }
        }
    }

    fn take(&self, number: u64) -> u64 {
        let word = &self.slot(number).word;
        loop {
            let value = word.swap(0, AcqRel);
            if value != 0 {
                return value;
            }
            loop {
                Sim::spin_hint();
                if word.load(Relaxed) != 0 {
                    break;
                }
            }
        }
    }
}

/// Each takes a number by an atomic add, and waits at that slot.
pub(crate) const OPTIMIST: Queue = Queue {
    push: |ring, value| ring.put(ring.head.word.fetch_add(1, AcqRel), value),
    pop: |ring| ring.take(ring.tail.word.fetch_add(1, AcqRel)),
};

/// Advances `index` while `free` of the other index leaves room.
fn advance(index: &AtomicU64, room: impl Fn(u64) -> bool) -> u64 {
    'again: loop {
        let mut seen = index.load(Relaxed);
        loop {
            if !room(seen) {
                Sim::spin_hint();
                continue 'again;
            }
            match index.compare_exchange(seen, seen + 1, Relaxed, Relaxed) {
                Ok(_) => return seen,
                Err(now) => seen = now,
            }
        }
    }
}

/// Each looks whether there is room, and takes a number by compare-exchange.
pub(crate) const CAUTIOUS: Queue = Queue {
    push: |ring, value| {
        let room = |head: u64| head.saturating_sub(ring.tail.word.load(Relaxed)) < SLOTS;
        ring.put(advance(&ring.head.word, room), value);
    },
    pop: |ring| {
        let room = |tail: u64| ring.head.word.load(Relaxed) > tail;
        ring.take(advance(&ring.tail.word, room))
    },
};

/// D. Vyukov's: a slot's sequence says whose turn it is.
pub(crate) const VYUKOV: Queue = Queue {
    push: |ring, value| {
        let number = by_sequence(ring, &ring.head.word, 0);
        let slot = ring.slot(number);
        slot.word.store(value, Relaxed);
        slot.count.store(number + 1, Release);
    },
    pop: |ring| {
        let number = by_sequence(ring, &ring.tail.word, 1);
        let slot = ring.slot(number);
        let value = slot.word.load(Relaxed);
        slot.count.store(number + SLOTS, Release);
        value
    },
};

fn by_sequence(ring: &Ring, index: &AtomicU64, ahead: u64) -> u64 {
    let mut seen = index.load(Relaxed);
    loop {
        let sequence = ring.slot(seen).count.load(Acquire);
        if sequence == seen + ahead {
            match index.compare_exchange(seen, seen + 1, Relaxed, Relaxed) {
                Ok(_) => return seen,
                Err(now) => seen = now,
            }
        } else {
            if sequence < seen + ahead {
                Sim::spin_hint();
            }
            seen = index.load(Relaxed);
        }
    }
}

fn locked<R>(ring: &Ring, body: impl Fn() -> Option<R>) -> R {
    loop {
        while ring.lock.word.swap(1, Acquire) != 0 {
            let mut pauses = 1;
            while ring.lock.word.load(Relaxed) != 0 {
                // Twice as long each time, then the CPU is given up.
                if pauses <= 16 {
                    (0..pauses).for_each(|_| Sim::spin_hint());
                    pauses *= 2;
                } else {
                    Sim::yield_now();
                }
            }
        }
        let result = body();
        ring.lock.word.store(0, Release);
        if let Some(result) = result {
            return result;
        }
        Sim::spin_hint();
    }
}

/// A ring under a test-and-set lock with backoff.
pub(crate) const SPIN_LOCKED: Queue = Queue {
    push: |ring, value| {
        locked(ring, || {
            let head = ring.head.word.load(Relaxed);
            (head - ring.tail.word.load(Relaxed) < SLOTS).then(|| {
                ring.slot(head).word.store(value, Relaxed);
                ring.head.word.store(head + 1, Relaxed);
            })
        });
    },
    pop: |ring| {
        locked(ring, || {
            let tail = ring.tail.word.load(Relaxed);
            (ring.head.word.load(Relaxed) != tail).then(|| {
                let value = ring.slot(tail).word.load(Relaxed);
                ring.tail.word.store(tail + 1, Relaxed);
                value
            })
        })
    },
};

/// Each queue by the name that tables call it.
pub(crate) const QUEUES: &[(&str, Queue)] = &[
    ("queue by atomic adds", OPTIMIST),
    ("queue by compare-exchange", CAUTIOUS),
    ("queue by sequences", VYUKOV),
    ("queue under a spin lock", SPIN_LOCKED),
];

/// Nanoseconds a message, where `pairs` producers on the first CPUs send to as many consumers on the next ones.
pub(crate) fn message_ns(pairs: u32, queue: Queue) -> f64 {
    const STOP: u64 = 1;
    let each = 6_000 / u64::from(pairs);
    let (ring, ready) = (Arc::new(Ring::new()), Arc::new(Line::new()));
    let begin = Arc::new(std::sync::atomic::AtomicU64::new(u64::MAX));
    let end = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let threads: Vec<_> = (0..2 * pairs)
        .map(|cpu| {
            let (ring, ready) = (Arc::clone(&ring), Arc::clone(&ready));
            let (begin, end) = (Arc::clone(&begin), Arc::clone(&end));
            pinned(CpuId(cpu), move || {
                ready.word.fetch_add(1, AcqRel);
                while ready.word.load(Acquire) != u64::from(2 * pairs) {
                    Sim::spin_hint();
                }
                begin.fetch_min(Sim::now().as_ns(), Relaxed);
                if cpu < pairs {
                    // The last one stops a consumer.
                    (STOP..=each).rev().for_each(|value| (queue.push)(&ring, value));
                } else {
                    while (queue.pop)(&ring) != STOP {}
                }
                end.fetch_max(Sim::now().as_ns(), Relaxed);
            })
        })
        .collect();
    threads.into_iter().for_each(ThreadHandle::join);
    (end.load(Relaxed) - begin.load(Relaxed)) as f64 / (each * u64::from(pairs)) as f64
}
