//! Tasks that begin after a while.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, RealTime, Time};

use super::Executor;
use super::handle::{self, TaskHandle};
use super::shared::Shared;
use crate::error::RtError;
use crate::level::Priority;

/// A timer that was set. Dropped, it stays set.
pub struct TimerHandle<P: RealTime> {
    shared: Arc<Shared<P>>,
    key: (Time, u64),
}

impl<P: RealTime> TimerHandle<P> {
    /// Takes the timer back. True if its task had not begun, and never will: its handle tells that it
    /// was dropped.
    pub fn cancel(self) -> bool {
        if self.shared.is_forked() {
            return false;
        }
        let task = self.shared.timers.pending.lock().remove(&self.key);
        task.is_some()
    }
}

impl<P: RealTime> fmt::Debug for TimerHandle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerHandle").field("at", &self.key.0).finish_non_exhaustive()
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
        shared.check_process()?;
        shared.prepare(priority)?;
        shared.start_timers()?;
        let (run, handle) = handle::with_handle(body);
        let task = shared.new_task(priority, shared.all_cpus(), None, run);
        let key = (P::now() + delay, task.id);
        let is_next = {
            let mut pending = shared.timers.pending.lock();
            pending.insert(key, task);
            pending.first_key_value().is_some_and(|(first, _)| *first == key)
        };
        if is_next {
            shared.timers.notify();
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
