//! The timers that are set.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Release};

use coreshard_platform::{AtomicInt, Lock, RealTime, Time, user};

use super::task::Task;

/// By moment, and among equal ones first come first.
pub(super) type Pending = BTreeMap<(Time, u64), Task>;

pub(super) struct Timers<P: RealTime> {
    pub(super) pending: Lock<P, Pending>,
    /// Advanced with every timer that may be the next one; the thread sleeps on it.
    pub(super) changes: P::AtomicU32,
    pub(super) is_started: Lock<P, bool>,
    pub(super) ends: P::AtomicU32,
    /// 1 once the thread is done with the tasks it had taken out.
    pub(super) over: P::AtomicU32,
}

impl<P: RealTime> Timers<P> {
    pub(super) fn new() -> Self {
        Self {
            pending: Lock::new(Pending::new()),
            changes: P::AtomicU32::new(0),
            is_started: Lock::new(false),
            ends: P::AtomicU32::new(0),
            over: P::AtomicU32::new(0),
        }
    }

    /// Drops the timers that are set, and what their tasks own.
    pub(super) fn discard(&self) {
        let dropped = std::mem::take(&mut *self.pending.lock());
        // Each of them for itself: what one throws is no reason to keep the others. Nobody hears of it,
        // as of what any destructor of a task throws that is over.
        dropped.into_values().for_each(|task| drop(user::discard(task)));
    }

    /// Ends the thread. Afterwards each task that was due is accepted: one that came later would find no
    /// thread.
    pub(super) fn end(&self) {
        self.ends.store(1, Release);
        self.notify();
        let is_started = *self.is_started.lock();
        while is_started && self.over.load(Acquire) == 0 {
            P::wait(&self.over, 0, None);
        }
    }

    pub(super) fn notify(&self) {
        self.changes.fetch_add(1, Release);
        P::wake_all(&raw const self.changes);
    }
}
