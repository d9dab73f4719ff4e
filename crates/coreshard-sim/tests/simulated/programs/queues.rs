//! Bounded queues for many producers and consumers, published with the tables of `lab/predictions`,
//! reimplemented. Data that shares a line, or a pair of lines, in the originals also does so here. A line
//! holds sixteen elements, with consecutive elements on different lines; or four cells of a sequence and an
//! element, one after the other. A queue's header words are adjacent, each on its own line.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, Platform, ThreadHandle};
use coreshard_sim::Sim;
use coreshard_topology::CpuId;

use super::{AtomicU32, AtomicU64, Line, pinned};

/// More than are ever queued here; 64 Ki in the original.
const SLOTS: u64 = 512;

/// Elements of four bytes.
const ELEMENTS_OF_LINE: u64 = 16;
#[repr(align(64))]
struct Elements([AtomicU32; ELEMENTS_OF_LINE as usize]);

#[repr(C)]
struct Cell {
    sequence: AtomicU64,
    element: AtomicU32,
}

const CELLS_OF_LINE: u64 = 4;
#[repr(align(64))]
struct Cells([Cell; CELLS_OF_LINE as usize]);

#[repr(align(64))]
struct Word(AtomicU64);

/// The header words of a queue.
#[repr(C, align(128))]
struct Words([Word; 4]);

pub(crate) struct Ring {
    words: Words,
    elements: Vec<Elements>,
    cells: Vec<Cells>,
    /// Not a part of the queue.
    chance: std::sync::atomic::AtomicU64,
}

/// The push and pop operations of a queue. Each waits until it is possible.
#[derive(Clone, Copy)]
pub(crate) struct Queue {
    push: fn(&Ring, u32),
    pop: fn(&Ring) -> u32,
}

impl Ring {
    fn new() -> Self {
        let elements = || Elements(std::array::from_fn(|_| AtomicU32::new(0)));
        let cell = |line: u64, at: usize| Cell {
            sequence: AtomicU64::new(line * CELLS_OF_LINE + at as u64),
            element: AtomicU32::new(0),
        };
        let ring = Self {
            words: Words(std::array::from_fn(|_| Word(AtomicU64::new(0)))),
            elements: (0..SLOTS / ELEMENTS_OF_LINE).map(|_| elements()).collect(),
            cells: (0..SLOTS / CELLS_OF_LINE)
                .map(|line| Cells(std::array::from_fn(|at| cell(line, at))))
                .collect(),
            chance: std::sync::atomic::AtomicU64::new(1),
        };
        // Creating a queue writes all of it.
        ring.elements.iter().for_each(|line| line.0[0].store(0, Relaxed));
        for line in &ring.cells {
            let sequence = &line.0[0].sequence;
            sequence.store(sequence.load(Relaxed), Relaxed);
        }
        ring
    }

    fn by_chance(&self, below: u64) -> u64 {
        let next = self.chance.load(Relaxed).wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        self.chance.store(next, Relaxed);
        (next >> 33) % below
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.words.0[at].0
    }

    /// Returns the element with this number. The next one is on the next line, and after sixteen lines it is
    /// the first line again.
    fn element(&self, number: u64) -> &AtomicU32 {
        let at = number % SLOTS;
        let (group, within) = (at / (ELEMENTS_OF_LINE * ELEMENTS_OF_LINE), at / ELEMENTS_OF_LINE);
        let line = group * ELEMENTS_OF_LINE + at % ELEMENTS_OF_LINE;
        &self.elements[line as usize].0[(within % ELEMENTS_OF_LINE) as usize]
    }

    fn cell(&self, number: u64) -> &Cell {
        let at = number % SLOTS;
        &self.cells[(at / CELLS_OF_LINE) as usize].0[(at % CELLS_OF_LINE) as usize]
    }

    fn put(&self, number: u64, value: u32) {
        let word = self.element(number);
        while word.compare_exchange(0, value, AcqRel, Relaxed).is_err() {
            loop {
                Sim::spin_hint();
                if word.load(Relaxed) == 0 {
                    break;
                }
            }
        }
    }

