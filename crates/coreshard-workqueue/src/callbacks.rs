//! Calls to user code that the calling thread must not wait for: diagnostic handlers, wakers of other executors, destructors
//! of items that will not run, and the last handle of a queue, whose drop waits.
//!
//! The timekeeper and the monitor owe such calls, but other threads depend on both, and user code may block, even forever.
//! So separate threads make the calls. One thread is enough until a call blocks: while callbacks wait, their owner looks
//! every few milliseconds. If no callback was begun since its last look, it starts one more thread, up to a limit. So a
//! callback that blocks costs a thread, and delays the others by two looks at most.
//!
//! Rules:
//!
//! 1. The list and the counts are under the lock. No callback is called or dropped while it is held.
//! 2. A thread that finds no callback sleeps on the event, counted as idle, and exits after [`IDLE_TIME`]. Before that, it
//!    checks the list once more under the lock. A thread that adds a callback notifies the event afterwards.
//! 3. If a thread cannot be started, the list stays as it is, and the next look tries again. If no thread exists at all, the
//!    owner calls the wakers itself: they seldom block, and the tasks that they wake would otherwise wait forever. The other
//!    callbacks that no thread could call are called by [`Callbacks::finish`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{Lock, Platform, ThreadSpec, Time};

use crate::base::event::Event;
use crate::insight::diagnostic::{say, say_panic};

/// Between two looks, while something waits to be called.
pub(crate) const PATIENCE: Duration = Duration::from_millis(2);

/// How long a thread waits for something to call before it ends.
const IDLE_TIME: Duration = Duration::from_secs(1);

/// User code to be called.
pub(crate) enum Callback {
    /// Another executor's code.
    Wake(Waker),
    /// Any other code; returns its panic.
    Call(Box<dyn FnOnce() -> Result<(), Thrown> + Send>),
}

impl Callback {
    pub(crate) fn new(call: impl FnOnce() -> Result<(), Thrown> + Send + 'static) -> Self {
        Self::Call(Box::new(call))
    }

    fn call(self) -> Result<(), Thrown> {
        match self {
            Self::Wake(waker) => user::wake(waker),
            Self::Call(call) => user::call(call).and_then(|outcome| outcome),
        }
    }

    fn call_and_report(self) {
        say_panic(self.call(), "a handler, waker or destructor panicked");
    }
}

/// Callbacks that wait to be called, and the threads that call them.
pub(crate) struct Callbacks<P: Platform> {
    state: Lock<P, CallbackList>,
    /// A callback was added, or the threads are to exit.
    changed: Event<P>,
    threads: Threads,
    /// The process that made it, as [`Platform::process_generation`] counts them.
    process_generation: u32,
}

/// The threads that call the callbacks.
#[derive(Clone, Copy)]
pub(crate) struct Threads {
    pub(crate) name: &'static str,
    /// The most threads that may exist. If user code blocks them all, the remaining callbacks wait.
    pub(crate) most: usize,
}

struct CallbackList {
    waiting: VecDeque<Callback>,
    threads: usize,
    idle: usize,
    /// Callbacks that were begun.
    begun: u64,
    /// While callbacks wait: the time since which looks have seen no progress, and how many callbacks were begun by then.
    stuck: Option<(Time, u64)>,
    stopping: bool,
}

impl CallbackList {
    fn take(&mut self) -> Option<Callback> {
        let next = self.waiting.pop_front()?;
        self.begun += 1;
        Some(next)
    }
}

impl<P: Platform> Callbacks<P> {
    pub(crate) fn new(threads: Threads) -> Self {
        let state = CallbackList {
            waiting: VecDeque::new(),
            threads: 0,
            idle: 0,
            begun: 0,
            stuck: None,
            stopping: false,
        };
        Self {
            state: Lock::new(state),
            changed: Event::new(),
            threads,
            process_generation: P::process_generation(),
        }
    }

    /// Queues a callback. Another thread calls it.
    pub(crate) fn add(self: &Arc<Self>, callback: Callback) {
        drop(self.offer(callback, usize::MAX));
    }

