//! Releases all producers together, and tells when the last one is done.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use coreshard_platform::{AtomicInt, Padded, Parker, Platform, fields};

const SHUT: u32 = 0;
const OPEN: u32 = 1;
/// The run is given up: producers go home.
const GIVEN_UP: u32 = 2;

/// One use: producers arrive and wait, the coordinator opens, producers leave.
pub(crate) struct Gate<P: Platform> {
    /// How many still have to arrive; then how many still have to leave.
    missing: Padded<P::AtomicU32>,
    state: Padded<P::AtomicU32>,
    /// Where the coordinator sleeps until all have arrived, or have left.
    coordinator: Padded<Parker<P>>,
    producers: u32,
}
fields!(Gate<P: Platform> { missing, state, coordinator, producers });

impl<P: Platform> Gate<P> {
    pub(crate) fn new(producers: usize) -> Self {
        let producers = u32::try_from(producers).expect("a process has fewer than 2³² threads");
        Self {
            missing: Padded::new(P::AtomicU32::new(producers)),
            state: Padded::new(P::AtomicU32::new(SHUT)),
            coordinator: Padded::new(Parker::new()),
            producers,
        }
    }

    /// Producer: waits for the gate to open. False if the run was given up.
    pub(crate) fn pass(&self) -> bool {
        self.one_less();
        loop {
            match self.state.load(Acquire) {
                SHUT => P::wait(&self.state, SHUT, None),
                state => return state == OPEN,
            };
        }
    }

    /// Producer: is done.
    pub(crate) fn leave(&self) {
        self.one_less();
    }

    fn one_less(&self) {
        // AcqRel: the coordinator sees what all of them did before.
        if self.missing.fetch_sub(1, AcqRel) == 1 {
            self.coordinator.unpark();
        }
    }

    /// Coordinator: waits until all producers stand before the gate.
    pub(crate) fn wait_for_all(&self) {
        self.coordinator.park();
        self.missing.store(self.producers, Release);
    }

    /// Coordinator: lets them all go, at once.
    pub(crate) fn open(&self) {
        self.set(OPEN);
    }

    /// Coordinator: sends those that have arrived home, and those that will.
    pub(crate) fn give_up(&self) {
        self.set(GIVEN_UP);
    }

    fn set(&self, state: u32) {
        self.state.store(state, Release);
        P::wake_all(&raw const *self.state);
    }

    /// Coordinator: waits until all producers have left.
    pub(crate) fn wait_until_left(&self) {
        self.coordinator.park();
    }
}
