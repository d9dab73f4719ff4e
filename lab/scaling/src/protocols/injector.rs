//! A queue of words that all threads push to and pop from without a lock, like crossbeam's block-linked lists: an atomic operation
//! on either end gives a ticket, and the ticket's slot has its own word.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use coreshard_platform::{AtomicInt, Padded, Platform};
use coreshard_sim::Sim;

type AtomicU64 = <Sim as Platform>::AtomicU64;

/// Enough for every load: a slot is not used again while it is full.
const SLOTS: u64 = 1 << 14;

pub(crate) struct Injector {
    head: Padded<AtomicU64>,
    tail: Padded<AtomicU64>,
    /// A value and the lap that it was written in, beside each other as in a block.
    slots: Box<[[AtomicU64; 2]]>,
}

impl Injector {
    pub(crate) fn new() -> Self {
        let word = || AtomicU64::new(0);
        Self {
            head: Padded::new(word()),
            tail: Padded::new(word()),
            slots: (0..SLOTS).map(|_| [word(), word()]).collect(),
        }
    }

    /// Returns whether the queue was empty before.
    pub(crate) fn push(&self, value: u64) -> bool {
        let ticket = self.tail.fetch_add(1, SeqCst);
        let head = self.head.load(SeqCst);
        assert!(ticket < head + SLOTS, "loads are smaller");
        let [slot, lap] = &self.slots[(ticket % SLOTS) as usize];
        slot.store(value, Relaxed);
        lap.store(ticket / SLOTS + 1, Release);
        ticket <= head
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(SeqCst) == self.tail.load(SeqCst)
    }

    pub(crate) fn pop(&self) -> Option<u64> {
        loop {
            let ticket = self.head.load(SeqCst);
            if ticket == self.tail.load(SeqCst) {
                return None;
            }
            if self.head.compare_exchange(ticket, ticket + 1, SeqCst, Relaxed).is_ok() {
                let [slot, lap] = &self.slots[(ticket % SLOTS) as usize];
                while lap.load(Acquire) != ticket / SLOTS + 1 {
                    Sim::spin_hint();
                }
                return Some(slot.load(Relaxed));
            }
        }
    }
}
