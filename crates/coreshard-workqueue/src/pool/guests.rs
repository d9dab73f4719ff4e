//! Guests: workers of neighbouring pods that help a pool with more waiting items than its own workers can run soon.
//!
//! A pool whose places are all taken, and whose backlog is worth further wake-ups, publishes how many guests it wants, and
//! wakes sleepers of its neighbours. So does the producer of a burst, once it has woken all of the pool's runners-up. The
//! number is only raised until the pool has no waiting item, since a worker that counts early in a burst sees only its start.
//!
//! A worker that finds nothing in its own pool checks which neighbour wants guests. It hands its place over as in
//! [`blocking`](super::blocking), and becomes a worker of the other pool, on its own thread and CPU, until it finds no item
//! there or its own pool has work. The host counts it beyond its limit. Pools of strict queues and teams have no guests.

use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Padded, Platform, fields};

/// How many guests a pool wants. Relaxed: a guest looks for items under the host's lock.
pub(super) struct Guests<P: Platform> {
    wanted: Padded<P::AtomicU32>,
}
fields!(Guests<P: Platform> { wanted });

impl<P: Platform> Guests<P> {
    pub(super) fn new() -> Self {
        Self { wanted: Padded::new(P::AtomicU32::new(0)) }
    }

    /// Raises the number of guests that the pool wants. Returns by how many.
    pub(super) fn want(&self, guests: u32) -> u32 {
        let before = self.wanted.load(Relaxed);
        if guests > before {
            self.wanted.store(guests, Relaxed);
        }
        guests.saturating_sub(before)
    }

    /// No item waits: the pool wants no guest any more.
    pub(super) fn want_none(&self) {
        if self.are_wanted() {
            self.wanted.store(0, Relaxed);
        }
    }

    /// Raises it by one.
    pub(super) fn want_another(&self) {
        self.wanted.fetch_add(1, Relaxed);
    }

    pub(super) fn are_wanted(&self) -> bool {
        self.wanted.load(Relaxed) > 0
    }

    /// Makes the caller one of the guests. Returns false if others were quicker.
    pub(super) fn claim(&self) -> bool {
        let mut wanted = self.wanted.load(Relaxed);
        while wanted > 0 {
            match self.wanted.compare_exchange(wanted, wanted - 1, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => wanted = now,
            }
        }
        false
    }
}
