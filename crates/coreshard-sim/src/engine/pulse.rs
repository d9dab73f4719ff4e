//! Whether a run makes progress, for another host thread that would otherwise wait for it forever.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Reports, on any host thread, whether a simulation makes progress, and which virtual thread occupies the
/// host thread.
///
/// A virtual thread that blocks by means unknown to the simulator occupies it forever.
#[derive(Debug, Default)]
pub struct Pulse {
    beats: AtomicU64,
    thread: AtomicU64,
    names: Mutex<Vec<String>>,
    item: Mutex<Option<&'static str>>,
}

impl Pulse {
    /// Returns a number that grows while virtual threads have turns, or access memory.
    #[must_use]
    pub fn beats(&self) -> u64 {
        self.beats.load(Relaxed)
    }

    /// Returns the virtual thread whose turn it is, and the item that it was inside when the turn began.
    #[must_use]
    pub fn thread(&self) -> (String, Option<&'static str>) {
        let thread = self.thread.load(Relaxed) as usize;
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let item = *self.item.lock().unwrap_or_else(PoisonError::into_inner);
        (names.get(thread).cloned().unwrap_or_default(), item)
    }

    pub(super) fn thread_is_new(&self, name: &str) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).push(name.to_owned());
    }

    pub(super) fn turn(&self, thread: usize, item: Option<&'static str>) {
        self.thread.store(thread as u64, Relaxed);
        *self.item.lock().unwrap_or_else(PoisonError::into_inner) = item;
        self.beat();
    }

    pub(super) fn beat(&self) {
        self.beats.fetch_add(1, Relaxed);
    }
}
