//! Stores that other CPUs do not see yet: total store order (TSO), x86's memory order.
//!
//! A CPU's stores wait in its store buffer. The CPU itself sees them at once; all others see them later, in
//! order. The buffer is drained at the latest when the CPU executes a locked instruction, makes a system
//! call, or switches to another thread. So a thread that stores to one word and then loads another may load
//! before its store is visible. A program that ignores this hangs once in a billion times. Here the fault
//! injector decides which stores are delayed, and for how long.
//!
//! Two kinds of stores are not buffered: stores of pointers, and stores to the thread's own stack, which may
//! have another use by the time they become visible. To free or move any other word, the thread calls the
//! allocator, which drains the buffer first.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::machine::Ps;
use crate::memory::Place;
use crate::report::Site;

/// A store that is not written to memory yet.
pub(crate) struct BufferedStore {
    pub(crate) word: *const (),
    pub(crate) bytes: usize,
    pub(crate) value: u64,
    pub(crate) place: Place,
    /// When it is written to memory at the latest.
    pub(crate) due: Ps,
    pub(crate) site: Site,
}

impl BufferedStore {
    pub(super) fn write(&self) {
        // SAFETY: the word was borrowed as an atomic of this size when it was stored to. It is neither freed
        // nor moved before its thread's store buffer is drained, as the header of this file explains.
        unsafe {
            match self.bytes {
                1 => (*self.word.cast::<AtomicU8>()).store(self.value as u8, Relaxed),
                4 => (*self.word.cast::<AtomicU32>()).store(self.value as u32, Relaxed),
                _ => (*self.word.cast::<AtomicU64>()).store(self.value, Relaxed),
            }
        }
    }
}

/// The store buffers of all CPUs.
pub(super) struct StoreBuffers {
    /// By CPU, the oldest store first.
    buffers: Vec<VecDeque<BufferedStore>>,
    /// The number of stores in all of them.
    len: usize,
    /// The earliest due time; `Ps::MAX` if there are no stores.
    first_due: Ps,
}

impl StoreBuffers {
    pub(super) fn new(cpus: usize) -> Self {
        Self { buffers: (0..cpus).map(|_| VecDeque::new()).collect(), len: 0, first_due: Ps::MAX }
    }

    #[inline]
    pub(super) fn has_stores_of(&self, cpu: usize) -> bool {
        self.len > 0 && !self.buffers[cpu].is_empty()
    }

    /// Returns the CPU whose oldest store is the first to be due by `now`.
    #[inline]
    pub(super) fn due(&self, now: Ps) -> Option<usize> {
        if now < self.first_due {
            return None;
        }
        let first = |cpu: &usize| self.buffers[*cpu].front().map_or(Ps::MAX, |first| first.due);
        (0..self.buffers.len()).min_by_key(first)
    }

    pub(super) fn pop_oldest(&mut self, cpu: usize) -> Option<BufferedStore> {
        let store = self.buffers[cpu].pop_front()?;
        self.len -= 1;
        // Within a CPU, the first store is the first to be due.
        let firsts = self.buffers.iter().filter_map(|buffer| buffer.front());
        self.first_due = firsts.map(|first| first.due).min().unwrap_or(Ps::MAX);
        Some(store)
    }

    pub(super) fn append(&mut self, cpu: usize, mut store: BufferedStore) {
        let buffer = &mut self.buffers[cpu];
        store.due = buffer.back().map_or(store.due, |last| last.due.max(store.due));
        self.first_due = self.first_due.min(store.due);
        buffer.push_back(store);
        self.len += 1;
    }

    /// Returns the value that the CPU has stored to `word` and that others do not see yet: store-to-load
    /// forwarding.
    #[inline]
    pub(super) fn latest(&self, cpu: usize, word: *const ()) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        self.buffers[cpu].iter().rev().find(|store| store.word == word).map(|store| store.value)
    }
}
