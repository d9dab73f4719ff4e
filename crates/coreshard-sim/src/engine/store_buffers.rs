//! The stores that CPUs have made and others do not see yet.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::machine::Ps;
use crate::memory::Place;
use crate::site::Site;

/// A store that is not written to memory yet.
pub(super) struct BufferedStore {
    pub(super) word: *const (),
    pub(super) bytes: usize,
    pub(super) value: u64,
    pub(super) place: Place,
    /// When it is written to memory at the latest.
    pub(super) due: Ps,
    pub(super) site: Site,
}

impl BufferedStore {
    pub(super) fn write(&self) {
        // SAFETY: the word was borrowed as an atomic of this size when it was stored to; it is neither
        // freed nor moved before its thread's store buffer is drained, as `tso.rs` says.
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
    pub(super) buffers: Vec<VecDeque<BufferedStore>>,
    /// Stores in all of them.
    pub(super) len: usize,
    /// When the first of all is due; `Ps::MAX` where there is none.
    pub(super) first_due: Ps,
}

impl StoreBuffers {
    pub(super) fn new(cpus: usize) -> Self {
        Self { buffers: (0..cpus).map(|_| VecDeque::new()).collect(), len: 0, first_due: Ps::MAX }
    }

    pub(super) fn pop(&mut self, cpu: usize) -> Option<BufferedStore> {
        let store = self.buffers[cpu].pop_front()?;
        self.len -= 1;
        // Within a CPU the first is the first to be due.
        let firsts = self.buffers.iter().filter_map(|buffer| buffer.front());
        self.first_due = firsts.map(|first| first.due).min().unwrap_or(Ps::MAX);
        Some(store)
    }

    pub(super) fn push(&mut self, cpu: usize, mut store: BufferedStore) {
        let buffer = &mut self.buffers[cpu];
        store.due = buffer.back().map_or(store.due, |last| last.due.max(store.due));
        self.first_due = self.first_due.min(store.due);
        buffer.push_back(store);
        self.len += 1;
    }

    /// What the CPU has stored to `word` and others do not see yet: store-to-load forwarding.
    pub(super) fn latest(&self, cpu: usize, word: *const ()) -> Option<u64> {
        self.buffers[cpu].iter().rev().find(|store| store.word == word).map(|store| store.value)
    }
}
