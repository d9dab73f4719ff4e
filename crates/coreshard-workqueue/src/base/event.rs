//! A word that waiters sleep on until a condition holds.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use coreshard_platform::{AtomicInt, Platform, Time, fields};

/// Counts notifications. A waiter reads the count before it evaluates its condition, and sleeps only while the count is
/// unchanged, so a notification in between is not lost.
#[derive(Debug)]
pub(crate) struct Event<P: Platform> {
    count: P::AtomicU32,
}
fields!(Event<P: Platform> { count });

impl<P: Platform> Event<P> {
    pub(crate) fn new() -> Self {
        Self { count: P::AtomicU32::new(0) }
    }

    /// Wakes all waiters, so that they check their conditions again.
    pub(crate) fn notify(&self) {
        self.count.fetch_add(1, AcqRel);
        P::wake_all(&raw const self.count);
    }

    /// Waits until `holds` returns true. Returns false if `deadline` passed first.
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
