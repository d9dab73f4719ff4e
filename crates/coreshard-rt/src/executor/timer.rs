//! Tasks that begin after a while.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Lock, RealTime, Time, user};

use super::handle::{self, TaskHandle};
use super::waiting::Task;
use super::{Executor, Shared};
use crate::error::RtError;
use crate::level::Priority;

/// By moment, and among equal ones first come first.
type Pending = BTreeMap<(Time, u64), Task>;

pub(super) struct Timers<P: RealTime> {
    pending: Lock<P, Pending>,
    /// Advanced with every timer that may be the next one; the thread sleeps on it.
    changes: P::AtomicU32,
    is_started: Lock<P, bool>,
    ends: P::AtomicU32,
    /// 1 once the thread is done with the tasks it had taken out.
    over: P::AtomicU32,
}

/// A timer that was set. Dropped, it stays set.
pub struct TimerHandle<P: RealTime> {
    shared: Arc<Shared<P>>,
    key: (Time, u64),
}

impl<P: RealTime> TimerHandle<P> {
    /// Takes the timer back. True if its task had not begun, and never will: its handle tells that it
    /// was dropped.
    pub fn cancel(self) -> bool {
        let task = self.shared.timers.pending.lock().remove(&self.key);
        task.is_some()
    }
}

impl<P: RealTime> fmt::Debug for TimerHandle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerHandle").field("at", &self.key.0).finish_non_exhaustive()
    }
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
    /// lane.
    pub(super) fn end(&self) {
        self.ends.store(1, Release);
        self.tell();
        let is_started = *self.is_started.lock();
        while is_started && self.over.load(Acquire) == 0 {
            P::wait(&self.over, 0, None);
        }
    }

    fn tell(&self) {
        self.changes.fetch_add(1, Release);
        P::wake_all(&raw const self.changes);
    }
}

impl<P: RealTime> Executor<P> {
    /// Runs `body` at `priority` after `delay`, on whichever CPU runs the least important work then. A
    /// timer that is still set when the executor is dropped is dropped too.
    ///
    /// # Errors
    /// Where the threads of a priority that was not in use yet cannot be had.
    pub fn after<T: Send + 'static>(
        &self,
        delay: Duration,
        priority: Priority,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(TimerHandle<P>, TaskHandle<P, T>), RtError> {
        let shared = &self.shared;
        shared.prepare(priority)?;
        shared.start_timers()?;
        let (run, handle) = handle::told(body);
        let task = shared.new_task(priority, shared.all_cpus(), None, run);
        let key = (P::now() + delay, task.id);
        let is_next = {
            let mut pending = shared.timers.pending.lock();
            pending.insert(key, task);
            pending.first_key_value().is_some_and(|(first, _)| *first == key)
        };
        if is_next {
            shared.timers.tell();
        }
        Ok((TimerHandle { shared: Arc::clone(shared), key }, handle))
    }
}

impl<P: RealTime> Shared<P> {
    fn start_timers(self: &Arc<Self>) -> Result<(), RtError> {
        let mut is_started = self.timers.is_started.lock();
        if !*is_started {
            let shared = Arc::clone(self);
            // Above all tasks: it only hands them on.
            let policy = self.highest_policy();
            let body = move || shared.run_timers();
            self.start_thread("rt-timers".to_owned(), None, policy, Box::new(body))?;
            *is_started = true;
        }
        Ok(())
    }

    fn run_timers(&self) {
        let timers = &self.timers;
        loop {
            let seen = timers.changes.load(Acquire);
            if timers.ends.load(Acquire) != 0 {
                timers.over.store(1, Release);
                P::wake_all(&raw const timers.over);
                return;
            }
            let now = P::now();
            let mut due = Vec::new();
            let next = {
                let mut pending = timers.pending.lock();
                while let Some(first) = pending.first_entry().filter(|first| first.key().0 <= now) {
                    due.push(first.remove());
                }
                pending.first_key_value().map(|(key, _)| key.0)
            };
            if due.is_empty() {
                P::wait(&timers.changes, seen, next.map(|next| next - now));
                continue;
            }
            due.into_iter().for_each(|task| self.accept(task));
        }
    }
}
