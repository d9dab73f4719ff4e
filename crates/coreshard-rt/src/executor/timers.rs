//! The timers that are set.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Release};

use coreshard_platform::{AtomicInt, Lock, RealTime, Time, user};

use super::task::Task;

/// By expiry, and then first come, first served.
pub(super) type Pending = BTreeMap<(Time, u64), Task>;

pub(super) struct Timers<P: RealTime> {
    pub(super) pending: Lock<P, Pending>,
    /// Advanced with every timer that may expire next; the timer thread sleeps on it.
    pub(super) changes: P::AtomicU32,
    pub(super) is_started: Lock<P, bool>,
    pub(super) ends: P::AtomicU32,
    /// 1 once the timer thread has handed on all tasks that it took out.
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
        // One by one: where one's destructor panics, the others are dropped all the same. The panic is not
        // reported, as that of any task's destructor.
        dropped.into_values().for_each(|task| drop(user::discard(task)));
    }

    /// Ends the timer thread. Afterwards each task that was due is accepted; one that came later would find
    /// no thread to run it.
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