    fn take(&self, number: u64) -> u32 {
        let word = self.element(number);
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

/// Each operation takes a number by an atomic add, and waits at that slot.
pub(crate) const OPTIMIST: Queue = Queue {
    push: |ring, value| ring.put(ring.word(index::HEAD).fetch_add(1, AcqRel), value),
    pop: |ring| ring.take(ring.word(index::TAIL).fetch_add(1, AcqRel)),
};

/// The words of the two index-based queues.
mod index {
    pub(super) const HEAD: usize = 0;
    pub(super) const TAIL: usize = 1;
}

/// Advances `index` while the other index leaves room.
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

/// Each operation checks for room, and takes a number by compare-exchange.
pub(crate) const CAUTIOUS: Queue = Queue {
    push: |ring, value| {
        let room = |head: u64| head.saturating_sub(ring.word(index::TAIL).load(Relaxed)) < SLOTS;
        ring.put(advance(ring.word(index::HEAD), room), value);
    },
    pop: |ring| {
        let room = |tail: u64| ring.word(index::HEAD).load(Relaxed) > tail;
        ring.take(advance(ring.word(index::TAIL), room))
    },
};

/// D. Vyukov's queue, as implemented by M. Pöter: a cell's sequence determines whose turn it is. If it is not
/// this one's, the other index tells whether the queue is full, or empty.
pub(crate) const VYUKOV: Queue = Queue {
    push: |ring, value| {
        let full = |head: u64| ring.word(after::TAIL).load(Relaxed) + SLOTS == head;
        let number = by_sequence(ring, ring.word(after::HEAD), 0, full);
        let cell = ring.cell(number);
        cell.element.store(value, Relaxed);
        cell.sequence.store(number + 1, Release);
    },
    pop: |ring| {
        let empty = |tail: u64| ring.word(after::HEAD).load(Relaxed) == tail;
        let number = by_sequence(ring, ring.word(after::TAIL), 1, empty);
        let cell = ring.cell(number);
        let value = cell.element.load(Relaxed);
        cell.sequence.store(number + SLOTS, Release);
        value
    },
};

/// The words of queues whose first word is the address of the cells, or a lock.
mod after {
    pub(super) const FIRST: usize = 0;
    pub(super) const HEAD: usize = 1;
    pub(super) const TAIL: usize = 2;
}

fn by_sequence(ring: &Ring, index: &AtomicU64, ahead: u64, no: impl Fn(u64) -> bool) -> u64 {
    let mut seen = index.load(Relaxed);
    loop {
        // The address of the cells.
        ring.word(after::FIRST).load(Relaxed);
        if ring.cell(seen).sequence.load(Acquire) == seen + ahead {
            match index.compare_exchange(seen, seen + 1, Relaxed, Relaxed) {
                Ok(_) => return seen,
                Err(now) => seen = now,
            }
        } else {
            let now = index.load(Relaxed);
            if now == seen && no(seen) {
                // The caller retries.
                Sim::spin_hint();
                seen = index.load(Relaxed);
            } else {
                seen = now;
            }
        }
    }
}

fn locked<R>(ring: &Ring, body: impl Fn() -> Option<R>) -> R {
    loop {
        let mut pauses = 1;
        while ring.word(after::FIRST).swap(1, Acquire) != 0 {
            // Twice as long each time, then the CPU is yielded.
            if pauses <= 16 {
                (0..pauses).for_each(|_| Sim::spin_hint());
                pauses *= 2;
            } else {
                Sim::yield_now();
                // No two kernel calls take the same time; loops in which they did would miss each other
                // forever.
                (0..ring.by_chance(4)).for_each(|_| Sim::spin_hint());
            }
        }
        let result = body();
        ring.word(after::FIRST).store(0, Release);
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
            let head = ring.word(after::HEAD).load(Relaxed);
            (head - ring.word(after::TAIL).load(Relaxed) < SLOTS).then(|| {
                ring.element(head).store(value, Relaxed);
                ring.word(after::HEAD).store(head + 1, Relaxed);
            })
        });
    },
    pop: |ring| {
        locked(ring, || {
            let tail = ring.word(after::TAIL).load(Relaxed);
            (ring.word(after::HEAD).load(Relaxed) != tail).then(|| {
                let value = ring.element(tail).load(Relaxed);
                ring.word(after::TAIL).store(tail + 1, Relaxed);
                value
            })
        })
    },
};

/// The queues, by their names in the tables.
pub(crate) const QUEUES: &[(&str, Queue)] = &[
    ("queue by atomic adds", OPTIMIST),
    ("queue by compare-exchange", CAUTIOUS),
    ("queue by sequences", VYUKOV),
    ("queue under a spin lock", SPIN_LOCKED),
];

/// Returns nanoseconds per message, with `pairs` producers on the first CPUs and as many consumers on the
/// next ones.
pub(crate) fn message_ns(pairs: u32, queue: Queue) -> f64 {
    const STOP: u32 = 1;
    let each = 6_000 / pairs;
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
    (end.load(Relaxed) - begin.load(Relaxed)) as f64 / f64::from(each * pairs)
}

/// The tables' name for a message through one queue and back through another.
pub(crate) const ROUND_TRIP: &str = "round trip through queues";

/// The queue by atomic adds, for one producer and one consumer with eight slots: each has its own index, and
/// waits at that slot.
struct Pipe {
    ring: Arc<Ring>,
    sent: u64,
    received: u64,
}

impl Pipe {
    fn slot(&self, number: u64) -> &AtomicU32 {
        &self.ring.elements[0].0[(number % 8) as usize]
    }

    fn send(&mut self, value: u32) {
        self.ring.word(index::HEAD).store(self.sent + 1, Relaxed);
        let slot = self.slot(self.sent);
        while slot.load(Acquire) != 0 {}
        slot.store(value, Release);
        self.sent += 1;
    }

    fn receive(&mut self) -> u32 {
        self.ring.word(index::TAIL).store(self.received + 1, Relaxed);
        let slot = self.slot(self.received);
        let value = loop {
            let value = slot.load(Acquire);
            if value != 0 {
                break value;
            }
        };
        slot.store(0, Release);
        self.received += 1;
        value
    }
}

/// Returns the nanoseconds of a message from the first CPU to the next one through one queue, and back
/// through another.
pub(crate) fn round_trip_ns() -> f64 {
    const ROUNDS: u32 = 500;
    let (there, back) = (Arc::new(Ring::new()), Arc::new(Ring::new()));
    let took = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let pipe = |ring: &Arc<Ring>| Pipe { ring: Arc::clone(ring), sent: 0, received: 0 };
    let echo = {
        let (mut there, mut back) = (pipe(&there), pipe(&back));
        pinned(CpuId(1), move || (0..ROUNDS).for_each(|_| back.send(there.receive())))
    };
    let sender = {
        let took = Arc::clone(&took);
        let (mut there, mut back) = (pipe(&there), pipe(&back));
        pinned(CpuId(0), move || {
            let mut start = Sim::now();
            for round in 0..ROUNDS {
                // The other thread has started by now.
                if round == ROUNDS / 10 {
                    start = Sim::now();
                }
                there.send(1);
                back.receive();
            }
            took.store(Sim::now().ns_since(start), Relaxed);
        })
    };
    sender.join();
    echo.join();
    took.load(Relaxed) as f64 / f64::from(ROUNDS - ROUNDS / 10)
}