    /// As [`Self::add`], but returns the callback if `most` wait already.
    pub(crate) fn offer(self: &Arc<Self>, callback: Callback, most: usize) -> Result<(), Callback> {
        let mut state = self.state.lock();
        if state.waiting.len() >= most {
            return Err(callback);
        }
        state.waiting.push_back(callback);
        let (has_idle, has_none) = (state.idle > 0, state.threads == 0);
        state.threads += usize::from(has_none);
        drop(state);
        if has_idle {
            self.changed.notify();
        } else if has_none {
            self.start_thread();
        }
        Ok(())
    }

    /// Starts a thread if the callbacks make no progress. Returns true if callbacks wait: then the caller must look again
    /// after [`PATIENCE`].
    pub(crate) fn look(self: &Arc<Self>) -> bool {
        let mut state = self.state.lock();
        if state.waiting.is_empty() {
            state.stuck = None;
            return false;
        }
        let now = P::now();
        let begun = state.begun;
        let starts = match state.stuck {
            Some((since, then)) if then == begun && now - since < PATIENCE => return true,
            // Idle ones were notified, and are on their way.
            Some((_, then)) if then == begun => {
                state.idle == 0 && state.threads < self.threads.most
            }
            _ => false,
        };
        state.stuck = Some((now, begun));
        state.threads += usize::from(starts);
        drop(state);
        if starts && !self.start_thread() {
            self.call_wakers();
        }
        true
    }

    /// Calls the waiting wakers. No thread exists, and none can be started.
    #[cold]
    fn call_wakers(&self) {
        let next = || {
            let mut state = self.state.lock();
            let is_waker = |callback: &Callback| matches!(callback, Callback::Wake(_));
            let place = state.waiting.iter().position(is_waker).filter(|_| state.threads == 0)?;
            state.begun += 1;
            state.waiting.remove(place)
        };
        while let Some(waker) = next() {
            waker.call_and_report();
        }
    }

    /// Lets the threads exit when no callback is left.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.changed.notify();
    }

    /// Reverts [`Self::stop`] or [`Self::finish`]: threads wait for callbacks again.
    pub(crate) fn resume(&self) {
        self.state.lock().stopping = false;
    }

    /// As [`Self::stop`], for an owner that does not look again. If no thread could be started, calls the callbacks here:
    /// otherwise they would never be called, and their captures would leak.
    pub(crate) fn finish(&self) {
        let left = || {
            let mut state = self.state.lock();
            if state.threads == 0 { state.take() } else { None }
        };
        while let Some(callback) = left() {
            callback.call_and_report();
        }
        self.stop();
    }

    /// Starts a thread that was counted. Returns false if it cannot be started.
    fn start_thread(self: &Arc<Self>) -> bool {
        let callbacks = Arc::clone(self);
        let spec = ThreadSpec { name: self.threads.name.to_owned(), ..ThreadSpec::default() };
        let started = P::spawn(spec, Box::new(move || callbacks.run()));
        if let Err(error) = &started {
            self.state.lock().threads -= 1;
            say(|| tracing::warn!(%error, "handlers, wakers and destructors wait for a thread"));
        }
        started.is_ok()
    }

    fn run(&self) {
        while let Some(callback) = self.next() {
            callback.call_and_report();
        }
    }

    /// Returns the next callback, or `None` if the thread must exit. It is no longer counted then.
    fn next(&self) -> Option<Callback> {
        loop {
            let mut state = self.state.lock();
            if let Some(next) = state.take() {
                return Some(next);
            }
            if state.stopping {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            drop(state);
            let deadline = P::now() + IDLE_TIME;
            let something = || {
                let state = self.state.lock();
                !state.waiting.is_empty() || state.stopping
            };
            let has_something = self.changed.wait_until(Some(deadline), something);
            let mut state = self.state.lock();
            state.idle -= 1;
            if !has_something && state.waiting.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }
}

impl<P: Platform> Drop for Callbacks<P> {
    fn drop(&mut self) {
        // No other thread has access, but in a forked process, a thread of the parent may have held the lock. The callbacks
        // called here add none: that would take a reference to this object.
        let left = self.state.try_lock().map(|mut state| std::mem::take(&mut state.waiting));
        if P::process_generation() == self.process_generation {
            left.into_iter().flatten().for_each(Callback::call_and_report);
        } else {
            // The parent process calls them.
            std::mem::forget(left);
        }
    }
}
