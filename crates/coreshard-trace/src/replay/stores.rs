//! The store buffer of a CPU.
//!
//! A store whose line is elsewhere waits here while its CPU continues, and loads of its bytes are forwarded from here.
//! Stores leave in order. The first store requests its line, and when the line arrives, all stores leave up to the first
//! whose line is elsewhere. Consecutive stores to one word share an entry: on a Xeon (family 6, model 207), whose buffer has 112
//! entries, loops that add to one word continue for some 270 stores during a round trip of the line, and loops over four words for
//! 112. A CPU stalls when the buffer is full, and at a read-modify-write until the buffer is empty. Stores to private lines take no
//! space.

use std::collections::VecDeque;

use super::accessor::Accessor;
use crate::recording::Access;

/// A load is compared with this number of the latest waiting stores.
const LOOKED_AT: usize = 64;
/// Time from a store until it is visible in the cache, even if its line is present. It is the duration of about a
/// hundred instructions.
const IN_FLIGHT_PS: u64 = 20_000;
/// A load is compared with this number of the latest stores that are in flight.
const MOST_LATELY: usize = 8;

/// A waiting store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Store {
    pub(super) access: Access,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) line: u32,
    pub(super) by: Accessor,
}

impl Store {
    fn is_of(&self, address: u64, size: u64) -> bool {
        self.address == address && self.size == size
    }
}

/// The waiting stores of one CPU.
#[derive(Debug, Default)]
pub(super) struct Stores {
    waiting: VecDeque<Store>,
    /// The entries of the waiting stores.
    entries: usize,
    /// Arrival of the requested line, in picoseconds.
    due: u64,
    /// Whether the CPU's thread had that line before.
    is_taken_back: bool,
    /// The address, size and time of the CPU's last stores, waiting or not, and the place of the next one.
    lately: [(u64, u64, u64); MOST_LATELY],
    next: usize,
}

impl Stores {
    /// Returns the time at which the first stores leave, or none if no store is waiting.
    #[inline]
    pub(super) fn due(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.due)
    }

    /// Whether a further store of these bytes has to wait, for the number of stores or of entries.
    pub(super) fn is_full(&self, most: u64, most_entries: u64, address: u64, size: u64) -> bool {
        let shares = self.waiting.back().is_some_and(|last| last.is_of(address, size));
        let has_entry = shares || most_entries == 0 || (self.entries as u64) < most_entries;
        self.waiting.len() as u64 >= most || !has_entry
    }

    pub(super) fn add_waiting(&mut self, store: Store) {
        let shares = self.waiting.back().is_some_and(|last| last.is_of(store.address, store.size));
        self.entries += usize::from(!shares);
        self.waiting.push_back(store);
    }

    /// Records a store of the CPU, which may have to wait.
    pub(super) fn begin(&mut self, address: u64, size: u64, now: u64) {
        self.lately[self.next] = (address, size, now);
        self.next = (self.next + 1) % MOST_LATELY;
    }

    /// Records that the first store's line was requested and arrives at `due`.
    pub(super) fn await_line(&mut self, due: u64, is_taken_back: bool) {
        self.due = due;
        self.is_taken_back = is_taken_back;
    }

    /// Takes the first store, whose line has arrived.
    pub(super) fn leave(&mut self) -> Option<Store> {
        let first = self.waiting.pop_front()?;
        let shares = self.oldest().is_some_and(|next| next.is_of(first.address, first.size));
        self.entries -= usize::from(!shares);
        Some(first)
    }

    /// Returns the first store, whose line was requested.
    pub(super) fn oldest(&self) -> Option<Store> {
        self.waiting.front().copied()
    }

    /// Returns the first store if its line was lost to another CPU.
    pub(super) fn taken_back(&self) -> Option<Store> {
        self.oldest().filter(|_| self.is_taken_back)
    }

    /// Whether a load of these bytes is forwarded from here.
    pub(super) fn answers(&self, address: u64, size: u64, now: u64) -> bool {
        let holds = |at: u64, bytes: u64| at <= address && address - at + size <= bytes;
        let is_in_flight = |since: u64| now < since.saturating_add(IN_FLIGHT_PS);
        self.lately.iter().any(|(at, bytes, since)| holds(*at, *bytes) && is_in_flight(*since))
            || self.waiting.iter().rev().take(LOOKED_AT).any(|its| holds(its.address, its.size))
    }
}
