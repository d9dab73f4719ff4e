//! The store buffer of a CPU.
//!
//! A store whose line is elsewhere waits here while its CPU continues, and loads of its bytes are answered from here. Stores
//! leave in order: the first asks for its line, and when the line arrives, all following stores to it leave as well. A CPU
//! stalls when the buffer is full, and at a read-modify-write until the buffer is empty. Stores to private lines take no room.

use std::collections::VecDeque;

use super::lines::Accessor;
use crate::recording::Access;

/// Of those that wait, the latest that a load is held against.
const LOOKED_AT: usize = 64;
/// For so long a store is not yet in the cache, even where its line is: as long as some hundred instructions take.
const IN_FLIGHT_PS: u64 = 20_000;

/// A store that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Store {
    pub(super) access: Access,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) line: u32,
    pub(super) by: Accessor,
}

/// The stores of one CPU that wait.
#[derive(Debug, Default)]
pub(super) struct Stores {
    waiting: VecDeque<Store>,
    /// When the line that was asked for is there, in picoseconds.
    due: u64,
    /// Whether the CPU's thread had that line before.
    is_taken_back: bool,
    /// The CPU's last one, waiting or not: its address, its size, and when it was.
    last: (u64, u64, u64),
}

impl Stores {
    /// When the first ones leave; none if nothing waits.
    #[inline]
    pub(super) fn due(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.due)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn push(&mut self, store: Store) {
        self.waiting.push_back(store);
    }

    /// The CPU stores something, which may wait or not.
    pub(super) fn begin(&mut self, address: u64, size: u64, now: u64) {
        self.last = (address, size, now);
    }

    /// The first one's line is asked for, and comes then.
    pub(super) fn expect(&mut self, due: u64, is_taken_back: bool) {
        self.due = due;
        self.is_taken_back = is_taken_back;
    }

    /// Takes the first one, whose line is there.
    pub(super) fn leave(&mut self) -> Option<Store> {
        self.waiting.pop_front()
    }

    /// Takes the next one, if it is to this line.
    pub(super) fn next_to(&mut self, line: u32) -> Option<Store> {
        self.waiting.front().filter(|next| next.line == line)?;
        self.waiting.pop_front()
    }

    /// The first one, whose line was asked for.
    pub(super) fn first(&self) -> Option<Store> {
        self.waiting.front().copied()
    }

    /// The first one, if its line was lost to another CPU.
    pub(super) fn taken_back(&self) -> Option<Store> {
        self.first().filter(|_| self.is_taken_back)
    }

    /// Whether a load of these bytes is answered from here.
    pub(super) fn answers(&self, address: u64, size: u64, now: u64) -> bool {
        let holds = |at: u64, bytes: u64| at <= address && address - at + size <= bytes;
        let (at, bytes, since) = self.last;
        (holds(at, bytes) && now < since.saturating_add(IN_FLIGHT_PS))
            || self.waiting.iter().rev().take(LOOKED_AT).any(|its| holds(its.address, its.size))
    }
}
