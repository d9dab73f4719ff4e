//! Tasks that begin after a delay.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use coreshard_platform::{AtomicInt, Lock, RealTime, Time, user};

use super::priority_array::Task;
use crate::error::RtError;

/// By expiry, and then first come, first served.
type Pending<P> = Lock<P, BTreeMap<(Time, u64), Task>>;

pub(super) struct Timers<P: RealTime> {
    pending: Arc<Pending<P>>,
    /// Advanced with every timer that may expire next; the timer thread sleeps on it.
    changes: P::AtomicU32,
    is_started: Lock<P, bool>,
    ends: P::AtomicU32,
    /// 1 once the timer thread has handed on all tasks that it took out.
    over: P::AtomicU32,
}

impl<P: RealTime> Timers<P> {
    pub(super) fn new() -> Self {
        Self {
            pending: Arc::new(Lock::new(BTreeMap::new())),
            changes: P::AtomicU32::new(0),
            is_started: Lock::new(false),
            ends: P::AtomicU32::new(0),
            over: P::AtomicU32::new(0),
        }
    }

    /// Starts the timer thread with `start`, unless it exists.
    pub(super) fn ensure_thread(
        &self,
        start: impl FnOnce() -> Result<(), RtError>,
    ) -> Result<(), RtError> {
        let mut is_started = self.is_started.lock();
        if !*is_started {
            start()?;
            *is_started = true;
        }
        Ok(())
    }

    /// Sets a timer for a task.
    pub(super) fn set(&self, at: Time, task: Task) -> TimerHandle<P> {
        let key = (at, task.id);
        let is_next = {
            let mut pending = self.pending.lock();
            pending.insert(key, task);
            pending.first_key_value().is_some_and(|(first, _)| *first == key)
        };
        if is_next {
            self.notify();
        }
        let process_generation = P::process_generation();
        TimerHandle { pending: Arc::clone(&self.pending), key, process_generation }
    }

    /// The timer thread's body: hands on the tasks that are due.
    pub(super) fn run(&self, accept: impl Fn(Task)) {
        loop {
            let seen = self.changes.load(Acquire);
            if self.ends.load(Acquire) != 0 {
                self.over.store(1, Release);
                P::wake_all(&raw const self.over);
                return;
            }
            let now = P::now();
            let mut due = Vec::new();
            let next = {
                let mut pending = self.pending.lock();
                while let Some(first) = pending.first_entry().filter(|first| first.key().0 <= now) {
                    due.push(first.remove());
                }
                pending.first_key_value().map(|(key, _)| key.0)
            };
            if due.is_empty() {
                P::wait(&self.changes, seen, next.map(|next| next - now));
            }
            due.into_iter().for_each(&accept);
        }
    }

    /// Drops the pending timers, and the values that their tasks own.
    pub(super) fn discard(&self) {
        let dropped = std::mem::take(&mut *self.pending.lock());
        // One by one: if a destructor panics, the others are still dropped. The panic is not reported, like
        // that of any task's destructor.
        dropped.into_values().for_each(|task| drop(user::discard(task)));
    }

    /// Stops the timer thread. Afterwards every task that was due is accepted; a later one would find no
    /// thread to run it.
    pub(super) fn end(&self) {
        self.ends.store(1, Release);
        self.notify();
        let is_started = *self.is_started.lock();
        while is_started && self.over.load(Acquire) == 0 {
            P::wait(&self.over, 0, None);
        }
    }

    fn notify(&self) {
        self.changes.fetch_add(1, Release);
        P::wake_all(&raw const self.changes);
    }
}

/// A handle to a timer. If it is dropped, the timer stays set.
pub struct TimerHandle<P: RealTime> {
    pending: Arc<Pending<P>>,
    key: (Time, u64),
    /// The generation of the executor's process.
    process_generation: u32,
}

impl<P: RealTime> TimerHandle<P> {
    /// Cancels the timer.
    ///
    /// Returns true if its task had not begun and never will; the task's handle then reports that it was
    /// dropped.
    pub fn cancel(self) -> bool {
        if P::process_generation() != self.process_generation {
            return false;
        }
        let task = self.pending.lock().remove(&self.key);
        task.is_some()
    }
}

impl<P: RealTime> fmt::Debug for TimerHandle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerHandle").field("at", &self.key.0).finish_non_exhaustive()
    }
}
