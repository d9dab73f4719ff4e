//! A word that waiters sleep on while a condition of theirs does not hold.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use coreshard_platform::{AtomicInt, Platform, Time, fields};

/// Counts notifications; a waiter that read the count before it found its condition false sleeps
/// only while the count is the same, so a notification in between is not lost.
#[derive(Debug)]
pub(crate) struct Event<P: Platform> {
    count: P::AtomicU32,
}
fields!(Event<P: Platform> { count });

impl<P: Platform> Event<P> {
    pub(crate) fn new() -> Self {
        Self { count: P::AtomicU32::new(0) }
    }

    /// Wakes all waiters, so that they look at their conditions again.
    pub(crate) fn notify(&self) {
        self.count.fetch_add(1, AcqRel);
        P::wake_all(&raw const self.count);
    }

    /// Waits until `holds` does. False if `deadline` came first.
    pub(crate) fn wait_until(
        &self,
        deadline: Option<Time>,
        mut holds: impl FnMut() -> bool,
    ) -> bool {
        loop {
            let seen = self.count.load(Acquire);
            if holds() {
                return true;
            }
            let left = match deadline {
                None => None,
                Some(deadline) if P::now() >= deadline => return false,
                Some(deadline) => Some(deadline - P::now()),
            };
            P::wait(&self.count, seen, left);
        }
    }
}
